import type { Chunk } from '../lib/api';
import type { Message } from '../lib/types';

const FLUSH_MS = 40;

// Puts the parts of a streamed answer into its message, a few at a time: tokens may come faster
// than a page can be drawn.
export class AnswerWriter {
  #began = performance.now();
  #firstAt = 0;
  #reasonedAt = 0;
  #chunks = 0;
  #content = '';
  #reasoning = '';
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private message: Message,
    private flushed: () => void,
  ) {}

  take(chunk: Chunk): void {
    const choice = chunk.choices[0];
    const delta = choice?.delta;
    const now = performance.now();
    if (delta?.content || delta?.reasoning_content || delta?.tool_calls) {
      this.#chunks += 1;
      this.#firstAt ||= now;
      if (delta.reasoning_content) this.#reasoning += delta.reasoning_content;
      else if (this.message.reasoning || this.#reasoning) this.#reasonedAt ||= now;
      this.#content += delta.content ?? '';
      for (const part of delta.tool_calls ?? []) this.#takeCall(part);
    }
    if (choice?.finish_reason) this.message.finish = choice.finish_reason;
    if (chunk.model) this.message.model = chunk.model;
    if (chunk.usage) {
      const usage = chunk.usage;
      this.message.stats = {
        ...this.message.stats,
        promptTokens: usage.prompt_tokens,
        tokens: usage.completion_tokens,
        cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
      };
    }
    this.#timer ??= setTimeout(() => this.flush(), FLUSH_MS);
  }

  #takeCall(part: NonNullable<NonNullable<Chunk['choices'][0]['delta']>['tool_calls']>[0]): void {
    const calls = this.message.toolCalls;
    while (calls.length <= part.index && calls.length < 128) calls.push({ id: '', name: '', arguments: '' });
    const call = calls[part.index];
    if (!call) return;
    if (part.id) call.id = part.id;
    call.name += part.function?.name ?? '';
    call.arguments += part.function?.arguments ?? '';
  }

  // Until the server has counted the tokens, each part that came counts as one.
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const now = performance.now();
    this.message.content += this.#content;
    this.message.reasoning += this.#reasoning;
    this.#content = this.#reasoning = '';
    if (this.#reasonedAt) this.message.reasoningMs = this.#reasonedAt - this.#firstAt;
    const stats = { ...this.message.stats, totalMs: now - this.#began };
    if (this.#firstAt) stats.firstTokenMs = this.#firstAt - this.#began;
    if (this.message.stats?.promptTokens === undefined) stats.tokens = this.#chunks;
    this.message.stats = stats;
    this.flushed();
  }
}

// Tokens a second after the first one; nothing can be said of a single token.
export function tokensPerSecond(message: Message): number | null {
  const { tokens, firstTokenMs, totalMs } = message.stats ?? {};
  if (!tokens || tokens < 2 || firstTokenMs === undefined || totalMs === undefined) return null;
  const ms = totalMs - firstTokenMs;
  return ms > 0 ? ((tokens - 1) * 1000) / ms : null;
}
