// The openai package, as anybody installs it, against HELIX_BASE_URL (".../v1"). Knows nothing of the model
// behind it but that it answers.
import assert from 'node:assert/strict';
import { File } from 'node:buffer';
import { createServer } from 'node:http';
import OpenAI, { toFile } from 'openai';
import { check, finish } from './check.mjs';

// Node 18, which Debian 12 has, knows File but not as a global, and the package asks for the global.
globalThis.File ??= File;

const baseURL = process.env.HELIX_BASE_URL;
assert.ok(baseURL, 'HELIX_BASE_URL is not set');
const client = new OpenAI({ baseURL, apiKey: process.env.HELIX_API_KEY ?? 'none', maxRetries: 0 });
const messages = [{ role: 'user', content: 'Say something about machines.' }];
let model = process.env.HELIX_MODEL;

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const text = chunks.map((c) => c.choices[0]?.delta?.content ?? c.choices[0]?.text ?? '').join('');
  return { chunks, text };
}

const greedy = (more = {}) => ({ model, messages, temperature: 0, max_tokens: 24, ...more });

await check('models.list and models.retrieve', async () => {
  const page = await client.models.list();
  assert.ok(page.data.length > 0);
  model ??= page.data[0].id;
  assert.equal((await client.models.retrieve(model)).id, model);
});

await check('chat.completions.create', async () => {
  const answer = await client.chat.completions.create(greedy());
  assert.equal(answer.object, 'chat.completion');
  assert.equal(answer.choices.length, 1);
  assert.equal(answer.choices[0].message.role, 'assistant');
  assert.ok(answer.choices[0].message.content.length > 0);
  assert.ok(['stop', 'length'].includes(answer.choices[0].finish_reason));
  const { prompt_tokens, completion_tokens, total_tokens } = answer.usage;
  assert.ok(prompt_tokens > 0 && completion_tokens > 0 && completion_tokens <= 24);
  assert.equal(total_tokens, prompt_tokens + completion_tokens);
  assert.ok(answer._request_id);
});

await check('a stream says what the whole answer says, with usage on request', async () => {
  const whole = await client.chat.completions.create(greedy());
  const { chunks, text } = await collect(
    await client.chat.completions.create(greedy({ stream: true, stream_options: { include_usage: true } })),
  );
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(chunks[0].choices[0].delta.role, 'assistant');
  assert.equal(new Set(chunks.map((c) => c.id)).size, 1);
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.deepEqual(chunks.at(-1).usage, whole.usage);
  assert.equal(chunks.at(-2).choices[0].finish_reason, whole.choices[0].finish_reason);
  assert.ok(chunks.slice(0, -1).every((c) => c.usage === null));
});

await check('embeddings.create, as base64 and as numbers', async () => {
  const input = ['One machine.', 'Two machines.'];
  const packed = await client.embeddings.create({ model, input }); // asks for base64 and decodes it
  assert.equal(packed.object, 'list');
  assert.deepEqual(packed.data.map((d) => d.index), [0, 1]);
  assert.equal(packed.usage.total_tokens, packed.usage.prompt_tokens);
  const plain = await client.embeddings.create({ model, input, encoding_format: 'float' });
  packed.data.forEach((one, i) => {
    assert.deepEqual(Array.from(one.embedding), plain.data[i].embedding.map(Math.fround));
    assert.ok(Math.abs(Math.hypot(...one.embedding) - 1) < 1e-4);
  });
  const [alone] = (await client.embeddings.create({ model, input: input[1], dimensions: 2 })).data;
  assert.equal(alone.embedding.length, 2);
  assert.ok(Math.abs(Math.hypot(...alone.embedding) - 1) < 1e-4);
  await assert.rejects(client.embeddings.create({ model, input: [] }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'input');
    return true;
  });
});

await check('the .stream() helper', async () => {
  const stream = client.chat.completions.stream(greedy());
  const deltas = [];
  stream.on('content', (delta) => deltas.push(delta));
  const final = await stream.finalChatCompletion();
  assert.equal(deltas.join(''), final.choices[0].message.content);
  assert.equal(await stream.finalContent(), final.choices[0].message.content);
  assert.equal(final.choices[0].message.role, 'assistant');
});

await check('abort in the middle of a stream', async () => {
  const stream = await client.chat.completions.create(
    { model, messages, stream: true, ignore_eos: true },
  );
  let seen = 0;
  for await (const chunk of stream) {
    assert.ok(chunk.id);
    seen += 1;
    if (seen === 3) stream.controller.abort();
  }
  assert.ok(seen >= 3);
  assert.ok((await client.chat.completions.create(greedy())).choices[0].message.content.length > 0);
});

