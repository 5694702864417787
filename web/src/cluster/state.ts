// The cluster as the server tells it (docs/api.md, "The cluster, and following it"), and what two
// states in a row say of the time between them.

export const COORDINATOR = '-1';

export interface Worker {
  id: number;
  name: string;
  type: string;
  region: string;
  role: string;
  state: string;
  incarnation: number;
  layers: [number, number]; // first, past the last
  kv_pages: number;
  kv_pages_used: number;
  requests: number;
  batches: number;
  rows: number;
  busy_s: number;
  slowdown: number;
  drain_refused?: string;
  drain_waits?: string;
}

export interface CutPart {
  kind: 'machine' | 'network_in' | 'network_out' | 'link' | 'trunk';
  worker?: number;
  from?: number;
  to?: number;
  from_region?: string;
  to_region?: string;
}

export interface Plan {
  method: string;
  max_flow_tokens_per_s: number;
  upper_bound_tokens_per_s: number;
  gap: number;
  proven_optimal: boolean;
  limited_by: string;
  min_cut: CutPart[];
  nodes: { worker: number; most_tokens_per_s: number; flow_tokens_per_s: number }[];
}

export interface ClusterState {
  time_s: number;
  model: string;
  n_layers: number;
  serving: boolean;
  epoch: number;
  waiting: number;
  running: number;
  workers: Record<string, Worker>;
  flows: Record<string, number>; // tokens/s by FROM>TO
  links: Record<string, number>; // rows so far, by FROM>TO
  plan?: Plan;
}

export function ends(key: string): [string, string] {
  const [from = '', to = ''] = key.split('>');
  return [from, to];
}

export interface WorkerRates {
  tokensPerS: number; // rows that it computed
  batch: number; // rows of a batch; 0: it ran none
  busy: number; // the part of the time that it computed
}

export interface Rates {
  workers: Record<string, WorkerRates>;
  links: Record<string, number>; // tokens/s
  tokensPerS: number; // into pipelines
}

const WINDOW_S = 5;

// What went on in the last seconds, by the counters of the states that were seen.
export class Meter {
  #samples: ClusterState[] = [];

  add(state: ClusterState): void {
    const last = this.#samples.at(-1);
    if (last && state.time_s < last.time_s) this.#samples = []; // another server
    if (last && state.time_s === last.time_s) this.#samples.pop();
    this.#samples.push(state);
    while (this.#samples.length > 2 && (this.#samples[1] as ClusterState).time_s <= state.time_s - WINDOW_S) {
      this.#samples.shift();
    }
  }

  clear(): void {
    this.#samples = [];
  }

  rates(): Rates {
    const rates: Rates = { workers: {}, links: {}, tokensPerS: 0 };
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    const seconds = first && last ? last.time_s - first.time_s : 0;
    if (!first || !last || seconds <= 0) return rates;
    for (const [id, now] of Object.entries(last.workers)) {
      const was = first.workers[id];
      if (!was || now.rows < was.rows) continue; // it came, or began anew, meanwhile
      const batches = now.batches - was.batches;
      rates.workers[id] = {
        tokensPerS: (now.rows - was.rows) / seconds,
        batch: batches > 0 ? (now.rows - was.rows) / batches : 0,
        busy: Math.min(1, Math.max(0, (now.busy_s - was.busy_s) / seconds)),
      };
    }
    for (const [key, rows] of Object.entries(last.links)) {
      // A link that was not there had no rows; a new reader knows only what it saw.
      const tokens = Math.max(0, rows - (first.links[key] ?? 0)) / seconds;
      rates.links[key] = tokens;
      if (ends(key)[0] === COORDINATOR) rates.tokensPerS += tokens;
    }
    return rates;
  }
}

export function layersText([first, end]: [number, number]): string {
  return first >= end ? 'none' : end - first === 1 ? `${first}` : `${first}–${end - 1}`;
}

export function kvFill(worker: Worker): number {
  return worker.kv_pages > 0 ? worker.kv_pages_used / worker.kv_pages : 0;
}

// One of five, for colours.
export function step(part: number): number {
  return part <= 0.02 ? 0 : part < 0.35 ? 1 : part < 0.65 ? 2 : part < 0.9 ? 3 : 4;
}
