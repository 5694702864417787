import type { Conversation, Message } from './types';

// Conversations in the browser's IndexedDB. Where it has none (some private windows) everything
// works until the page is closed, and `durable` is false.

export interface Store {
  durable: boolean;
  conversations(): Promise<Conversation[]>;
  messages(conversation: string): Promise<Message[]>;
  put(conversation: Conversation | null, messages: Message[]): Promise<void>;
  removeMessage(id: string): Promise<void>;
  remove(conversation: string): Promise<void>;
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error('the browser could not read'));
  });
}

function committed(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error ?? new Error('the browser could not write'));
  });
}

function openDatabase(): Promise<IDBDatabase> {
  const request = indexedDB.open('helix', 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore('conversations', { keyPath: 'id' });
    request.result.createObjectStore('messages', { keyPath: 'id' }).createIndex('conversation', 'conversation');
  };
  return done(request);
}

class DatabaseStore implements Store {
  durable = true;
  constructor(private database: IDBDatabase) {}

  conversations(): Promise<Conversation[]> {
    return done(this.database.transaction('conversations').objectStore('conversations').getAll());
  }
  messages(conversation: string): Promise<Message[]> {
    const index = this.database.transaction('messages').objectStore('messages').index('conversation');
    return done(index.getAll(conversation));
  }
  put(conversation: Conversation | null, messages: Message[]): Promise<void> {
    const transaction = this.database.transaction(['conversations', 'messages'], 'readwrite');
    if (conversation) transaction.objectStore('conversations').put(conversation);
    for (const message of messages) transaction.objectStore('messages').put(message);
    return committed(transaction);
  }
  removeMessage(id: string): Promise<void> {
    const transaction = this.database.transaction('messages', 'readwrite');
    transaction.objectStore('messages').delete(id);
    return committed(transaction);
  }
  async remove(conversation: string): Promise<void> {
    const transaction = this.database.transaction(['conversations', 'messages'], 'readwrite');
    transaction.objectStore('conversations').delete(conversation);
    const messages = transaction.objectStore('messages');
    const keys = messages.index('conversation').getAllKeys(conversation);
    keys.onsuccess = () => keys.result.forEach((key) => messages.delete(key));
    return committed(transaction);
  }
}

class MemoryStore implements Store {
  durable = false;
  private kept = new Map<string, Conversation>();
  private texts = new Map<string, Message>();

  async conversations(): Promise<Conversation[]> {
    return [...this.kept.values()];
  }
  async messages(conversation: string): Promise<Message[]> {
    return [...this.texts.values()].filter((message) => message.conversation === conversation);
  }
  async put(conversation: Conversation | null, messages: Message[]): Promise<void> {
    if (conversation) this.kept.set(conversation.id, conversation);
    for (const message of messages) this.texts.set(message.id, message);
  }
  async removeMessage(id: string): Promise<void> {
    this.texts.delete(id);
  }
  async remove(conversation: string): Promise<void> {
    this.kept.delete(conversation);
    for (const message of await this.messages(conversation)) this.texts.delete(message.id);
  }
}

export async function openStore(): Promise<Store> {
  try {
    return new DatabaseStore(await openDatabase());
  } catch {
    return new MemoryStore();
  }
}