await check('an aborted .stream() helper rejects with APIUserAbortError', async () => {
  const stream = client.chat.completions.stream({ model, messages, ignore_eos: true });
  stream.on('content', () => stream.abort());
  await assert.rejects(stream.done(), OpenAI.APIUserAbortError);
});

await check('legacy completions, whole and streamed', async () => {
  const body = { model, prompt: 'One day', temperature: 0, max_tokens: 12 };
  const whole = await client.completions.create(body);
  assert.equal(whole.object, 'text_completion');
  const { text } = await collect(await client.completions.create({ ...body, stream: true }));
  assert.equal(text, whole.choices[0].text);
  const echoed = await client.completions.create({ ...body, echo: true });
  assert.equal(echoed.choices[0].text, `One day${whole.choices[0].text}`);
});

await check('log-probabilities of a prompt, with and without an answer', async () => {
  const body = { model, prompt: 'One day', temperature: 0, logprobs: 1, echo: true };
  const drawn = (await client.completions.create({ ...body, max_tokens: 6 })).choices[0].logprobs;
  assert.equal(drawn.token_logprobs[0], null);
  assert.equal(drawn.top_logprobs[0], null);
  assert.ok(drawn.token_logprobs.slice(1).every((value) => value <= 0));
  const answer = await client.completions.create({ ...body, max_tokens: 0 });
  const { text, finish_reason: reason, logprobs: scored } = answer.choices[0];
  assert.equal(text, 'One day');
  assert.equal(reason, 'length');
  assert.equal(answer.usage.completion_tokens, 0);
  assert.equal(scored.tokens.length, answer.usage.prompt_tokens);
  for (const field of ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset'])
    assert.deepEqual(scored[field], drawn[field].slice(0, scored.tokens.length), field);
});

await check('a stop string ends the text before it', async () => {
  const text = (await client.chat.completions.create(greedy())).choices[0].message.content;
  const stop = text.slice(5, 8);
  const answer = await client.chat.completions.create(greedy({ stop: [stop] }));
  assert.equal(answer.choices[0].message.content, text.slice(0, text.indexOf(stop)));
  assert.equal(answer.choices[0].finish_reason, 'stop');
  const { text: streamed } = await collect(
    await client.chat.completions.create(greedy({ stop, stream: true })),
  );
  assert.equal(streamed, answer.choices[0].message.content);
});

await check('log-probabilities, whole and streamed', async () => {
  const options = greedy({ max_tokens: 6, logprobs: true, top_logprobs: 1 });
  const whole = await client.chat.completions.create(options);
  const content = whole.choices[0].logprobs.content;
  assert.ok(content.length > 0 && content.every((t) => t.logprob <= 0 && t.top_logprobs.length === 1));
  const final = await client.chat.completions.stream(options).finalChatCompletion();
  assert.deepEqual(final.choices[0].logprobs.content, content);
});

await check('the same seed says the same', async () => {
  const options = { model, messages, max_tokens: 12, temperature: 1, seed: 11 };
  const first = await client.chat.completions.create(options);
  const second = await client.chat.completions.create(options);
  assert.equal(first.choices[0].message.content, second.choices[0].message.content);
});

await check('content parts, a system message and unknown fields', async () => {
  const answer = await client.chat.completions.create(greedy({
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'Hello' }, { type: 'text', text: 'there' }] },
    ],
    max_tokens: undefined,
    max_completion_tokens: 8,
    user: 'tester',
    metadata: { a: 'b' },
    store: false,
    some_future_field: { x: [1] },
  }));
  assert.ok(answer.usage.completion_tokens <= 8);
});

await check('errors have their classes, parameters and codes', async () => {
  await assert.rejects(client.chat.completions.create(greedy({ model: 'no-such-model' })), (e) => {
    assert.ok(e instanceof OpenAI.NotFoundError);
    assert.equal(e.code, 'model_not_found');
    return true;
  });
  await assert.rejects(client.chat.completions.create(greedy({ temperature: 'hot' })), (e) => {
    assert.ok(e instanceof OpenAI.BadRequestError);
    assert.equal(e.param, 'temperature');
    assert.equal(e.type, 'invalid_request_error');
    assert.ok(e.requestID);
    return true;
  });
  const long = [{ role: 'user', content: 'machine '.repeat(100000) }];
  await assert.rejects(client.chat.completions.create(greedy({ messages: long, stream: true })), (e) => {
    assert.ok(e instanceof OpenAI.BadRequestError);
    assert.equal(e.code, 'context_length_exceeded');
    return true;
  });
  await assert.rejects(client.models.retrieve('no-such-model'), OpenAI.NotFoundError);
});

const respond = (more = {}) => ({
  model, input: 'Say something about machines.', temperature: 0, max_output_tokens: 24, ...more,
});

