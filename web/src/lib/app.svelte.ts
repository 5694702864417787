import { ApiProblem, isAlive, listModels, logIn, logOut, type Model, readStanding, type Standing } from './api';

// What all pages share: the server and how it is, who is logged in, the theme, the page that is shown.

export type Theme = 'system' | 'light' | 'dark';

const RETRY_MS = [1000, 2000, 4000, 8000];
const TOAST_MS = 7000;
const RENEW_MS = 6 * 3600 * 1000; // much less than a cookie lasts

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
  standing = $state.raw<Standing | null>(null); // what the visitor may do; null: the server has not said so yet
  asksForKey = $state<'' | 'key' | 'admin key'>(''); // '': no
  wasLoggedOut = $state(false); // and therefore a key is asked for again
  sidebarOpen = $state(false); // where it does not fit beside the page

  #keyWaiters: ((given: boolean) => void)[] = [];
  #retries = 0;
  #asking = false; // whether the server is back
  #toastId = 0;

  start(): void {
    write(() => sessionStorage, 'helix-key', ''); // where earlier versions of the page kept one
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
    // A page that is left open, on a wall, stays logged in.
    setInterval(() => void this.#renew(), RENEW_MS);
  }

  // Asks what the visitor may do, which renews the cookie of the session. Without an answer nothing changes.
  async #renew(): Promise<void> {
    this.standing = await readStanding().catch(() => this.standing);
  }

  // Who has a key that may only look sends nothing. Whom the server has not placed yet may try.
  get mayChat(): boolean {
    return this.standing?.role !== 'view';
  }
  get mayAdministrate(): boolean {
    return this.standing === null || this.standing.role === 'admin';
  }

  // What to ask for where the server did not let the visitor change the cluster.
  get keyToAdministrate(): 'key' | 'admin key' {
    return this.standing?.adminKeys && this.standing.role !== 'none' ? 'admin key' : 'key';
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
      this.standing = await readStanding();
      this.models = await listModels();
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
  askForKey(which: 'key' | 'admin key' = 'key'): Promise<boolean> {
    this.wasLoggedOut = which === 'key' && (this.standing?.session ?? false);
    if (!this.asksForKey) this.asksForKey = which;
    return new Promise((resolve) => this.#keyWaiters.push(resolve));
  }

  // Logs in with it. Returns what is wrong with it, or ''. The page keeps no key.
  async giveKey(key: string): Promise<string> {
    try {
      this.standing = await logIn(key);
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      const { kind, text, retryAt } = error.problem;
      if (kind === 'key') return 'The server does not know this key.';
      return retryAt === undefined ? text : `${text} (${Math.ceil((retryAt - Date.now()) / 1000)} s)`;
    }
    if (this.asksForKey === 'admin key' && !this.mayAdministrate) return 'The server knows this key, but it is no admin key.';
    this.say('You are logged in.');
    this.#closeKeyDialog(true);
    if (this.models.length === 0) void this.refreshModels();
    return '';
  }

  giveNoKey(): void {
    this.#closeKeyDialog(false);
  }

  #closeKeyDialog(given: boolean): void {
    this.asksForKey = '';
    for (const resolve of this.#keyWaiters.splice(0)) resolve(given);
  }

  // The page begins anew, so that nothing of the cluster stays on it. Conversations are the browser's.
  async logOut(): Promise<void> {
    try {
      await logOut();
      location.reload();
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      this.toast(error.problem.text);
    }
  }
}

export const app = new App();
