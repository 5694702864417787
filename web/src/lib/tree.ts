import type { Message, Thread } from './types';

// The tree of a conversation's messages. Pure.

function byAge(a: Message, b: Message): number {
  return a.created - b.created || (a.id < b.id ? -1 : 1);
}

// From the first message to the leaf. A message that is missing, or a circle in a file that
// somebody made by hand, ends it.
export function pathTo(thread: Thread, leaf: string | null): Message[] {
  const path: Message[] = [];
  const seen = new Set<string>();
  for (let id = leaf; id !== null && !seen.has(id); ) {
    const message = thread[id];
    if (!message) break;
    seen.add(id);
    path.push(message);
    id = message.parent;
  }
  return path.reverse();
}

export function children(thread: Thread, parent: string | null): Message[] {
  return Object.values(thread)
    .filter((message) => message.parent === parent)
    .sort(byAge);
}

// The branches that begin where this message stands, itself among them, oldest first.
export function branches(thread: Thread, message: Message): Message[] {
  return children(thread, message.parent).filter((other) => other.role === message.role);
}

// The end of the newest branch below this message.
export function newestLeaf(thread: Thread, from: string): string {
  const seen = new Set<string>();
  let id = from;
  while (!seen.has(id)) {
    seen.add(id);
    const next = children(thread, id).at(-1);
    if (!next) break;
    id = next.id;
  }
  return id;
}
