import { ApiProblem, streamChat } from '../lib/api';
import { app } from '../lib/app.svelte';
import { openStore, type Store } from '../lib/store';
import { type Exported, fromFile, toFile } from '../lib/transfer';
import { newestLeaf, pathTo } from '../lib/tree';
import { type Conversation, type Message, newId, type Problem, type Thread } from '../lib/types';
import { AnswerWriter } from './answer';
import { requestBody } from './request';

// All conversations, the one that is open, and the answers that are being written. What is said is
// in the store before it is sent, so that whatever fails, nothing is lost.

const SAVE_EVERY_MS = 1000; // of an answer that streams
const TITLE_LENGTH = 60;

function fresh(): Conversation {
  const now = Date.now();
  return {
    id: newId(), title: '', created: now, updated: now, model: '', system: '', sampling: {}, tools: '', leaf: null,
  };
}

function titleOf(text: string): string {
  const line = text.trim().split('\n', 1)[0] ?? '';
  return line.length > TITLE_LENGTH ? line.slice(0, TITLE_LENGTH - 1).trimEnd() + '…' : line || 'New chat';
}

function problemOf(error: unknown): Problem {
  if (error instanceof ApiProblem) return error.problem;
  return { kind: 'refused', text: error instanceof Error ? error.message : String(error) };
}

class Chats {
  conversations = $state<Conversation[]>([]); // newest first
  threads = $state<Record<string, Thread>>({}); // of those that were opened
  openId = $state('');
  draft = $state<Conversation>(fresh()); // the next conversation, until something is said in it
  running = $state<Record<string, boolean>>({}); // conversations in which an answer is being written
  durable = $state(true);

  #store: Promise<Store> = openStore();
  #aborts = new Map<string, AbortController>();
  #written = new Map<string, Message>(); // answers that stream, by conversation
  #channel = new BroadcastChannel('helix-conversations');

  constructor() {
    this.#channel.onmessage = ({ data }) => void this.#changedElsewhere(String(data));
    addEventListener('pagehide', () => {
      for (const message of this.#written.values()) void this.#save(message.conversation, [message]);
    });
  }

  async load(): Promise<void> {
    const store = await this.#store;
    this.durable = store.durable;
    const here = new Map(this.conversations.map((one) => [one.id, one]));
    // What is the same stays the same object: an answer may be on its way to it.
    this.conversations = (await store.conversations())
      .map((one) => (here.get(one.id)?.updated === one.updated ? (here.get(one.id) as Conversation) : one))
      .sort((a, b) => b.updated - a.updated);
  }

  get current(): Conversation {
    return this.conversations.find((one) => one.id === this.openId) ?? this.draft;
  }
  get path(): Message[] {
    return pathTo(this.threads[this.current.id] ?? {}, this.current.leaf);
  }
  thread(id: string): Thread {
    return this.threads[id] ?? {};
  }

  // '' or an id that is unknown: a new conversation.
  async open(id: string): Promise<void> {
    const found = this.conversations.some((one) => one.id === id);
    if (found && !this.threads[id]) await this.#loadThread(id);
    this.openId = found ? id : '';
  }

  startNew(): void {
    const { model, sampling } = this.current;
    this.draft = { ...fresh(), model, sampling: $state.snapshot(sampling) };
    app.go('chat');
  }

  async #loadThread(id: string): Promise<void> {
    const messages = await (await this.#store).messages(id);
    const cut = messages.filter((one) => one.state === 'streaming');
    for (const message of cut) {
      message.state = 'failed';
      message.problem = { kind: 'broken', text: 'The page was closed while this was being written.' };
    }
    this.threads[id] = Object.fromEntries(messages.map((one) => [one.id, one]));
  }

  async #changedElsewhere(id: string): Promise<void> {
    if (this.running[id]) return;
    const shown = this.threads[id] !== undefined;
    await this.load();
    if (shown && this.conversations.some((one) => one.id === id)) {
      const messages = await (await this.#store).messages(id);
      this.threads[id] = Object.fromEntries(messages.map((one) => [one.id, one]));
    }
  }

  async #save(id: string, messages: Message[] = []): Promise<void> {
    const conversation = this.conversations.find((one) => one.id === id);
    if (!conversation) return;
    try {
      const store = await this.#store;
      await store.put($state.snapshot(conversation), $state.snapshot(messages));
      this.#channel.postMessage(id);
    } catch (error) {
      app.toast(`The browser could not keep this chat: ${problemOf(error).text}`);
    }
  }

  // To be called when settings of the open conversation were changed.
  async saveSettings(): Promise<void> {
    await this.#save(this.current.id);
  }

