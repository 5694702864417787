import { ApiProblem, isAlive, listModels, type Model } from './api';

// What all pages share: the server and how it is, the key, the theme, the page that is shown.

export type Theme = 'system' | 'light' | 'dark';

const RETRY_MS = [1000, 2000, 4000, 8000];
const TOAST_MS = 7000;

export interface Toast {
  id: number;
  text: string;
  action?: { label: string; run: () => void };
}

function read(storage: () => Storage, name: string): string {
  try {
    return storage().getItem(name) ?? '';
  } catch {
    return ''; // storage is switched off
  }
}

function write(storage: () => Storage, name: string, value: string): void {
  try {
    if (value === '') storage().removeItem(name);
    else storage().setItem(name, value);
  } catch {
    // Then it lasts as long as the page.
  }
}

class App {
  models = $state<Model[]>([]);
  server = $state<'unknown' | 'ok' | 'away'>('unknown');
  serverWords = $state(''); // of a server that is there but does not want to
  theme = $state<Theme>('system');
  route = $state<string[]>([]); // the parts of the address behind '#/'
  toasts = $state<Toast[]>([]);
  spoken = $state(''); // for screen readers
  asksForKey = $state(false);
  keyWasWrong = $state(false);
  sidebarOpen = $state(false); // where it does not fit beside the page

  // Kept for this tab until it is closed. Roles of access will bring a cookie that scripts cannot
  // read; until then a key is typed once for each tab.
  #key = '';
  #keyWaiters: ((given: boolean) => void)[] = [];
  #retries = 0;
  #asking = false; // whether the server is back
  #toastId = 0;

  start(): void {
    this.#key = read(() => sessionStorage, 'helix-key');
    const theme = read(() => localStorage, 'helix-theme');
    this.setTheme(theme === 'light' || theme === 'dark' ? theme : 'system');
    const follow = (): void => {
      this.route = location.hash.replace(/^#\/?/, '').split('/').filter(Boolean);
      this.sidebarOpen = false;
    };
    addEventListener('hashchange', follow);
    // Where there is room again the side bar is no drawer any more.
    matchMedia('(max-width: 760px)').addEventListener('change', () => (this.sidebarOpen = false));
    follow();
    void this.refreshModels();
  }

  get key(): string {
    return this.#key;
  }

  go(...parts: string[]): void {
    location.hash = '/' + parts.join('/');
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    write(() => localStorage, 'helix-theme', theme === 'system' ? '' : theme);
  }

  // Says it to screen readers, politely.
  say(text: string): void {
    this.spoken = text;
  }

  toast(text: string, action?: Toast['action']): void {
    const toast: Toast = { id: ++this.#toastId, text, ...(action ? { action } : {}) };
    this.toasts.push(toast);
    setTimeout(() => this.dismiss(toast.id), TOAST_MS);
  }

  dismiss(id: number): void {
    this.toasts = this.toasts.filter((toast) => toast.id !== id);
  }

  async refreshModels(): Promise<void> {
    try {
      this.models = await listModels(this.#key);
      this.serverWords = '';
      this.#answered();
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      if (error.problem.kind === 'offline') return this.noteAway();
      this.#answered();
      if (error.problem.kind === 'key') {
        if (await this.askForKey()) await this.refreshModels();
        return;
      }
      this.serverWords = error.problem.text;
      if (error.problem.kind === 'starting') setTimeout(() => void this.refreshModels(), 2000);
    }
  }

  #answered(): void {
    if (this.server === 'away') this.say('The server is back.');
    this.server = 'ok';
    this.#retries = 0;
  }

  // The server did not answer: asks now and then until it does.
  noteAway(): void {
    if (this.server !== 'away') this.say('The server cannot be reached.');
    this.server = 'away';
    if (this.#asking) return;
    this.#asking = true;
    const wait = RETRY_MS[Math.min(this.#retries++, RETRY_MS.length - 1)];
    setTimeout(() => {
      this.#asking = false;
      void isAlive().then((alive) => (alive ? this.refreshModels() : this.noteAway()));
    }, wait);
  }

  // Resolves to whether a key was given; several who ask share one dialog.
  askForKey(): Promise<boolean> {
    this.keyWasWrong = this.#key !== '';
    this.asksForKey = true;
    return new Promise((resolve) => this.#keyWaiters.push(resolve));
  }

  giveKey(key: string | null): void {
    this.asksForKey = false;
    if (key !== null) {
      this.#key = key.trim();
      write(() => sessionStorage, 'helix-key', this.#key);
    }
    for (const resolve of this.#keyWaiters.splice(0)) resolve(key !== null && this.#key !== '');
  }

  forgetKey(): void {
    this.#key = '';
    write(() => sessionStorage, 'helix-key', '');
  }
}

export const app = new App();
