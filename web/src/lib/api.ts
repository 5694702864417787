import { noteServerTime } from './clock';
import { eventData, serverEvents, type ServerEvent } from './sse';
import type { Problem } from './types';

// The server's API, as far as the page needs it.

export interface Model {
  id: string;
  max_model_len?: number;
}

export interface Delta {
  content?: string | null;
  reasoning_content?: string | null;
  tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number };
}

export interface Chunk {
  model?: string;
  choices: { delta?: Delta; finish_reason?: string | null }[];
  usage?: Usage | null;
  error?: { message?: string; code?: string | number | null };
}

// An answer that did not come, or broke off; says why in words for the one who asked.
export class ApiProblem extends Error {
  constructor(readonly problem: Problem) {
    super(problem.text);
  }
}

function problem(kind: Problem['kind'], text: string, retryAt?: number): ApiProblem {
  return new ApiProblem(retryAt === undefined ? { kind, text } : { kind, text, retryAt });
}

async function serverWords(response: Response): Promise<string> {
  const text = await response.text().catch(() => '');
  try {
    const message: unknown = JSON.parse(text).error?.message;
    if (typeof message === 'string' && message !== '') return message;
  } catch {
    // Not ours: a proxy's page, say. Its status has to do.
  }
  return `The server answered with status ${response.status}.`;
}

async function refusal(response: Response): Promise<ApiProblem> {
  const words = await serverWords(response);
  const wait = Number.parseInt(response.headers.get('retry-after') ?? '', 10);
  const retryAt = Number.isFinite(wait) ? Date.now() + wait * 1000 : undefined;
  switch (response.status) {
    case 401:
      return problem('key', words);
    case 429:
      return problem('busy', words, retryAt);
    case 502:
    case 503:
    case 504:
      return problem('starting', words, retryAt);
    default:
      return problem('refused', words);
  }
}

async function ask(path: string, key: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (key !== '') headers.set('authorization', `Bearer ${key}`);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers, credentials: 'same-origin', redirect: 'error' });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw problem('offline', 'The server cannot be reached.');
  }
  noteServerTime(response.headers.get('date'));
  if (!response.ok) throw await refusal(response);
  return response;
}

export async function listModels(key: string): Promise<Model[]> {
  const response = await ask('/v1/models', key);
  const body = (await response.json().catch(() => null)) as { data?: Model[] } | null;
  return (body?.data ?? []).filter((model) => typeof model?.id === 'string');
}

// Whether the server answers at all.
export async function isAlive(): Promise<boolean> {
  return fetch('/health/live').then(
    (response) => response.ok,
    () => false,
  );
}

// The parts of a streamed answer as they come. Throws ApiProblem when there is none or when it
// breaks off, and what fetch throws once signal is aborted.
export async function* streamChat(body: object, key: string, signal: AbortSignal): AsyncGenerator<Chunk> {
  const response = await ask('/v1/chat/completions', key, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.body) throw problem('broken', 'The server answered without a text.');
  try {
    for await (const data of eventData(response.body)) {
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data) as Chunk;
      if (chunk.error) throw problem('broken', chunk.error.message ?? 'The server ended the answer with an error.');
      yield chunk;
    }
  } catch (error) {
    if (signal.aborted || error instanceof ApiProblem) throw error;
    throw problem('broken', 'The connection broke off in the middle of the answer.');
  }
  throw problem('broken', 'The connection broke off in the middle of the answer.');
}

// What happens in the cluster, and to requests if they are wanted, for as long as the connection lasts. It is read by
// fetch and not by an EventSource, which cannot bring a key.
export async function* followCluster(key: string, requests: boolean, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const response = await ask(`/helix/events${requests ? '?requests=1' : ''}`, key, { signal, cache: 'no-store' });
  if (!response.body) throw problem('broken', 'The server answered without a text.');
  try {
    yield* serverEvents(response.body);
  } catch (error) {
    if (signal.aborted) throw error;
  }
  throw problem('offline', 'The connection broke off.');
}

// What was measured and happened, of the last hours or since a time (seconds since 1970).
export async function readHistory(key: string, since: number | null, signal: AbortSignal): Promise<string> {
  const response = await ask(`/helix/history${since === null ? '' : `?since=${since}`}`, key, { signal, cache: 'no-store' });
  return response.text().catch(() => {
    throw problem('offline', 'The connection broke off.');
  });
}

export async function historyFile(key: string, format: 'json' | 'csv'): Promise<Blob> {
  const response = await ask(`/helix/history${format === 'csv' ? '?format=csv' : ''}`, key, { cache: 'no-store' });
  return response.blob();
}

// A part of the server below /helix, as it is now.
export async function readHelix(key: string, path: string, signal?: AbortSignal): Promise<string> {
  const response = await ask(`/helix/${path}`, key, { cache: 'no-store', ...(signal ? { signal } : {}) });
  return response.text();
}

// Has it do something; returns what it says to that.
export async function tellHelix(key: string, path: string, body: unknown): Promise<string> {
  const response = await ask(`/helix/${path}`, key, asJson(body));
  return response.text();
}

// The progress of a what-if question and its answer, for as long as it is worked on.
export async function* askWhatIf(key: string, question: object, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const response = await ask('/helix/what-if', key, { ...asJson({ ...question, stream: true }), signal });
  if (!response.body) throw problem('broken', 'The server answered without a text.');
  try {
    yield* serverEvents(response.body);
  } catch (error) {
    if (signal.aborted) throw error;
    throw problem('broken', 'The connection broke off before the answer.');
  }
}

function asJson(body: unknown): RequestInit {
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
}
