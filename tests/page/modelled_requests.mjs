// Requests as /helix/events?requests=1 tells of them, and hours as /helix/history does, in front of a modelled cluster.

// A pipeline along the planned flow; which one, the number says.
export function pipelineOf(cluster, number) {
  const pipeline = [];
  for (let at = '-1'; pipeline.length === 0 || at !== '-1'; ) {
    const next = Object.keys(cluster.flows).filter((key) => key.startsWith(`${at}>`)).map((key) => key.slice(key.indexOf('>') + 1));
    at = next[number % next.length];
    if (at !== '-1') pipeline.push({ worker: Number(at), layers: cluster.workers[at].layers });
  }
  return pipeline;
}

export function request(cluster, number, created, more = {}) {
  const pipeline = pipelineOf(cluster, number);
  return {
    id: `chatcmpl-${number.toString(16).padStart(16, '0')}`, choice: 0, endpoint: number % 9 === 4 ? 'completions' : 'chat', stream: true, created, state: 'stop',
    prompt_tokens: 20 + ((number * 37) % 900), cached_tokens: number % 3 === 0 ? 16 : 0, completion_tokens: 10 + ((number * 53) % 400),
    queue_s: 0.01 + (number % 7) / 50, ttft_s: 0.4 + (number % 11) / 10, tokens_per_s: 8 + (number % 13), ended_s: 9 + (number % 23), pipeline,
    attempts: [{ at_s: 0.01 + (number % 7) / 50, reason: 'first', pipeline }], attempts_left_out: 0, ...more,
  };
}

const UNKNOWN = { ended_s: undefined, ttft_s: undefined, tokens_per_s: undefined };

// So many requests, a second apart, the last of which run.
export function requests(cluster, count, now) {
  const log = {};
  for (let i = 1; i <= count; ++i) {
    const created = now - (count - i) - 0.5;
    const left = count - i;
    const [first, second, third] = [i, i + 1, i + 2].map((number) => pipelineOf(cluster, number));
    const more = left === 0 ? { state: 'queued', ...UNKNOWN, queue_s: undefined, pipeline: [], attempts: [], completion_tokens: 0 }
      : left < 3 ? { state: 'running', ...UNKNOWN, completion_tokens: 0 }
      : left < 8 ? { state: 'running', ended_s: undefined, ttft_s: 0.4, queue_s: 0.1 }
      : i % 50 === 7 ? { state: 'error', ttft_s: undefined, tokens_per_s: undefined, completion_tokens: 0 }
      : i % 50 === 9 ? { state: 'rejected', ...UNKNOWN, queue_s: undefined, ended_s: 0, pipeline: [], attempts: [], completion_tokens: 0 }
      : i % 50 === 11 ? { state: 'abort', reason: 'disconnected' }
      : i % 50 === 13 ? { state: 'length', ended_s: 14, pipeline: third, attempts: [
          { at_s: 0.1, reason: 'first', pipeline: first }, { at_s: 4, reason: 'worker_lost', pipeline: second },
          { at_s: 9.5, reason: 'moved', pipeline: third }] }
      : {};
    const one = request(cluster, i, created, more);
    log[`${one.id}/${one.choice}`] = JSON.parse(JSON.stringify(one));
  }
  return log;
}

const COLUMNS = ['time', 'tokens_per_s', 'prompt_tokens_per_s', 'running', 'waiting', 'finished', 'failed', 'ttft_p50_s', 'ttft_p95_s',
  'tpot_p50_s', 'tpot_p95_s', 'kv_used', 'busy', 'workers'];

export function emptyHistory() {
  return { interval_s: 10, kept_s: 21_600, columns: COLUMNS, samples: [], events: [] };
}

export function sample(time, i) {
  const load = 0.55 + 0.35 * Math.sin(i / 55) + 0.03 * Math.sin(i * 1.7);
  const idle = i % 400 > 370; // nothing came, and nothing was measured of it
  return [
    time, idle ? 0 : 380 * load, idle ? 0 : 900 * load * (0.9 + 0.1 * Math.sin(i / 5)), idle ? 0 : Math.round(24 * load),
    idle ? 0 : Math.max(0, Math.round(30 * (load - 0.8))), idle ? 0 : Math.round(12 * load), i % 97 === 5 ? 2 : 0,
    ...(idle ? [null, null, null, null] : [0.3 + 0.5 * load ** 2, 0.6 + 2.4 * load ** 3, 0.031 + 0.02 * load, 0.05 + 0.06 * load ** 2]),
    0.15 + 0.7 * load, idle ? 0 : 0.2 + 0.7 * load, i % 300 > 240 ? 2 : 3,
  ];
}

// So many samples, the last at a time; twice the server said nothing for two minutes.
export function history(count, end) {
  const out = emptyHistory();
  for (let i = count - 1; i >= 0; --i) {
    if (i % 700 >= 50 && i % 700 < 62) continue;
    out.samples.push(sample(end - 10 * i, count - i));
  }
  for (const [before, event] of [[15_000, 'joined'], [9000, 'draining'], [8800, 'drained'], [700, 'lost'], [330, 'joined']]) {
    out.events.push({ time: end - before, event, worker: 3, name: 'attic' });
  }
  out.events.splice(-1, 0, { time: end - 690, event: 'placement', epoch: 2 });
  return out;
}
