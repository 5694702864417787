import { ApiProblem, readHistory } from '../lib/api';
import { app } from '../lib/app.svelte';
import { parsePlain } from '../lib/format';
import { watchVisible } from '../lib/visible';
import { addNewer, type History, lastTime } from './series';

const RETRY_MS = [1000, 2000, 4000, 8000];

// What the server has measured: read once, then what is new, for as long as it is looked at.
class HistoryReader {
  history = $state.raw<History | null>(null);
  connected = $state(false);
  problem = $state('');

  #abort: AbortController | null = null;
  #retries = 0;

  start(): () => void {
    const unwatch = watchVisible((visible) => {
      if (!visible) this.#stop();
      else if (!this.#abort) void this.#follow();
    });
    return () => {
      unwatch();
      this.#stop();
    };
  }

  #stop(): void {
    this.#abort?.abort();
    this.#abort = null;
  }

  async #follow(): Promise<void> {
    const abort = (this.#abort = new AbortController());
    while (this.#abort === abort) {
      let wait = RETRY_MS[Math.min(this.#retries++, RETRY_MS.length - 1)] as number;
      try {
        await this.#read(abort.signal);
        wait = 1000 * Math.max(1, this.history?.interval_s ?? 10);
      } catch (error) {
        if (abort.signal.aborted) return;
        this.connected = false;
        this.problem = error instanceof ApiProblem ? error.problem.text : 'The answer is none that a server gives.';
        if (error instanceof ApiProblem && error.problem.kind === 'offline') app.noteAway();
        if (error instanceof ApiProblem && error.problem.kind === 'key') {
          if (!(await app.askForKey())) return;
          wait = 0;
        }
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  async #read(signal: AbortSignal): Promise<void> {
    const since = this.history && lastTime(this.history);
    const newer = parsePlain(await readHistory(since, signal)) as History;
    if (!Array.isArray(newer?.samples) || !Array.isArray(newer.columns) || !Array.isArray(newer.events)) throw new TypeError('no history');
    this.history = this.history && since !== null ? addNewer(this.history, newer, since) : newer;
    this.connected = true;
    this.problem = '';
    this.#retries = 0;
  }
}

export const reader = new HistoryReader();