  #add(conversation: Conversation, message: Partial<Message> & Pick<Message, 'role' | 'parent'>): Message {
    const whole: Message = {
      id: newId(), conversation: conversation.id, content: '', reasoning: '', toolCalls: [], created: Date.now(),
      state: 'done', ...message,
    };
    this.threads[conversation.id] ??= {};
    const thread = this.threads[conversation.id] as Thread; // the proxy of it, so that changes are seen
    thread[whole.id] = whole;
    conversation.leaf = whole.id;
    conversation.updated = Date.now();
    this.conversations.sort((a, b) => b.updated - a.updated);
    return thread[whole.id] as Message;
  }

  // The open conversation; a draft becomes one of the list.
  #adopt(text: string): Conversation {
    if (this.openId !== '') return this.current;
    const { id } = this.draft;
    this.conversations.unshift({ ...$state.snapshot(this.draft), title: titleOf(text) });
    this.threads[id] = {};
    this.openId = id;
    this.draft = fresh();
    app.go('chat', id);
    return this.current;
  }

  async send(text: string): Promise<void> {
    const conversation = this.#adopt(text);
    const question = this.#add(conversation, { role: 'user', parent: conversation.leaf, content: text });
    await this.#save(conversation.id, [question]);
    await this.#answer(conversation, question.id);
  }

  // Another wording of a message: a branch of its own.
  async edit(message: Message, text: string): Promise<void> {
    const conversation = this.current;
    const question = this.#add(conversation, { role: 'user', parent: message.parent, content: text });
    await this.#save(conversation.id, [question]);
    await this.#answer(conversation, question.id);
  }

  // Another answer to the same question. One that failed before a word was there makes room for it.
  async regenerate(message: Message): Promise<void> {
    const conversation = this.current;
    const empty = message.state !== 'done' && !message.content && !message.reasoning && !message.toolCalls.length;
    if (empty) {
      delete this.threads[conversation.id]?.[message.id];
      await (await this.#store).removeMessage(message.id);
    }
    await this.#answer(conversation, message.parent);
  }

  // What the tools said that the last message called, by call.
  async sendResults(message: Message, results: string[]): Promise<void> {
    const conversation = this.current;
    const added: Message[] = [];
    let parent = message.id;
    message.toolCalls.forEach((call, index) => {
      const content = results[index] ?? '';
      added.push(this.#add(conversation, { role: 'tool', parent, content, toolCallId: call.id }));
      parent = added.at(-1)?.id ?? parent;
    });
    await this.#save(conversation.id, added);
    await this.#answer(conversation, parent);
  }

  showBranch(message: Message): void {
    const conversation = this.current;
    conversation.leaf = newestLeaf(this.thread(conversation.id), message.id);
    void this.#save(conversation.id);
  }

  stop(id = this.current.id): void {
    this.#aborts.get(id)?.abort();
  }

  async #answer(conversation: Conversation, parent: string | null): Promise<void> {
    const { id } = conversation;
    if (this.running[id]) return;
    const model = conversation.model || app.models[0]?.id || '';
    const before = pathTo(this.thread(id), parent);
    const message = this.#add(conversation, { role: 'assistant', parent, state: 'streaming', model });
    this.running[id] = true;
    const abort = new AbortController();
    this.#aborts.set(id, abort);
    this.#written.set(id, message);
    await this.#save(id, [message]);
    app.say('Answering…');
    try {
      await this.#stream(conversation, before, message, abort.signal);
    } finally {
      this.#aborts.delete(id);
      this.#written.delete(id);
      delete this.running[id];
      await this.#save(id, [message]);
    }
    if (message.problem?.kind === 'key' && (await app.askForKey())) {
      void app.refreshModels();
      if (this.current.id === id) await this.regenerate(message);
    }
  }

  async #stream(c: Conversation, before: Message[], message: Message, signal: AbortSignal): Promise<void> {
    let saved = Date.now();
    const writer = new AnswerWriter(message, () => {
      if (Date.now() - saved < SAVE_EVERY_MS) return;
      saved = Date.now();
      void this.#save(c.id, [message]);
    });
    try {
      for await (const chunk of streamChat(requestBody(c, message.model ?? '', before), signal)) {
        writer.take(chunk);
      }
      writer.flush();
      message.state = 'done';
      app.say(message.content ? `Answer: ${message.content.slice(0, 4000)}` : 'The answer is done.');
    } catch (error) {
      writer.flush();
      if (signal.aborted) {
        message.state = 'stopped';
        app.say('Stopped.');
        return;
      }
      message.state = 'failed';
      message.problem = problemOf(error);
      if (message.problem.kind === 'offline') app.noteAway();
      app.say(message.problem.text);
    }
  }

  rename(conversation: Conversation, title: string): void {
    conversation.title = titleOf(title);
    void this.#save(conversation.id);
  }

  // Deletes it at once; what is returned brings it back.
  async remove(id: string): Promise<() => Promise<void>> {
    this.stop(id);
    const store = await this.#store;
    const conversation = $state.snapshot(this.conversations.find((one) => one.id === id)) as Conversation;
    const messages = await store.messages(id);
    await store.remove(id);
    this.conversations = this.conversations.filter((one) => one.id !== id);
    delete this.threads[id];
    if (this.openId === id) this.startNew();
    this.#channel.postMessage(id);
    return async () => {
      await store.put(conversation, messages);
      this.#channel.postMessage(id);
      await this.load();
    };
  }

  async exportAll(): Promise<string> {
    const store = await this.#store;
    const all: Exported[] = [];
    for (const conversation of await store.conversations()) {
      all.push({ conversation, messages: await store.messages(conversation.id) });
    }
    return toFile(all);
  }

  // Returns how many came in, and how many were here already. A conversation of the same name that
  // went on elsewhere comes in beside the one that is here.
  async importAll(file: string): Promise<{ added: number; known: number }> {
    const store = await this.#store;
    let added = 0;
    let known = 0;
    for (const { conversation, messages } of fromFile(file)) {
      const here = this.conversations.find((one) => one.id === conversation.id);
      if (here && here.updated >= conversation.updated) {
        known += 1;
        continue;
      }
      // New names: a file must not write over messages of other conversations.
      const names = new Map(messages.map((message) => [message.id, newId()]));
      const id = here ? newId() : conversation.id;
      const renamed = (name: string | null): string | null => (name === null ? null : (names.get(name) ?? null));
      await store.put(
        { ...conversation, id, leaf: renamed(conversation.leaf) },
        messages.map((one) => ({
          ...one, id: names.get(one.id) as string, parent: renamed(one.parent), conversation: id,
        })),
      );
      added += 1;
    }
    await this.load();
    this.#channel.postMessage('');
    return { added, known };
  }
}

export const chats = new Chats();
