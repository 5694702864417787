// The nouns of a conversation, as they are kept in the browser and written into exported files.

export type Role = 'user' | 'assistant' | 'tool';

export interface ToolCall {
  id: string;
  name: string;
  arguments: string; // JSON, as the model wrote it
}

// Why an answer is not whole.
export interface Problem {
  kind: 'key' | 'busy' | 'starting' | 'offline' | 'broken' | 'refused';
  text: string;
  retryAt?: number; // milliseconds since 1970; the server asked to be left alone until then
}

export interface Stats {
  promptTokens?: number;
  cachedTokens?: number;
  tokens?: number; // of the answer, reasoning included
  firstTokenMs?: number; // from the request
  totalMs?: number;
}

// Messages of a conversation are a tree: an edited question or another answer is one more child
// of the same parent.
export interface Message {
  id: string;
  conversation: string;
  parent: string | null;
  role: Role;
  content: string;
  reasoning: string;
  reasoningMs?: number;
  toolCalls: ToolCall[];
  toolCallId?: string; // of a tool's result: the call that it answers
  model?: string; // that wrote it
  created: number; // milliseconds since 1970
  state: 'done' | 'streaming' | 'stopped' | 'failed';
  finish?: string; // the server's finish_reason
  problem?: Problem;
  stats?: Stats;
}

// What is left out is up to the server.
export interface Sampling {
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  max_tokens?: number;
  repetition_penalty?: number;
  presence_penalty?: number;
  frequency_penalty?: number;
  seed?: number;
  stop?: string; // one to a line
  reasoning_effort?: string;
}

export interface Conversation {
  id: string;
  title: string;
  created: number;
  updated: number;
  model: string; // '' = the server's first
  system: string;
  sampling: Sampling;
  tools: string; // a JSON array as the API takes it, or ''
  leaf: string | null; // the last message of the branch that is shown
}

export type Thread = Record<string, Message>;

// A context where the page came over plain http from another machine has no crypto.randomUUID.
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
