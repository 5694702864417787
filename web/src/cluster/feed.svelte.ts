import { ApiProblem, followCluster } from '../lib/api';
import { app } from '../lib/app.svelte';
import { parsePlain } from '../lib/format';
import { mergePatch } from '../lib/merge_patch';
import { watchVisible } from '../lib/visible';
import type { RequestRecord } from '../requests/record';
import { type ClusterState, Meter, type Rates, type Worker } from './state';
import { isMachineEvent, machineEventText, placementText, reasonText } from './words';

// The cluster as it is now, and its requests where they are asked for: one connection for the page, for as long as
// it is looked at.

const RETRY_MS = [1000, 2000, 4000, 8000];
const SILENT_MS = 40_000; // comments come more often
const SHOWN_MS = { gone: 15_000, fresh: 6000, move: 4000 };
const MOST_NEWS = 60;

export interface News {
  id: number;
  at: Date;
  kind: string;
  text: string;
}

export interface Gone {
  worker: Worker;
  how: 'lost' | 'removed';
}

export interface Move {
  id: number;
  from: string[];
  to: string[];
}

const NOTHING: Rates = { workers: {}, links: {}, tokensPerS: 0 };

class ClusterFeed {
  state = $state.raw<ClusterState | null>(null);
  requests = $state.raw<Record<string, RequestRecord> | null>(null); // by ID/CHOICE; null: they were not told yet
  rates = $state.raw<Rates>(NOTHING);
  news = $state<News[]>([]); // newest first
  gone = $state.raw<Record<string, Gone>>({});
  fresh = $state.raw<Record<string, boolean>>({});
  moves = $state<Move[]>([]);
  connected = $state(false);
  problem = $state('');

  #meter = new Meter();
  #readers = new Set<{ requests: boolean }>();
  #following: 'nothing' | 'cluster' | 'requests' = 'nothing';
  #abort: AbortController | null = null;
  #seen: Record<string, Worker> = {}; // machines as they were last
  #heard = 0; // when something came last
  #told = 0; // when the state last changed
  #next = 0;
  #retries = 0;

  // Follows the cluster until what it returns is called.
  start(more: { requests?: boolean } = {}): () => void {
    const reader = { requests: more.requests ?? false };
    this.#readers.add(reader);
    const ticks = setInterval(() => this.#tick(), 1000);
    const unwatch = watchVisible(() => this.#settle());
    return () => {
      clearInterval(ticks);
      unwatch();
      this.#readers.delete(reader);
      this.#settle();
    };
  }

  // Connects as those who read want it, once they have all come and gone: where one page follows another, both are
  // there for a moment.
  #settle(): void {
    queueMicrotask(() => {
      const wanted = document.hidden || this.#readers.size === 0 ? 'nothing'
        : [...this.#readers].some((one) => one.requests) ? 'requests' : 'cluster';
      if (wanted === this.#following) return;
      this.#following = wanted;
      this.#stop();
      if (wanted !== 'nothing') void this.#follow(wanted === 'requests');
    });
  }

  #stop(): void {
    this.#abort?.abort();
    this.#abort = null;
    this.connected = false;
  }

  async #follow(requests: boolean): Promise<void> {
    const abort = (this.#abort = new AbortController());
    while (this.#abort === abort) {
      const connection = new AbortController();
      abort.signal.addEventListener('abort', () => connection.abort());
      const watch = setInterval(() => {
        if (performance.now() - this.#heard > SILENT_MS) connection.abort();
      }, 5000);
      this.#heard = performance.now();
      let wait = RETRY_MS[Math.min(this.#retries++, RETRY_MS.length - 1)] as number;
      try {
        for await (const event of followCluster(requests, connection.signal)) {
          this.#heard = performance.now();
          this.#take(event.name, event.data);
        }
      } catch (error) {
        this.connected = false;
        if (abort.signal.aborted) return;
        if (error instanceof ApiProblem && error.problem.kind === 'key') {
          if (!(await app.askForKey())) {
            this.problem = error.problem.text;
            return;
          }
          wait = 0;
        } else if (error instanceof ApiProblem) {
          this.problem = error.problem.text;
          if (error.problem.kind === 'offline') app.noteAway();
        } else {
          this.problem = 'The connection broke off.';
        }
      } finally {
        clearInterval(watch);
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  #take(name: string, data: string): void {
    if (name === ':') return;
    const said = parsePlain(data) as Record<string, unknown>;
    if (name === 'cluster') {
      this.#meter.clear();
      this.#retries = 0;
      this.connected = true;
      this.problem = '';
      this.#show(said as unknown as ClusterState);
    } else if (name === 'change') {
      if (this.state) this.#show(mergePatch(this.state, said));
    } else if (name === 'requests') {
      this.requests = said as unknown as Record<string, RequestRecord>;
    } else if (name === 'requests_change') {
      if (this.requests) this.requests = mergePatch(this.requests, said);
    } else if (name === 'placement') {
      this.#note(name, placementText(said.epoch));
    } else if (name === 'moved') {
      this.#moved(said);
    } else if (isMachineEvent(name)) {
      this.#worker(name, String(said.worker), String(said.name));
    }
  }

  #show(state: ClusterState): void {
    this.#told = performance.now();
    this.state = state;
    this.#seen = { ...this.#seen, ...state.workers };
    this.#meter.add(state);
    this.rates = this.#meter.rates();
  }

  // While nothing is told nothing changes, but time goes by.
  #tick(): void {
    const since = (performance.now() - this.#told) / 1000;
    if (!this.connected || !this.state || since < 1.5) return;
    this.#meter.add({ ...this.state, time_s: this.state.time_s + since });
    this.rates = this.#meter.rates();
  }

  #worker(kind: string, id: string, name: string): void {
    this.#note(kind, machineEventText(kind, name));
    const worker = this.state?.workers[id];
    if ((kind === 'lost' || kind === 'removed') && worker) {
      this.gone = { ...this.gone, [id]: { worker, how: kind } };
      setTimeout(() => {
        const { [id]: _, ...others } = this.gone;
        this.gone = others;
      }, SHOWN_MS.gone);
    }
    if (kind === 'joined') {
      this.fresh = { ...this.fresh, [id]: true };
      setTimeout(() => {
        const { [id]: _, ...others } = this.fresh;
        this.fresh = others;
      }, SHOWN_MS.fresh);
    }
  }

  #moved(said: Record<string, unknown>): void {
    if (typeof said.more === 'number') return this.#note('moved', `${said.more} more requests moved`, false);
    const ids = (list: unknown): string[] => (Array.isArray(list) ? list.map(String) : []);
    const move = { id: ++this.#next, from: ids(said.from), to: ids(said.to) };
    const names = (list: string[]): string => list.map((id) => this.nameOf(id)).join(' → ');
    const why = reasonText(String(said.reason));
    this.#note('moved', `Request ${String(said.request)} ${why}: ${names(move.from)}, now ${names(move.to)}`, false);
    this.moves.push(move);
    setTimeout(() => (this.moves = this.moves.filter((one) => one.id !== move.id)), SHOWN_MS.move);
  }

  nameOf(id: string): string {
    return this.lastSeen(id)?.name ?? `machine ${id}`;
  }

  // The machine as it is, or was when it was here.
  lastSeen(id: string): Worker | undefined {
    return this.state?.workers[id] ?? this.#seen[id];
  }

  #note(kind: string, text: string, aloud = true): void {
    this.news = [{ id: ++this.#next, at: new Date(), kind, text }, ...this.news].slice(0, MOST_NEWS);
    if (aloud) app.say(text);
  }
}

export const feed = new ClusterFeed();
