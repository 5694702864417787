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

// What the one who asks may do; each role may do what those before it may.
export type Role = 'none' | 'view' | 'chat' | 'admin';
export interface Standing {
  role: Role;
  label: string; // the name of the key; '' = none
  session: boolean; // it is logged in
  apiKeys: boolean; // the server asks clients for keys
  adminKeys: boolean; // and admins for theirs
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

// Who asks is known by a cookie that scripts cannot read. The header says that this page asks: with a
// cookie alone the server changes nothing.
async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set('x-helix-page', '1');
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

async function standingIn(response: Response): Promise<Standing> {
  const body = (await response.json().catch(() => null)) as Record<string, unknown> | null;
  const roles: unknown[] = ['view', 'chat', 'admin'] satisfies Role[];
  return {
    role: roles.includes(body?.role) ? (body?.role as Role) : 'none',
    label: typeof body?.label === 'string' ? body.label : '',
    session: body?.session === true,
    apiKeys: body?.api_keys === true,
    adminKeys: body?.admin_keys === true,
  };
}

export async function readStanding(): Promise<Standing> {
  return standingIn(await ask('/helix/session', { cache: 'no-store' }));
}

// The key goes to the server and nowhere else; what comes back is a cookie.
export async function logIn(key: string): Promise<Standing> {
  return standingIn(await ask('/helix/session', asJson({ key })));
}

export async function logOut(): Promise<void> {
  await ask('/helix/session', { method: 'DELETE', headers: { 'content-type': 'application/json' } });
}

export async function listModels(): Promise<Model[]> {
  const response = await ask('/v1/models');
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
export async function* streamChat(body: object, signal: AbortSignal): AsyncGenerator<Chunk> {
  const response = await ask('/v1/chat/completions', {
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
// fetch and not by an EventSource, which does not say why it was refused.
export async function* followCluster(requests: boolean, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const response = await ask(`/helix/events${requests ? '?requests=1' : ''}`, { signal, cache: 'no-store' });
  if (!response.body) throw problem('broken', 'The server answered without a text.');
  try {
    yield* serverEvents(response.body);
  } catch (error) {
    if (signal.aborted) throw error;
  }
  throw problem('offline', 'The connection broke off.');
}

// What was measured and happened, of the last hours or since a time (seconds since 1970).
export async function readHistory(since: number | null, signal: AbortSignal): Promise<string> {
  const response = await ask(`/helix/history${since === null ? '' : `?since=${since}`}`, { signal, cache: 'no-store' });
  return response.text().catch(() => {
    throw problem('offline', 'The connection broke off.');
  });
}

export async function historyFile(format: 'json' | 'csv'): Promise<Blob> {
  const response = await ask(`/helix/history${format === 'csv' ? '?format=csv' : ''}`, { cache: 'no-store' });
  return response.blob();
}

// A part of the server below /helix, as it is now.
export async function readHelix(path: string, signal?: AbortSignal): Promise<string> {
  const response = await ask(`/helix/${path}`, { cache: 'no-store', ...(signal ? { signal } : {}) });
  return response.text();
}

// Has it do something; returns what it says to that.
export async function tellHelix(path: string, body: unknown): Promise<string> {
  const response = await ask(`/helix/${path}`, asJson(body));
  return response.text();
}

// The progress of a what-if question and its answer, for as long as it is worked on.
export async function* askWhatIf(question: object, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const response = await ask('/helix/what-if', { ...asJson({ ...question, stream: true }), signal });
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
