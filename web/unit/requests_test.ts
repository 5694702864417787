import assert from 'node:assert/strict';
import { test } from 'node:test';
import { arrange, pathThrough } from '../src/cluster/layout';
import type { Worker } from '../src/cluster/state';
import { ticks } from '../src/lib/axis';
import { age, duration, plain } from '../src/lib/format';
import { inOrder, movesOf, nameOf, phaseOf, type RequestRecord, spansOf } from '../src/requests/record';

function record(more: Partial<RequestRecord>): RequestRecord {
  return { id: 'chatcmpl-1', choice: 0, endpoint: 'chat', stream: true, created: 100, state: 'running', ...more };
}
const stage = (worker: number): { worker: number; layers: [number, number] } => ({ worker, layers: [0, 4] });

test('a request waits, then its prompt is computed, then its answer, and at the end it says how it ended', () => {
  assert.equal(phaseOf(record({ state: 'queued' })), 'waiting');
  assert.equal(phaseOf(record({})), 'prefill');
  assert.equal(phaseOf(record({ ttft_s: 0.5 })), 'decode');
  assert.equal(phaseOf(record({ ttft_s: 0.5, state: 'length' })), 'length');
  assert.equal(nameOf(record({ choice: 2 })), 'chatcmpl-1/2');
});

test('those that run come first, the newest first', () => {
  const list = [record({ id: 'a', created: 9, state: 'stop' }), record({ id: 'b', created: 1 }), record({ id: 'c', created: 5, state: 'error' }),
    record({ id: 'd', created: 3, state: 'queued' })];
  assert.deepEqual(inOrder(list).map((one) => one.id), ['d', 'b', 'a', 'c']);
});

test('spans follow each other without a gap, up to the end or to now', () => {
  const now = spansOf(record({ queue_s: 1, ttft_s: 3 }), 10);
  assert.deepEqual(now.phases.map(({ kind, from, to, open }) => [kind, from, to, open]), [
    ['waiting', 0, 1, false], ['prefill', 1, 3, false], ['decode', 3, 10, true]]);
  const queued = spansOf(record({ state: 'queued' }), 4);
  assert.deepEqual(queued.phases.map(({ kind, to, open }) => [kind, to, open]), [['waiting', 4, true]]);
  const rejected = spansOf(record({ state: 'rejected', ended_s: 0 }), 50);
  assert.deepEqual([rejected.end, rejected.phases.map(({ kind, to, open }) => [kind, to, open])], [0, [['waiting', 0, false]]]);
  // A clock that goes wrong makes no span shorter than what is known.
  assert.equal(spansOf(record({ queue_s: 1, ttft_s: 3 }), 0.2).end, 3);
});

test('each pipeline lasts until the next, with its reason in words', () => {
  const attempts = [{ at_s: 1, reason: 'first', pipeline: [stage(1)] }, { at_s: 4, reason: 'worker_lost', pipeline: [stage(2)] },
    { at_s: 6, reason: 'new_word', pipeline: [stage(1)] }];
  const ended = record({ state: 'stop', queue_s: 1, ttft_s: 2, ended_s: 9, attempts });
  assert.deepEqual(spansOf(ended, 99).pipelines.map(({ from, to, why }) => [from, to, why]), [
    [1, 4, 'its first pipeline'], [4, 6, 'went on elsewhere: a machine was lost'], [6, 9, 'new word']]);
  assert.equal(movesOf(ended), 2);
  const more = record({ attempts, attempts_left_out: 3 });
  assert.equal(movesOf(more), 5);
  assert.deepEqual(spansOf(more, 99).pipelines.map(({ to, unknown, open }) => [to, unknown, open]), [[4, false, false], [6, false, false], [6, true, false]]);
});

test('a path goes through its machines, and leaves out those that are not there', () => {
  const worker = (id: number, layers: [number, number]): Worker => ({
    id, name: `w${id}`, type: '', region: 'a', role: 'both', state: 'serving', layers, kv_pages: 1, kv_pages_used: 0, requests: 0, batches: 0,
    rows: 0, busy_s: 0, slowdown: 1,
  });
  for (const room of [320, 1000]) {
    const layout = arrange([worker(1, [0, 2]), worker(2, [2, 4])], { '-1>1': 1, '1>2': 1, '2>-1': 1 }, room);
    const path = pathThrough(layout, ['1', '77', '2']);
    assert.equal(path.match(/L/g)?.length, 2);
    assert.ok(!/NaN|undefined/.test(path));
    assert.equal(pathThrough(layout, ['77']), '');
  }
});

test('figures are short, and text from outside is plain', () => {
  assert.deepEqual([0, 0.0421, 0.5, 12.34, 75.2, 600, 7260].map(duration), ['0 s', '42.1 ms', '0.50 s', '12.3 s', '1 min 15 s', '10 min', '2 h 1 min']);
  assert.deepEqual([-3, 0.5, 59.9, 61, 7300].map(age), ['now', 'now', '59 s', '1 min', '2 h']);
  assert.deepEqual(ticks(14, 7), [0, 2, 4, 6, 8, 10, 12, 14]);
  assert.deepEqual(ticks(0, 3).length > 0, true);
  assert.equal(plain('a\u202eb\ud800c😀'), 'a\ufffdb\ufffdc😀');
});
