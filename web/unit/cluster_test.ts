import assert from 'node:assert/strict';
import { test } from 'node:test';
import { arrange, ranksOf } from '../src/cluster/layout';
import { type ClusterState, Meter, type Worker } from '../src/cluster/state';
import { mergePatch } from '../src/lib/merge_patch';

function worker(id: number, region: string, layers: [number, number]): Worker {
  return {
    id, name: `w${id}`, type: '', region, role: 'both', state: 'serving', layers, kv_pages: 10, kv_pages_used: 0, requests: 0, batches: 0,
    rows: 0, busy_s: 0, slowdown: 1, incarnation: 1,
  };
}

function state(time_s: number, rows: number): ClusterState {
  return {
    time_s, model: 'm', n_layers: 4, serving: true, epoch: 1, waiting: 0, running: 0,
    workers: { 1: { ...worker(1, 'a', [0, 4]), rows, batches: rows / 4, busy_s: rows / 100 } }, flows: { '-1>1': 10, '1>-1': 10 },
    links: { '-1>1': rows, '1>-1': rows },
  };
}

test('a patch changes what it names, removes what is null, and leaves the rest the same', () => {
  const before = { keep: { a: 1 }, change: { b: 1, c: 2 }, go: 1, list: [1, 2] };
  const after = mergePatch(before, { change: { b: 2, d: 3 }, go: null, list: [3] });
  assert.deepEqual(after, { keep: { a: 1 }, change: { b: 2, c: 2, d: 3 }, list: [3] });
  assert.equal(after.keep, before.keep);
  assert.equal(before.change.b, 1);
  mergePatch({}, JSON.parse('{"__proto__": {"polluted": 1}}'));
  assert.equal(({} as { polluted?: number }).polluted, undefined);
});

test('rates are those of the last seconds, and a worker that began anew has none', () => {
  const meter = new Meter();
  meter.add(state(0, 0));
  assert.equal(meter.rates().tokensPerS, 0);
  for (let t = 1; t <= 10; ++t) meter.add(state(t, 20 * t));
  assert.equal(meter.rates().tokensPerS, 20);
  assert.deepEqual(meter.rates().workers['1'], { tokensPerS: 20, batch: 4, busy: 0.2 });
  for (let t = 11; t <= 16; ++t) meter.add(state(t, 200));
  assert.equal(meter.rates().tokensPerS, 0, 'it has stopped');
  meter.add(state(17, 5));
  assert.equal(meter.rates().workers['1'], undefined);
  meter.add(state(3, 5)); // another server, whose clock is another
  assert.equal(meter.rates().tokensPerS, 0);
});

test('machines stand in the order in which requests pass them', () => {
  const workers = [worker(1, 'a', [0, 2]), worker(2, 'a', [2, 4]), worker(3, 'b', [0, 4]), worker(4, 'b', [2, 4]), worker(5, 'b', [0, 0])];
  const flows = { '-1>1': 5, '1>2': 5, '2>-1': 5, '-1>3': 2, '3>-1': 2, '9>1': 4, '2>9': 1 };
  const ranks = ranksOf(workers, flows);
  assert.deepEqual([...ranks].sort(), [['1', 0], ['2', 1], ['3', 0], ['4', 1]]);
  for (const room of [320, 500, 900, 1600]) {
    const layout = arrange(workers, flows, room);
    assert.equal(layout.down, room < 620);
    assert.equal(Object.keys(layout.spots).length, 5);
    assert.equal(layout.edges.length, 5, 'those of a machine that is not here are left out');
    for (const spot of Object.values(layout.spots)) {
      assert.ok(spot.x >= 0 && spot.y >= 0 && spot.x + spot.w <= layout.width && spot.y + spot.h <= layout.height);
    }
    assert.ok(!/NaN|Infinity|undefined/.test(JSON.stringify(layout)));
  }
  assert.equal(arrange([], {}, 900).edges.length, 0);
});
