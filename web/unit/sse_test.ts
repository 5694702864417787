import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventData, serverEvents } from '../src/lib/sse';

async function read(pieces: Uint8Array[]): Promise<string[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  const out: string[] = [];
  for await (const data of eventData(body)) out.push(data);
  return out;
}

test('events are the same wherever the network cuts them', async () => {
  const bytes = new TextEncoder().encode(': hello\r\n\r\ndata: {"a":"ä😀"}\r\n\r\nevent: x\ndata:one\ndata: two\n\ndata: [DONE]\n\n');
  const expected = ['{"a":"ä😀"}', 'one\ntwo', '[DONE]'];
  assert.deepEqual(await read([bytes]), expected);
  assert.deepEqual(await read([...bytes].map((byte) => new Uint8Array([byte]))), expected);
  for (let cut = 0; cut <= bytes.length; ++cut) {
    assert.deepEqual(await read([bytes.slice(0, cut), bytes.slice(cut)]), expected, `cut at ${cut}`);
  }
});

test('an event that is not complete is none', async () => {
  assert.deepEqual(await read([new TextEncoder().encode('data: one\n\ndata: tw')]), ['one']);
});

test('events of the cluster have names, and comments are heard', async () => {
  const text = ': ping\n\nretry: 1000\n\nevent: change\ndata: {"a":1}\n\nevent: lost\ndata: {}\n\n';
  const body = new Response(text).body as ReadableStream<Uint8Array>;
  const out: [string, string][] = [];
  for await (const event of serverEvents(body)) out.push([event.name, event.data]);
  assert.deepEqual(out, [[':', ''], ['change', '{"a":1}'], ['lost', '{}']]);
});
