// Clusters as /helix/events tells of them, with figures that a test wants to see: what a real one would take 42 machines
// to show.

const COORDINATOR = -1;

function worker(id, name, region, layers, more = {}) {
  return {
    id, name, region, layers, host: id, processors: id, type: 'A100-40GB', role: 'both', state: layers[0] < layers[1] ? 'serving' : 'idle',
    incarnation: 1, memory_bytes: 4e10, ready: true, kv_pages: 1000, kv_pages_used: 120 + ((id * 137) % 700), kv_pages_estimated: 100,
    requests: id % 5, batches: 0, rows: 0, busy_s: 0, slowdown: 1, ...more,
  };
}

function clusterOf(workers, flows, nLayers, plan) {
  return {
    time_s: 1000, model: 'stand-in', n_layers: nLayers, serving: true, epoch: 1, waiting: 0, running: 3, swapped: 0, finished: 10, failed: 0,
    rejected: 0, preemptions: 0, failovers: 0, links_down: [], drained_away: [], migrations: { committed: 0, under_way: 0 },
    workers: Object.fromEntries(workers.map((one) => [one.id, one])), flows,
    links: Object.fromEntries(Object.keys(flows).map((key) => [key, 0])), plan,
  };
}

function planOf(workers, flows, cut, limitedBy) {
  const through = (id) => Object.entries(flows).reduce((sum, [key, flow]) => sum + (key.endsWith(`>${id}`) ? flow : 0), 0);
  const flow = through(COORDINATOR);
  return {
    method: 'search', max_flow_tokens_per_s: flow, upper_bound_tokens_per_s: flow * 1.08, gap: 1 - 1 / 1.08, proven_optimal: false,
    limited_by: limitedBy, min_cut: cut,
    nodes: workers.filter((one) => one.layers[0] < one.layers[1])
      .map((one) => ({ worker: one.id, most_tokens_per_s: through(one.id) * 1.2, flow_tokens_per_s: through(one.id) })),
  };
}

// Three unequal machines in two places: two hold the beginning, one of them all of it.
export function three() {
  const workers = [worker(1, 'atlas', 'home', [0, 6]), worker(2, 'den', 'home', [6, 12]), worker(3, 'attic', 'office', [0, 12])];
  const flows = { '-1>1': 300, '1>2': 300, '2>-1': 300, '-1>3': 90, '3>-1': 90 };
  return clusterOf(workers, flows, 12,
    planOf(workers, flows, [{ kind: 'link', from: 1, to: 2 }, { kind: 'machine', worker: 3 }], 'the link atlas -> den and attic (layers 0-11)'));
}

// 42 machines of three regions, in pipelines of four, two and seven stages, that mix where layers meet.
export function fortyTwo() {
  const regions = [
    { name: 'eu-west', ends: [0, 20, 40, 60, 80], beside: 3, idle: 2 },
    { name: 'us-east', ends: [0, 40, 80], beside: 7, idle: 0 },
    { name: 'asia-south-1', ends: [0, 12, 24, 36, 48, 60, 70, 80], beside: 2, idle: 0 },
  ];
  const workers = [];
  const flows = {};
  let id = 0;
  for (const { name, ends, beside, idle } of regions) {
    let before = [COORDINATOR];
    for (let stage = 0; stage + 1 < ends.length; ++stage) {
      const here = Array.from({ length: beside }, (_, i) => {
        workers.push(worker(++id, `${name}-${stage + 1}${String.fromCharCode(97 + i)}`, name, [ends[stage], ends[stage + 1]]));
        return id;
      });
      for (const [i, to] of here.entries()) {
        const froms = before.length === 1 ? before : [before[i], before[(i + 1) % before.length]];
        for (const from of froms) flows[`${from}>${to}`] = (60 + 7 * i) / froms.length;
      }
      before = here;
    }
    for (const [i, from] of before.entries()) flows[`${from}>-1`] = 60 + 7 * i;
    for (let i = 0; i < idle; ++i) workers.push(worker(++id, `${name}-spare${i}`, name, [0, 0]));
  }
  flows['6>23'] = 15; // from one region to the next, at layer 40
  const state = clusterOf(workers, flows, 80,
    planOf(workers, flows, [{ kind: 'machine', worker: 7 }, { kind: 'machine', worker: 8 }, { kind: 'network_in', worker: 9 },
      { kind: 'trunk', from_region: 'eu-west', to_region: 'us-east' }],
    'eu-west-3a (layers 40-59), eu-west-3b (layers 40-59), the inbound network of eu-west-3c and the trunk from region eu-west to us-east'));
  return state;
}

// What half a second of work changes: each link carries this part of what is planned.
export function work(state, part) {
  const seconds = 0.5;
  const patch = { time_s: state.time_s + seconds, workers: {}, links: {} };
  for (const [key, flow] of Object.entries(state.flows)) {
    patch.links[key] = state.links[key] + Math.round(flow * part * seconds * 100) / 100;
  }
  for (const one of Object.values(state.workers)) {
    const rows = Object.entries(state.flows).reduce((sum, [key, flow]) => sum + (key.endsWith(`>${one.id}`) ? flow : 0), 0) * part * seconds;
    if (rows === 0) continue;
    const busy = Math.min(1, part * (0.4 + ((one.id * 29) % 60) / 100));
    patch.workers[one.id] = { rows: one.rows + rows, batches: one.batches + rows / 8, busy_s: one.busy_s + busy * seconds };
  }
  return patch;
}

export function merge(target, patch) {
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete target[name];
    else if (typeof value === 'object' && !Array.isArray(value)) target[name] = merge(target[name] ?? {}, value);
    else target[name] = value;
  }
  return target;
}

export { worker };
