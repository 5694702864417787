// What was measured over time (docs/api.md, "History"), made ready to be drawn. Pure. Times are seconds since 1970, by the
// server's clock.

export interface HistoryEvent {
  time: number;
  event: string;
  worker?: number;
  name?: string;
  epoch?: number;
}

export interface History {
  interval_s: number;
  kept_s: number;
  columns: string[];
  samples: (number | null)[][]; // oldest first, in the order of columns
  events: HistoryEvent[];
}

function timeOf(history: History, sample: (number | null)[] | undefined): number {
  return sample?.[history.columns.indexOf('time')] ?? Number.NaN;
}

export function lastTime(history: History): number | null {
  const time = timeOf(history, history.samples.at(-1));
  return Number.isFinite(time) ? time : null;
}

// With what came since a time; newer has all of it. Of what is too old nothing is kept.
export function addNewer(history: History, newer: History, since: number): History {
  if (newer.columns.join() !== history.columns.join()) return newer; // another server: it begins anew
  const samples = [
    ...history.samples.filter((one) => timeOf(history, one) <= since),
    ...newer.samples.filter((one) => timeOf(newer, one) > since),
  ];
  const events = [...history.events.filter((one) => one.time <= since), ...newer.events.filter((one) => one.time > since)];
  const oldest = timeOf(history, samples.at(-1)) - newer.kept_s;
  return {
    ...newer,
    samples: samples.filter((one) => !(timeOf(history, one) < oldest)),
    events: events.filter((one) => !(one.time < oldest)),
  };
}

export interface Point {
  time: number;
  values: Record<string, number | null>;
}

export interface Points {
  from: number;
  to: number;
  step_s: number; // between points
  points: Point[]; // oldest first
}

const MOST_POINTS = 360;

type Fold = (values: number[]) => number;
const mean: Fold = (values) => values.reduce((sum, one) => sum + one, 0) / values.length;
// Means, but for the worst that half or nearly all requests had, and the fewest machines.
const FOLDS: Record<string, Fold> = {
  ttft_p95_s: (values) => Math.max(...values),
  tpot_p95_s: (values) => Math.max(...values),
  workers: (values) => Math.min(...values),
};

// The last range_s, with several samples in a point where there are too many.
export function pointsOf(history: History, range_s: number): Points {
  const to = lastTime(history) ?? 0;
  const from = to - range_s;
  const interval = Math.max(1e-3, history.interval_s);
  const each = Math.max(1, Math.ceil(range_s / interval / MOST_POINTS - 1e-9));
  const step_s = each * interval;
  const points: Point[] = [];
  let here: (number | null)[][] = [];
  const flush = (end: number): void => {
    if (here.length === 0) return;
    const values: Point['values'] = {};
    history.columns.forEach((name, column) => {
      if (name === 'time') return;
      const known = here.flatMap((sample) => sample[column] ?? []);
      values[name] = known.length > 0 ? (FOLDS[name] ?? mean)(known) : null;
    });
    points.push({ time: end, values });
    here = [];
  };
  // Points end at multiples of their step, so that they stay as they are while time goes on; the last ends now.
  let end = Number.NaN;
  for (const sample of history.samples) {
    const time = timeOf(history, sample);
    if (!(time > from)) continue;
    const its = each === 1 ? time : Math.ceil(time / step_s - 1e-9) * step_s;
    if (its !== end) flush(end);
    end = its;
    here.push(sample);
  }
  flush(Math.min(end, to));
  return { from, to, step_s, points };
}

// Which point is the nearest to a time, or -1 where there are none.
export function nearest(points: Point[], time: number): number {
  let best = -1;
  points.forEach((one, i) => {
    if (best < 0 || Math.abs(one.time - time) < Math.abs((points[best] as Point).time - time)) best = i;
  });
  return best;
}

// A line through the values, with a gap where there are none.
export function lineOf({ points, step_s }: Points, column: string, x: (time: number) => number, y: (value: number) => number): string {
  let path = '';
  let before: Point | null = null; // the last one, if the line goes on from it
  points.forEach((one, i) => {
    const value = one.values[column] ?? null;
    if (value === null) {
      before = null;
      return;
    }
    const place = `${x(one.time).toFixed(1)} ${y(value).toFixed(1)}`;
    const joined = before !== null && one.time - before.time < 1.5 * step_s;
    const next = points[i + 1];
    const alone = !joined && !(next && next.values[column] != null && next.time - one.time < 1.5 * step_s);
    path += `${joined ? 'L' : 'M'}${place}${alone ? 'h0.01' : ''}`; // a value that stands alone is a dot
    before = one;
  });
  return path;
}

export function greatest(points: Point[], columns: string[]): number {
  return points.reduce((most, one) => columns.reduce((so, name) => Math.max(so, one.values[name] ?? 0), most), 0);
}