await check('responses.create', async () => {
  const answer = await client.responses.create(respond({ instructions: 'Be brief.', metadata: { a: 'b' } }));
  assert.equal(answer.object, 'response');
  assert.ok(['completed', 'incomplete'].includes(answer.status));
  assert.ok(answer.output_text.length > 0);
  assert.equal(answer.instructions, 'Be brief.');
  assert.deepEqual(answer.metadata, { a: 'b' });
  assert.equal(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens);
});

await check('streamed responses, raw and by the .stream() helper', async () => {
  const whole = await client.responses.create(respond());
  const types = [];
  let text = '';
  let number = 0;
  for await (const event of await client.responses.create(respond({ stream: true }))) {
    assert.equal(event.sequence_number, number);
    number += 1;
    if (event.type === 'response.output_text.delta') text += event.delta;
    if (event.type !== types.at(-1)) types.push(event.type);
  }
  assert.equal(text, whole.output_text);
  assert.deepEqual(types, [
    'response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added',
    'response.output_text.delta', 'response.output_text.done', 'response.content_part.done', 'response.output_item.done',
    `response.${whole.status}`,
  ]);
  const stream = client.responses.stream(respond());
  let snapshot = '';
  stream.on('response.output_text.delta', (event) => { snapshot = event.snapshot; });
  const final = await stream.finalResponse();
  assert.equal(snapshot, whole.output_text);
  assert.equal(final.output[0].content[0].text, whole.output_text);
});

await check('a response to a history with items of all kinds', async () => {
  const answer = await client.responses.create(respond({
    max_output_tokens: 8,
    tools: [{ type: 'function', name: 'look', strict: false, parameters: { type: 'object', properties: {} } }],
    input: [
      { role: 'user', content: [{ type: 'input_text', text: 'What is it?' }] },
      { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'Look first.' }] },
      { type: 'function_call', call_id: 'call_1', name: 'look', arguments: '{"at":"sky"}' },
      { type: 'function_call_output', call_id: 'call_1', output: 'blue' },
    ],
  }));
  assert.ok(answer.output_text.length > 0);
  await assert.rejects(client.responses.create(respond({ max_output_tokens: 0 })), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'max_output_tokens');
    return true;
  });
});

const machine = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 16 },
    kind: { enum: ['worker', 'coordinator'] },
    cores: { type: 'integer', minimum: 1, maximum: 64 },
  },
  required: ['name', 'kind', 'cores'],
  additionalProperties: false,
};
const asSchema = (schema) => ({
  response_format: { type: 'json_schema', json_schema: { name: 'machine', strict: true, schema } },
});

