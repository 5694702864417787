import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromFile, toFile } from '../src/lib/transfer';
import type { Conversation, Message } from '../src/lib/types';

const conversation: Conversation = {
  id: 'c', title: 'Title', created: 1, updated: 2, model: 'm', system: 's', tools: '[]', leaf: 'b',
  sampling: { temperature: 0, top_k: 40, stop: 'END', reasoning_effort: 'low' },
};
const question: Message = {
  id: 'a', conversation: 'c', parent: null, role: 'user', content: 'Hello', reasoning: '', toolCalls: [], created: 1,
  state: 'done',
};
const answer: Message = {
  ...question, id: 'b', parent: 'a', role: 'assistant', content: 'Hi', reasoning: 'Hm', model: 'm', finish: 'stop',
  toolCalls: [{ id: 'x', name: 'f', arguments: '{}' }], stats: { tokens: 3, promptTokens: 5, firstTokenMs: 10, totalMs: 20 },
};

test('what is written is read back', () => {
  const all = [{ conversation, messages: [question, answer] }];
  assert.deepEqual(fromFile(toFile(all)), all);
});

test('a file that is none of ours is refused in words', () => {
  assert.throws(() => fromFile('{'), /no JSON/);
  assert.throws(() => fromFile('[]'), /does not hold/);
  assert.throws(() => fromFile('{"format":"helix-conversations","version":2,"conversations":[]}'), /newer/);
});

test('what is of another kind than it should be is left behind', () => {
  const [read] = fromFile(JSON.stringify({
    format: 'helix-conversations', version: 1, conversations: [
      { id: 'c', title: 7, updated: 'x', sampling: { temperature: '1', seed: 1e999, other: 3 }, leaf: 'nobody', messages: [
        { id: 'a', role: 'system', content: 'x' }, { id: 'b', role: 'user', content: { x: 1 }, toolCalls: 'x', state: 'streaming' },
      ] },
      { title: 'without a name' }, 'x', null,
    ],
  }));
  assert.deepEqual(read?.conversation.sampling, {});
  assert.equal(read?.conversation.title, 'Imported chat');
  assert.equal(read?.conversation.leaf, 'b');
  assert.deepEqual(read?.messages.map((one) => [one.content, one.toolCalls, one.state]), [['', [], 'stopped']]);
});
