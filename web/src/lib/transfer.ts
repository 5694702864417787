import type { Conversation, Message, Sampling, Stats, ToolCall } from './types';

// Conversations as a file, to be kept or taken to another browser. A file may come from anywhere,
// so everything that is read is checked, and what is unknown is left behind.

export interface Exported {
  conversation: Conversation;
  messages: Message[];
}

export function toFile(all: Exported[]): string {
  return JSON.stringify({
    format: 'helix-conversations',
    version: 1,
    exported: new Date().toISOString(),
    conversations: all.map(({ conversation, messages }) => ({ ...conversation, messages })),
  });
}

type Fields = Record<string, unknown>;

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const time = (value: unknown): number => (typeof value === 'number' && Number.isFinite(value) ? value : 0);

function numbers<T>(value: unknown, names: readonly (keyof T & string)[]): Partial<T> {
  const out: Fields = {};
  for (const name of names) {
    const number = isFields(value) ? value[name] : undefined;
    if (typeof number === 'number' && Number.isFinite(number)) out[name] = number;
  }
  return out as Partial<T>;
}

export const samplingNumbers = [
  'temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'repetition_penalty', 'presence_penalty',
  'frequency_penalty', 'seed',
] as const satisfies readonly (keyof Sampling)[];

function readSampling(value: unknown): Sampling {
  const out: Sampling = numbers<Sampling>(value, samplingNumbers);
  if (isFields(value) && text(value.stop)) out.stop = text(value.stop);
  if (isFields(value) && text(value.reasoning_effort)) out.reasoning_effort = text(value.reasoning_effort);
  return out;
}

function readCalls(value: unknown): ToolCall[] {
  if (!Array.isArray(value)) return [];
  return value
    .filter(isFields)
    .map((call) => ({ id: text(call.id), name: text(call.name), arguments: text(call.arguments) }));
}

function readMessage(value: unknown, conversation: string): Message | null {
  if (!isFields(value) || !text(value.id)) return null;
  const role = value.role;
  if (role !== 'user' && role !== 'assistant' && role !== 'tool') return null;
  const message: Message = {
    id: text(value.id),
    conversation,
    parent: text(value.parent) || null,
    role,
    content: text(value.content),
    reasoning: text(value.reasoning),
    toolCalls: readCalls(value.toolCalls),
    created: time(value.created),
    state: value.state === 'done' ? 'done' : 'stopped',
  };
  if (text(value.toolCallId)) message.toolCallId = text(value.toolCallId);
  if (text(value.model)) message.model = text(value.model);
  if (text(value.finish)) message.finish = text(value.finish);
  if (isFields(value.stats)) {
    message.stats = numbers<Stats>(value.stats, ['promptTokens', 'cachedTokens', 'tokens', 'firstTokenMs', 'totalMs']);
  }
  return message;
}

// Throws an Error with words for whoever chose the file.
export function fromFile(file: string): Exported[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(file);
  } catch {
    throw new Error('This file is no JSON.');
  }
  if (!isFields(parsed) || parsed.format !== 'helix-conversations' || !Array.isArray(parsed.conversations)) {
    throw new Error('This file does not hold conversations of Helix.');
  }
  if (parsed.version !== 1) throw new Error('This file was written by a newer Helix.');
  const out: Exported[] = [];
  for (const value of parsed.conversations) {
    if (!isFields(value) || !text(value.id)) continue;
    const id = text(value.id);
    const found = Array.isArray(value.messages) ? value.messages : [];
    const messages = found.map((one) => readMessage(one, id)).filter((one) => one !== null);
    const leaf = messages.some((one) => one.id === value.leaf) ? text(value.leaf) : (messages.at(-1)?.id ?? null);
    out.push({
      conversation: {
        id,
        title: text(value.title) || 'Imported chat',
        created: time(value.created),
        updated: time(value.updated),
        model: text(value.model),
        system: text(value.system),
        sampling: readSampling(value.sampling),
        tools: text(value.tools),
        leaf,
      },
      messages,
    });
  }
  return out;
}
