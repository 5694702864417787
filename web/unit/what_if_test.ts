import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressesOf, command, isWorkerName, type Joining, saveCommand } from '../src/add_machine/joining';
import { type Answer, gainText, layerCount, type Machine, rowsOf } from '../src/what_if/answer';
import { changeText, wireChange } from '../src/what_if/question';

function machine(name: string, layers: [number, number], more: Partial<Machine> = {}): Machine {
  return { name, type: 'cpu', region: '', is_new: false, layers, flow_tokens_per_s: 1, most_tokens_per_s: 2, in_cut: false, ...more };
}

test('changes go to the server in bytes per second and seconds', () => {
  assert.deepEqual(wireChange({ kind: 'add', type: 'L4', count: 2, region: 'west', mbits: 1000, ms: 5 }),
    { add: 'L4', count: 2, region: 'west', bandwidth_bytes_per_s: 1.25e8, latency_s: 0.005 });
  assert.deepEqual(wireChange({ kind: 'add', type: 'L4', count: 1, region: '', mbits: null, ms: null }), { add: 'L4', count: 1 });
  assert.deepEqual(wireChange({ kind: 'add', type: 'L4', count: 1, region: '', mbits: 8, ms: null }),
    { add: 'L4', count: 1, bandwidth_bytes_per_s: 1e6, latency_s: 0 }, 'a bandwidth alone has no latency');
  assert.deepEqual(wireChange({ kind: 'link', from: 'a', to: 'b', mbits: 8, ms: null }), { link: ['a', 'b'], bandwidth_bytes_per_s: 1e6 });
  assert.deepEqual(wireChange({ kind: 'slow', name: 'den', factor: 2 }), { slow: 'den', factor: 2 });
  assert.equal(changeText({ kind: 'add', type: 'L4', count: 2, region: 'west', mbits: null, ms: null }), 'Add 2 × L4 in west');
});

test('machines of both sides are told once, and the layers of all are counted', () => {
  const side = (machines: Machine[]): unknown => ({ machines });
  const answer = {
    today: side([machine('atlas', [0, 6]), machine('den', [6, 12])]),
    what_if: side([machine('atlas', [0, 12]), machine('new-L4', [0, 12], { is_new: true })]),
  } as unknown as Answer;
  const rows = rowsOf(answer);
  assert.deepEqual(rows.map((one) => [one.name, one.before !== null, one.after !== null]),
    [['atlas', true, true], ['den', true, false], ['new-L4', false, true]]);
  assert.equal(layerCount(answer), 12);
});

test('a gain is told with its sign, and nothing where nothing was', () => {
  assert.equal(gainText(100, 112), '+12 %');
  assert.equal(gainText(100, 98.8), '−1.2 %');
  assert.equal(gainText(100, 100.01), '±0 %');
  assert.equal(gainText(0, 5), '');
});

test('the command names the server as it is reached, with a key or without', () => {
  const joining: Joining = { addresses: ['192.0.2.7:8080'], http_is_loopback: false, cluster_port_is_loopback: false, keys: true, fixed_placement: false };
  assert.equal(command(joining, '192.0.2.7:8080', 'den'), 'helix worker --join 192.0.2.7:8080 --key den.key');
  const open = { ...joining, keys: false };
  assert.equal(command(open, '192.0.2.7:8080', 'den'), 'helix worker --join 192.0.2.7:8080 --name den --insecure');
  assert.equal(command(open, '127.0.0.1:8080', ''), 'helix worker --join 127.0.0.1:8080');
  const page = { hostname: 'llm.example.org', port: '', protocol: 'https:' };
  assert.deepEqual(addressesOf(joining, page), ['llm.example.org:443', '192.0.2.7:8080']);
  assert.deepEqual(addressesOf(joining, { ...page, hostname: 'localhost', port: '8080' }), ['192.0.2.7:8080']);
  assert.deepEqual(addressesOf(joining, { hostname: '192.0.2.7', port: '8080', protocol: 'http:' }), ['192.0.2.7:8080'], 'once');
});

test('names that could end a command are none', () => {
  for (const name of ['den', 'a.b-c_9']) assert.ok(isWorkerName(name), name);
  for (const name of ['', 'a b', 'a;b', '$(x)', "a'b", 'x'.repeat(65), 'cloud-*']) assert.ok(!isWorkerName(name), name);
  assert.equal(saveCommand({ name: 'den', file: 'den.key', text: 'helix-key worker den\n' }),
    "(umask 077; cat > den.key <<'END'\nhelix-key worker den\nEND\n)");
});
