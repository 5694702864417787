import assert from 'node:assert/strict';
import { test } from 'node:test';
import { branches, newestLeaf, pathTo } from '../src/lib/tree';
import type { Message, Thread } from '../src/lib/types';

let clock = 0;
function message(id: string, parent: string | null, role: Message['role']): Message {
  return { id, conversation: 'c', parent, role, content: id, reasoning: '', toolCalls: [], created: ++clock, state: 'done' };
}
function thread(...messages: Message[]): Thread {
  return Object.fromEntries(messages.map((one) => [one.id, one]));
}
const ids = (messages: Message[]): string => messages.map((one) => one.id).join(' ');

const all = thread(
  message('q1', null, 'user'), message('a1', 'q1', 'assistant'), message('q2', 'a1', 'user'), message('a2', 'q2', 'assistant'),
  message('b1', 'q1', 'assistant'), message('r1', null, 'user'), message('c2', 'q2', 'assistant'),
);

test('a branch is the way from the first message to its leaf', () => {
  assert.equal(ids(pathTo(all, 'c2')), 'q1 a1 q2 c2');
  assert.equal(ids(pathTo(all, 'b1')), 'q1 b1');
  assert.equal(ids(pathTo(all, null)), '');
  assert.equal(ids(pathTo(all, 'nobody')), '');
});

test('branches are the children of one parent, oldest first', () => {
  assert.equal(ids(branches(all, all.b1 as Message)), 'a1 b1');
  assert.equal(ids(branches(all, all.q1 as Message)), 'q1 r1');
});

test('a branch is shown to the end of its newest one', () => {
  assert.equal(newestLeaf(all, 'a1'), 'c2');
  assert.equal(newestLeaf(all, 'b1'), 'b1');
});

test('a circle ends', () => {
  const circle = thread(message('x', 'y', 'user'), message('y', 'x', 'assistant'));
  assert.equal(pathTo(circle, 'x').length, 2);
  assert.ok(['x', 'y'].includes(newestLeaf(circle, 'x')));
});
