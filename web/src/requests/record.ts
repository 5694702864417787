import { reasonText } from '../cluster/words';

// A request as the server tells of it (docs/api.md, "The cluster, and following it"). Seconds count from its arrival;
// what is not known yet is left out.

export interface Stage {
  worker: number;
  layers: [number, number]; // first, past the last
}

// A pipeline that it was given.
export interface Attempt {
  at_s: number;
  reason: string;
  pipeline: Stage[];
}

export interface RequestRecord {
  id: string;
  choice: number;
  endpoint: string;
  stream: boolean;
  created: number; // seconds since 1970
  state: string; // queued, running, or how it ended
  reason?: string;
  prompt_tokens?: number;
  cached_tokens?: number;
  completion_tokens?: number;
  queue_s?: number;
  ttft_s?: number;
  tokens_per_s?: number;
  ended_s?: number;
  pipeline?: Stage[];
  attempts?: Attempt[];
  attempts_left_out?: number; // later ones, which are not kept
}

export type Phase = 'waiting' | 'prefill' | 'decode' | 'stop' | 'length' | 'abort' | 'error' | 'rejected';

export function keyOf(record: RequestRecord): string {
  return `${record.id}/${record.choice}`;
}

// As people read it: most requests have one answer.
export function nameOf(record: RequestRecord): string {
  return record.choice > 0 ? keyOf(record) : record.id;
}

export function isRunning(record: RequestRecord): boolean {
  return record.state === 'queued' || record.state === 'running';
}

export function hasFailed(record: RequestRecord): boolean {
  return record.state === 'error' || record.state === 'rejected';
}

export function phaseOf(record: RequestRecord): Phase {
  if (record.state === 'queued') return 'waiting';
  if (record.state === 'running') return record.ttft_s === undefined ? 'prefill' : 'decode';
  return record.state as Phase;
}

// Pipelines after the first.
export function movesOf(record: RequestRecord): number {
  return Math.max(0, (record.attempts?.length ?? 0) + (record.attempts_left_out ?? 0) - 1);
}

// Those that run before those that ended, each newest first.
export function inOrder(records: RequestRecord[]): RequestRecord[] {
  return [...records].sort(
    (a, b) =>
      Number(isRunning(b)) - Number(isRunning(a)) || b.created - a.created || (a.id < b.id ? 1 : a.id > b.id ? -1 : a.choice - b.choice),
  );
}

export interface Span {
  kind: 'waiting' | 'prefill' | 'decode' | 'pipeline';
  from: number;
  to: number;
  open: boolean; // it still goes on
  unknown?: boolean; // when it ended is not known
  attempt?: number; // the pipeline's place in attempts
  why: string;
}

// What the time of a request went into, and which pipelines it had meanwhile. Seconds count from its arrival, now is
// how many there are so far.
export function spansOf(record: RequestRecord, now: number): { phases: Span[]; pipelines: Span[]; end: number } {
  const attempts = record.attempts ?? [];
  const known = Math.max(record.queue_s ?? 0, record.ttft_s ?? 0, ...attempts.map((one) => one.at_s));
  const end = Math.max(known, record.ended_s ?? (isRunning(record) ? now : 0));
  const ended = !isRunning(record);
  const phases: Span[] = [];
  const add = (kind: Span['kind'], from: number, to: number | undefined, why: string): void => {
    phases.push({ kind, from, to: Math.max(from, to ?? end), open: to === undefined && !ended, why });
  };
  add('waiting', 0, record.queue_s, 'until a pipeline had room for it');
  if (record.queue_s !== undefined) add('prefill', record.queue_s, record.ttft_s, 'its prompt is computed, up to the first token');
  if (record.ttft_s !== undefined) add('decode', record.ttft_s, record.ended_s, 'its answer, token by token');
  const pipelines = attempts.map((one, i): Span => {
    const next = attempts[i + 1];
    const unknown = !next && (record.attempts_left_out ?? 0) > 0;
    return {
      kind: 'pipeline', from: one.at_s, to: unknown ? one.at_s : Math.max(one.at_s, next?.at_s ?? end), open: !next && !ended && !unknown,
      unknown, attempt: i, why: one.reason === 'first' ? 'its first pipeline' : reasonText(one.reason),
    };
  });
  return { phases, pipelines, end };
}
