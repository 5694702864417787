// What-if answers as the server gives them, for pages that are looked at.

function side(machines, flow, bound, more = {}) {
  return {
    max_flow_tokens_per_s: flow, upper_bound_tokens_per_s: bound, gap: 1 - flow / bound, proven_optimal: false, method: 'search',
    limited_by: 'the link atlas -> den and attic (layers 0-11)', min_cut: [], mean_depth: 1.8, least_kv_tokens: 5000,
    predicted_tokens_per_s: flow / 4, alone: { ttft_s: 0.31, tpot_s: 0.042 },
    simulated: {
      saturated_tokens_per_s: flow / 4.1, offered_tokens_per_s: 270, served_tokens_per_s: 268.5,
      ttft_s: { mean: 0.9, p50: 0.8, p95: 2.1 }, tpot_s: { mean: 0.055, p50: 0.05, p95: 0.08 },
    },
    machines, warnings: [], ...more,
  };
}

function machine(name, type, layers, more = {}) {
  return { name, type, region: 'home', is_new: false, layers, flow_tokens_per_s: 300, most_tokens_per_s: 360, in_cut: false, ...more };
}

// Three machines, of which den goes and two cards come.
export function answer() {
  const today = side([machine('atlas', 'A100-40GB', [0, 6]), machine('den', 'A100-40GB', [6, 12]), machine('attic', 'A100-40GB', [0, 12], { in_cut: true })], 390, 420);
  const whatIf = side([
    machine('atlas', 'A100-40GB', [0, 8]), machine('attic', 'A100-40GB', [4, 12]),
    machine('new-RTX 4090', 'RTX 4090', [0, 12], { is_new: true, in_cut: true }), machine('new-RTX 4090-2', 'RTX 4090', [0, 0], { is_new: true, flow_tokens_per_s: 0 }),
  ], 612, 640, {
    limited_by: 'new-RTX 4090 (layers 0-11)', alone: { ttft_s: 0.2, tpot_s: 0.031 },
    simulated: {
      saturated_tokens_per_s: 149, offered_tokens_per_s: 270, served_tokens_per_s: 270, ttft_s: { mean: 0.5, p50: 0.4, p95: 1.1 },
      tpot_s: { mean: 0.06, p50: 0.05, p95: 0.08 },
    },
  });
  return {
    changes: ['remove den', 'add 2 x RTX 4090 in home'], seconds: 6.25, today, planned_anew: side(today.machines, 401, 420), what_if: whatIf,
    moved_bytes: 7.2e9, moved_s: 7.2, load: { mean_prompt_tokens: 320.5, mean_output_tokens: 140.2 },
    apply: { possible: false, reason: 'The plan is for what is not there: add 2 x RTX 4090 in home.' },
    suggestions: {
      ranked: [
        { change: 'add RTX 3060 in home', add: 'RTX 3060', region: 'home', tokens_per_s: 120, gain_tokens_per_s: 21.5, usd_per_hour: 0.012, gain_per_usd_per_hour: 1791 },
        { change: 'link atlas:den at 2 Gbit/s', tokens_per_s: 110, gain_tokens_per_s: 11, usd_per_hour: 0.05, gain_per_usd_per_hour: 220 },
      ],
      tokens_per_s: 98, skipped: [], stopped: false,
    },
  };
}

// What planning anew brings: it can be applied.
export function applicable() {
  const one = answer();
  one.changes = ['remove den'];
  one.what_if.machines = one.what_if.machines.slice(0, 2);
  one.apply = { possible: true, layers: { atlas: [0, 8], attic: [4, 12] }, drain: ['den'] };
  one.suggestions = null;
  return one;
}
