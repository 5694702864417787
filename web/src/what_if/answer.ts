// A what-if answer as the server gives it, and what the page makes of it.

export interface Times {
  mean: number;
  p50: number;
  p95: number;
}

export interface Machine {
  name: string;
  type: string;
  region: string;
  is_new: boolean;
  layers: [number, number]; // first, past the last
  flow_tokens_per_s: number;
  most_tokens_per_s: number;
  in_cut: boolean;
}

export interface Side {
  max_flow_tokens_per_s: number;
  upper_bound_tokens_per_s: number;
  gap: number;
  proven_optimal: boolean;
  limited_by: string;
  mean_depth: number;
  predicted_tokens_per_s: number;
  alone: { ttft_s: number; tpot_s: number } | null;
  simulated: {
    saturated_tokens_per_s: number;
    offered_tokens_per_s: number;
    served_tokens_per_s: number;
    ttft_s: Times | null;
    tpot_s: Times | null;
  } | null;
  not_simulated?: string;
  machines: Machine[];
  warnings: string[];
}

export interface Suggestion {
  change: string;
  gain_tokens_per_s: number;
  usd_per_hour: number;
  gain_per_usd_per_hour: number;
  add?: string;
  region?: string;
}

export interface Answer {
  changes: string[];
  seconds: number;
  today: Side;
  planned_anew: Side | null;
  what_if: Side;
  moved_bytes: number;
  moved_s: number;
  load: { mean_prompt_tokens: number; mean_output_tokens: number };
  apply: { possible: boolean; reason?: string; layers?: Record<string, [number, number]>; drain?: string[] };
  suggestions: { ranked: Suggestion[]; skipped: string[]; stopped: boolean } | null;
}

// A machine of either side, or of both.
export interface Row {
  name: string;
  type: string;
  before: Machine | null;
  after: Machine | null;
}

export function rowsOf(answer: Answer): Row[] {
  const after = new Map(answer.what_if.machines.map((one) => [one.name, one]));
  const rows: Row[] = answer.today.machines.map((before) => ({
    name: before.name, type: before.type, before, after: after.get(before.name) ?? null,
  }));
  const known = new Set(rows.map((one) => one.name));
  for (const one of answer.what_if.machines) {
    if (!known.has(one.name)) rows.push({ name: one.name, type: one.type, before: null, after: one });
  }
  return rows;
}

export function layerCount(answer: Answer): number {
  return Math.max(1, ...answer.today.machines.map((one) => one.layers[1]), ...answer.what_if.machines.map((one) => one.layers[1]));
}

// "+12 %", or '' where there is nothing to compare.
export function gainText(before: number, after: number): string {
  if (!(before > 0) || !Number.isFinite(after)) return '';
  const part = 100 * (after / before - 1);
  const text = Math.abs(part) < 9.95 ? part.toFixed(1) : part.toFixed(0);
  return Number(text) === 0 ? '±0 %' : `${part > 0 ? '+' : '−'}${text.replace('-', '')} %`;
}
