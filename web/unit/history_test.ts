import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addNewer, greatest, type History, lastTime, lineOf, nearest, pointsOf } from '../src/history/series';
import { timeTicks } from '../src/lib/axis';

function history(samples: (number | null)[][], events: History['events'] = []): History {
  return { interval_s: 10, kept_s: 100, columns: ['time', 'tokens_per_s', 'ttft_p95_s', 'workers'], samples, events };
}

test('what is new is added once, and what is too old goes', () => {
  const joined = { time: 95, event: 'joined', worker: 1, name: 'a' };
  const first = history([[90, 1, 1, 1], [100, 2, 1, 1]], [joined, { time: 104, event: 'lost', worker: 1, name: 'a' }]);
  assert.equal(lastTime(first), 100);
  // The event of 104 is told again, for it is newer than the last sample.
  const newer = history([[110, 3, 1, 1], [193, 4, null, 1]], [{ time: 104, event: 'lost', worker: 1, name: 'a' }]);
  const all = addNewer(first, newer, 100);
  assert.deepEqual(all.samples.map((one) => one[0]), [100, 110, 193]);
  assert.deepEqual(all.events.map((one) => one.time), [95, 104]);
  assert.deepEqual(addNewer(all, history([]), 193).samples.length, 3, 'nothing is new');
  assert.equal(lastTime(history([])), null);
  const other = { ...history([[1, 2]]), columns: ['time', 'else'] };
  assert.equal(addNewer(first, other, 100), other);
});

test('many samples become points: means, but the worst p95 and the fewest machines', () => {
  const samples = Array.from({ length: 2160 }, (_, i) => [10 * (i + 1), i % 6, i % 6 === 2 ? null : i % 6, i % 6 === 3 ? 2 : 3]);
  const six = pointsOf(history(samples), 21_600);
  assert.equal(six.step_s, 60);
  assert.equal(six.points.length, 360);
  assert.deepEqual(six.points[5], { time: 360, values: { tokens_per_s: 2.5, ttft_p95_s: 5, workers: 2 } });
  const quarter = pointsOf(history(samples), 900);
  assert.equal(quarter.step_s, 10);
  assert.equal(quarter.points.length, 90);
  assert.equal(quarter.points.at(-1)?.values.ttft_p95_s, 5);
  assert.equal(pointsOf(history([]), 900).points.length, 0);
});

test('a line has gaps where nothing was measured or nothing was said, and a dot where a value stands alone', () => {
  const all = pointsOf(history([[10, 1, 1, 1], [20, 2, null, 1], [30, 3, 1, 1], [90, 4, 1, 1], [100, 5, 1, 1]]), 900);
  const line = (column: string): string => lineOf(all, column, (time) => time, (value) => value);
  assert.equal(line('tokens_per_s'), 'M10.0 1.0L20.0 2.0L30.0 3.0M90.0 4.0L100.0 5.0');
  assert.equal(line('ttft_p95_s'), 'M10.0 1.0h0.01M30.0 1.0h0.01M90.0 1.0L100.0 1.0');
  assert.equal(line('unknown'), '');
  assert.equal(greatest(all.points, ['tokens_per_s', 'workers']), 5);
  assert.deepEqual([nearest(all.points, 0), nearest(all.points, 61), nearest([], 5)], [0, 3, -1]);
});

test('times of day are even ones by the local clock', () => {
  const day = 86_400 * 20_000;
  assert.deepEqual(timeTicks(day + 100, day + 1000, 4, 0), [day + 300, day + 600, day + 900]);
  assert.deepEqual(timeTicks(day, day + 21_600, 4, 5400), [day + 1800, day + 9000, day + 16_200]);
});