await check('a schema that is not supported is refused with its place', async () => {
  const wrong = { ...machine, properties: { name: { type: 'array', unevaluatedItems: false } }, required: [] };
  await assert.rejects(client.chat.completions.create(greedy(asSchema(wrong))), (e) => {
    assert.ok(e instanceof OpenAI.BadRequestError);
    assert.equal(e.param, 'response_format.json_schema.schema');
    assert.match(e.message, /#\/properties\/name: keyword "unevaluatedItems" is not supported/);
    return true;
  });
});

// Needs a model that draws tokens; the fake server says what it says.
if (process.env.HELIX_DRAWS_TOKENS) {
  await check('a response by a JSON schema', async () => {
    const format = { type: 'json_schema', name: 'machine', strict: true, schema: machine };
    const answer = await client.responses.create(respond({ text: { format }, max_output_tokens: 120 }));
    assert.deepEqual(Object.keys(JSON.parse(answer.output_text)), ['name', 'kind', 'cores']);
  });

  await check('an answer by a JSON schema, whole and streamed', async () => {
    const options = greedy({ ...asSchema(machine), max_tokens: 120 });
    const answer = await client.chat.completions.create(options);
    assert.equal(answer.choices[0].finish_reason, 'stop');
    const value = JSON.parse(answer.choices[0].message.content);
    assert.deepEqual(Object.keys(value), ['name', 'kind', 'cores']);
    assert.ok(['worker', 'coordinator'].includes(value.kind));
    assert.ok(Number.isInteger(value.cores) && value.cores >= 1 && value.cores <= 64);
    const { text } = await collect(await client.chat.completions.create({ ...options, stream: true }));
    assert.equal(text, answer.choices[0].message.content);
  });
}

await check('eight streams at once', async () => {
  const expected = (await client.chat.completions.create(greedy())).choices[0].message.content;
  const texts = await Promise.all(
    Array.from({ length: 8 }, async () =>
      (await collect(await client.chat.completions.create(greedy({ stream: true })))).text),
  );
  assert.deepEqual(texts, Array(8).fill(expected));
});

// A server in front of Helix's that answers first with `status`, and passes on what comes later.
async function behindBusyServer(status, body) {
  const arrived = [];
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    arrived.push(performance.now());
    if (arrived.length === 1) {
      response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '1' });
      response.end(JSON.stringify({ error: { message: 'busy', type: 'server_error', param: null, code: null } }));
      return;
    }
    const answer = await fetch(new URL(request.url.replace(/^\/v1/, baseURL)), {
      method: request.method,
      body: Buffer.concat(parts),
      headers: { 'content-type': 'application/json', authorization: request.headers.authorization },
    });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') });
    for await (const part of answer.body) response.write(part);
    response.end();
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  try {
    await body(`http://127.0.0.1:${server.address().port}/v1`, arrived);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

await check('maxRetries: after a 429 and a 503 the client waits as Retry-After says, and then has its answer', async () => {
  const expected = (await client.chat.completions.create(greedy())).choices[0].message.content;
  await Promise.all([429, 503].map((status) => behindBusyServer(status, async (address, arrived) => {
    const patient = client.withOptions({ baseURL: address, maxRetries: 1 });
    assert.equal((await collect(await patient.chat.completions.create(greedy({ stream: true })))).text, expected);
    assert.equal(arrived.length, 2);
    assert.ok(arrived[1] - arrived[0] >= 950, `${arrived[1] - arrived[0]} ms between the requests`);
  })));
  await behindBusyServer(503, async (address, arrived) => {
    await assert.rejects(client.withOptions({ baseURL: address }).models.list(), OpenAI.InternalServerError);
    assert.equal(arrived.length, 1);
  });
});

// Only for a server that keeps files, batches and responses.
if (process.env.HELIX_STATE_DIR) {
  await check('a response goes on from an earlier one, which is kept until it is deleted', async () => {
    const first = await client.responses.create(respond());
    const second = await client.responses.create(respond({ input: 'And then?', previous_response_id: first.id }));
    const history = [
      { role: 'user', content: respond().input }, ...first.output, { role: 'user', content: 'And then?' },
    ];
    const whole = await client.responses.create(respond({ input: history, store: false }));
    assert.equal(second.output_text, whole.output_text);
    assert.equal(second.usage.input_tokens, whole.usage.input_tokens);
    assert.equal(second.previous_response_id, first.id);
    assert.equal((await client.responses.retrieve(first.id)).output_text, first.output_text);
    await client.responses.delete(first.id);
    await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
    await assert.rejects(client.responses.retrieve(whole.id), OpenAI.NotFoundError);
  });

  await check('a batch, from the upload to the output file', async () => {
    const line = (id, more) => JSON.stringify({
      custom_id: id, method: 'POST', url: '/v1/chat/completions', body: greedy(more),
    });
    const text = [line('one'), line('two', { max_tokens: 5 }), line('wrong', { temperature: 'hot' })].join('\n');
    const file = await client.files.create({
      file: await toFile(Buffer.from(text), 'requests.jsonl'), purpose: 'batch',
    });
    assert.equal(file.filename, 'requests.jsonl');
    assert.equal(await (await client.files.content(file.id)).text(), text);
    let batch = await client.batches.create({
      input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h', metadata: { by: 'node' },
    });
    for (let i = 0; i < 600 && !['completed', 'failed', 'expired'].includes(batch.status); i += 1) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      batch = await client.batches.retrieve(batch.id);
    }
    assert.equal(batch.status, 'completed', JSON.stringify(batch.errors));
    assert.deepEqual(batch.request_counts, { total: 3, completed: 2, failed: 1 });
    const lines = async (id) => (await (await client.files.content(id)).text()).trim().split('\n').map((each) => JSON.parse(each));
    const answers = await lines(batch.output_file_id);
    assert.deepEqual(answers.map((a) => a.custom_id).sort(), ['one', 'two']);
    const whole = await client.chat.completions.create(greedy());
    const one = answers.find((a) => a.custom_id === 'one');
    assert.equal(one.response.body.choices[0].message.content, whole.choices[0].message.content);
    const [wrong] = await lines(batch.error_file_id);
    assert.equal(wrong.response.status_code, 400);
    assert.equal(wrong.response.body.error.param, 'temperature');
    const listed = [];
    for await (const each of client.batches.list({ limit: 1 })) listed.push(each.id);
    assert.ok(listed.includes(batch.id));
    await assert.rejects(client.batches.cancel(batch.id), OpenAI.BadRequestError);
    assert.ok((await client.files.delete(file.id)).deleted);
    await assert.rejects(client.files.retrieve(file.id), OpenAI.NotFoundError);
  });
}

finish();
