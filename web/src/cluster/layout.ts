import { COORDINATOR, ends, type Worker } from './state';

// Where the picture has what: machines in the order in which requests pass them, from the coordinator
// and back to it, each region a band. Where there is little room the flow goes down instead.

export interface Spot {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Edge {
  key: string;
  from: string;
  to: string;
  path: string;
  width: number;
  middle: [number, number];
}

export interface Layout {
  down: boolean;
  small: boolean; // cards with less on them
  width: number;
  height: number;
  spots: Record<string, Spot>;
  bands: (Spot & { region: string })[];
  source: Spot;
  sink: Spot;
  edges: Edge[];
}

const PAD = 12;
const BAND_HEAD = 26;
const END = 18; // thickness of the coordinator's ends
const MOST_EDGE = 16; // pixels
const LEAST_EDGE = 1.5;

// How many machines a request has passed before it, at most.
export function ranksOf(workers: Worker[], flows: Record<string, number>): Map<string, number> {
  const ranks = new Map<string, number>();
  const holders = workers
    .filter((one) => one.layers[0] < one.layers[1])
    .sort((a, b) => a.layers[1] - b.layers[1] || a.layers[0] - b.layers[0]);
  const before = new Map<string, string[]>();
  for (const key of Object.keys(flows)) {
    const [from, to] = ends(key);
    if (from !== COORDINATOR && to !== COORDINATOR) before.set(to, [...(before.get(to) ?? []), from]);
  }
  for (const one of holders) {
    const id = String(one.id);
    const planned = (before.get(id) ?? []).flatMap((from) => ranks.get(from) ?? []);
    // The plan sends it nothing: beside those that could.
    const could = holders
      .filter((other) => other !== one && one.layers[0] > 0 && other.layers[1] <= one.layers[0])
      .flatMap((other) => ranks.get(String(other.id)) ?? []);
    const earlier = planned.length > 0 ? planned : could;
    ranks.set(id, earlier.length > 0 ? 1 + Math.max(...earlier) : 0);
  }
  return ranks;
}

function byName(a: Worker, b: Worker): number {
  return a.layers[0] - b.layers[0] || (a.name < b.name ? -1 : a.name > b.name ? 1 : a.id - b.id);
}

interface Grid {
  columns: number;
  ranks: Map<string, number>;
  cell: { w: number; h: number; gapX: number; gapY: number };
}

function across(workers: Worker[], grid: Grid, layout: Layout, room: number): void {
  const { cell, columns, ranks } = grid;
  const free = room - 2 * (PAD + END) - columns * cell.w;
  const gap = Math.max(cell.gapX, Math.min(150, free / (columns + 1)));
  const left = PAD + END + gap;
  layout.width = Math.max(room, 2 * left + columns * cell.w + (columns - 1) * gap);
  const start = (layout.width - columns * cell.w - (columns - 1) * gap) / 2;
  let y = PAD;
  for (const region of [...new Set(workers.map((one) => one.region))].sort()) {
    const here = workers.filter((one) => one.region === region).sort(byName);
    const inColumns = Array.from({ length: columns }, (_, rank) => here.filter((one) => ranks.get(String(one.id)) === rank));
    const idle = here.filter((one) => !ranks.has(String(one.id)));
    const rows = Math.max(0, ...inColumns.map((column) => column.length));
    const idleRows = Math.ceil(idle.length / columns);
    const put = (one: Worker, column: number, row: number): void => {
      layout.spots[String(one.id)] = {
        x: start + column * (cell.w + gap),
        y: y + BAND_HEAD + row * (cell.h + cell.gapY),
        w: cell.w,
        h: cell.h,
      };
    };
    inColumns.forEach((column, rank) => column.forEach((one, i) => put(one, rank, i + (rows - column.length) / 2)));
    idle.forEach((one, i) => put(one, i % columns, rows + Math.floor(i / columns)));
    const h = BAND_HEAD + (rows + idleRows) * (cell.h + cell.gapY) + PAD - cell.gapY;
    layout.bands.push({ region, x: PAD + END + 8, y, w: layout.width - 2 * (PAD + END + 8), h });
    y += h + PAD;
  }
  layout.height = y;
}

// As many beside each other as fit, each below where most of what it gets comes from.
function down(workers: Worker[], flows: Record<string, number>, grid: Grid, layout: Layout, room: number): void {
  const { cell, columns, ranks } = grid;
  const beside = Math.max(1, Math.min(4, Math.floor((room - PAD) / (cell.w + PAD)), workers.length));
  const left = (room - beside * cell.w - (beside - 1) * PAD) / 2;
  const columnOf = new Map<string, number>();
  const wanted = (one: Worker): number => {
    const best = Object.entries(flows)
      .filter(([key]) => ends(key)[1] === String(one.id) && columnOf.has(ends(key)[0]))
      .sort((a, b) => b[1] - a[1])[0];
    return best ? (columnOf.get(ends(best[0])[0]) ?? -1) : -1;
  };
  layout.width = room;
  let y = PAD + END + cell.gapX;
  for (let rank = 0; rank <= columns; ++rank) {
    const here = workers
      .filter((one) => (ranks.get(String(one.id)) ?? columns) === rank)
      .sort((a, b) => (a.region < b.region ? -1 : a.region > b.region ? 1 : byName(a, b)));
    if (here.length === 0) continue;
    const rows: string[][] = [];
    for (const one of here) {
      const free = (row: string[], column: number): boolean => row[column] === undefined;
      let row = rows.at(-1);
      if (!row || Object.keys(row).length === beside) rows.push((row = []));
      const want = wanted(one);
      const column = want >= 0 && free(row, want) ? want : Array.from({ length: beside }, (_, i) => i).find((i) => free(row, i));
      row[column ?? 0] = String(one.id);
      columnOf.set(String(one.id), column ?? 0);
    }
    rows.forEach((row, r) =>
      row.forEach((id, column) => {
        layout.spots[id] = { x: left + column * (cell.w + PAD), y: y + r * (cell.h + cell.gapY), w: cell.w, h: cell.h };
      }),
    );
    y += rows.length * (cell.h + cell.gapY) - cell.gapY + cell.gapX;
  }
  layout.height = y + END + PAD;
}

// The sides that edges leave and enter by: each has its share, in the order of the other ends.
function drawEdges(flows: Record<string, number>, layout: Layout): void {
  const place = (id: string, leaves: boolean): Spot | undefined =>
    id === COORDINATOR ? (leaves ? layout.source : layout.sink) : layout.spots[id];
  const drawn = Object.entries(flows).flatMap(([key, flow]) => {
    const [from, to] = ends(key);
    const a = place(from, true);
    const b = place(to, false);
    return a && b && flow > 0 ? [{ key, from, to, flow, a, b }] : [];
  });
  const middle = (spot: Spot): number => (layout.down ? spot.x + spot.w / 2 : spot.y + spot.h / 2);
  const sums = new Map<Spot, number>();
  let scale = MOST_EDGE / Math.max(1e-9, ...drawn.map((one) => one.flow));
  for (const side of ['a', 'b'] as const) {
    sums.clear();
    for (const one of drawn) sums.set(one[side], (sums.get(one[side]) ?? 0) + one.flow);
    for (const [spot, sum] of sums) scale = Math.min(scale, (0.8 * (layout.down ? spot.w : spot.h)) / sum);
  }
  const widthOf = (flow: number): number => Math.max(LEAST_EDGE, flow * scale);
  const offsets = { a: new Map<string, number>(), b: new Map<string, number>() };
  for (const [side, other] of [['a', 'b'], ['b', 'a']] as const) {
    for (const spot of new Set(drawn.map((one) => one[side]))) {
      const here = drawn.filter((one) => one[side] === spot).sort((p, q) => middle(p[other]) - middle(q[other]));
      // The coordinator's ends are as long as the picture: what goes there goes straight.
      const straight = spot === layout.source || spot === layout.sink;
      let at = middle(spot) - here.reduce((sum, one) => sum + widthOf(one.flow), 0) / 2;
      for (const one of here) {
        offsets[side].set(one.key, straight ? middle(one[other]) : at + widthOf(one.flow) / 2);
        at += widthOf(one.flow);
      }
    }
  }
  for (const one of drawn) {
    const [p, q] = [offsets.a.get(one.key) ?? 0, offsets.b.get(one.key) ?? 0];
    const [s, t] = layout.down ? [one.a.y + one.a.h, one.b.y] : [one.a.x + one.a.w, one.b.x];
    const bend = Math.max(18, Math.abs(t - s) / 2);
    const path = layout.down
      ? `M${p} ${s}C${p} ${s + bend} ${q} ${t - bend} ${q} ${t}`
      : `M${s} ${p}C${s + bend} ${p} ${t - bend} ${q} ${t} ${q}`;
    const centre: [number, number] = layout.down ? [(p + q) / 2, (s + t) / 2] : [(s + t) / 2, (p + q) / 2];
    layout.edges.push({ key: one.key, from: one.from, to: one.to, path, width: widthOf(one.flow), middle: centre });
  }
}

export function arrange(workers: Worker[], flows: Record<string, number>, room: number): Layout {
  const ranks = ranksOf(workers, flows);
  const columns = Math.max(1, ...[...ranks.values()].map((rank) => rank + 1));
  const goesDown = room < 620;
  const small = workers.length > 12 || (!goesDown && room < columns * (176 + 48) + 2 * (PAD + END) + 48);
  const h = small ? 84 : 104;
  const fits = Math.floor((room - 2 * (PAD + END + 22)) / columns) - 22;
  const cell = goesDown
    ? { w: Math.min(small ? 122 : 146, Math.floor((room - 3 * PAD) / 2)), h, gapX: 46, gapY: 12 }
    : { w: small ? Math.max(98, Math.min(122, fits)) : 176, h, gapX: small ? 22 : 48, gapY: 12 };
  const layout: Layout = {
    down: goesDown, small, width: room, height: 0, spots: {}, bands: [], edges: [],
    source: { x: 0, y: 0, w: 0, h: 0 }, sink: { x: 0, y: 0, w: 0, h: 0 },
  };
  if (goesDown) {
    down(workers, flows, { columns, ranks, cell }, layout, room);
    layout.source = { x: PAD, y: PAD, w: layout.width - 2 * PAD, h: END };
    layout.sink = { x: PAD, y: layout.height - PAD - END, w: layout.width - 2 * PAD, h: END };
  } else {
    across(workers, { columns, ranks, cell }, layout, room);
    layout.source = { x: PAD, y: PAD, w: END, h: layout.height - 2 * PAD };
    layout.sink = { x: layout.width - PAD - END, y: PAD, w: END, h: layout.height - 2 * PAD };
  }
  drawEdges(flows, layout);
  return layout;
}

// A line from the coordinator through machines, in the order of a pipeline, and back to it. Those that the picture does
// not have are left out.
export function pathThrough(layout: Layout, ids: string[]): string {
  const spots = ids.flatMap((id) => layout.spots[id] ?? []);
  const [first, last] = [spots[0], spots.at(-1)];
  if (!first || !last) return '';
  const { down, source, sink } = layout;
  const ends = (spot: Spot): string =>
    down ? `L${spot.x + spot.w / 2} ${spot.y}V${spot.y + spot.h}` : `L${spot.x} ${spot.y + spot.h / 2}H${spot.x + spot.w}`;
  const from = down ? `M${first.x + first.w / 2} ${source.y + source.h}` : `M${source.x + source.w} ${first.y + first.h / 2}`;
  const to = down ? `V${sink.y}` : `H${sink.x}`;
  return from + spots.map(ends).join('') + to;
}
