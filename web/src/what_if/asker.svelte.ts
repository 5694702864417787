import { ApiProblem, askWhatIf, readHelix, tellHelix } from '../lib/api';
import { app } from '../lib/app.svelte';
import { parsePlain, percent } from '../lib/format';
import type { Answer } from './answer';
import { type Change, wireChange } from './question';

export interface MachineType {
  name: string;
  memory_bytes: number;
  usd_per_hour: number;
}

const PHASES: Record<string, string> = {
  today: 'looks at what is served today',
  'planned anew': "plans today's machines anew",
  'what if': 'plans the changed cluster',
  simulation: 'simulates both under the same load',
  suggestions: 'looks for what would help most',
};

// The question that is put together, and its answer. It goes on while other pages are looked at.
class Asker {
  changes = $state<Change[]>([]);
  suggest = $state(false);
  types = $state.raw<MachineType[]>([]);
  running = $state(false);
  phase = $state('');
  share = $state(0);
  problem = $state('');
  needsKey = $state(false); // that is what the problem is
  answer = $state.raw<Answer | null>(null);
  asked = $state(''); // what it answers, as text, so that one sees whether it still is what is asked

  #abort: AbortController | null = null;

  get question(): string {
    return JSON.stringify(this.changes.map(wireChange));
  }

  async readTypes(): Promise<void> {
    if (this.types.length > 0) return;
    try {
      const body = parsePlain(await readHelix('what-if')) as { machine_types?: MachineType[] };
      this.types = (body.machine_types ?? []).filter((one) => typeof one?.name === 'string');
      this.#solved();
    } catch (error) {
      this.#failed(error);
      if (this.needsKey) await this.giveKey();
    }
  }

  async ask(): Promise<void> {
    if (this.running) return;
    const abort = (this.#abort = new AbortController());
    const asked = this.question;
    this.#solved();
    this.running = true;
    this.share = 0;
    this.phase = 'begins';
    app.say('The question is worked on.');
    try {
      const question = { changes: this.changes.map(wireChange), suggest: this.suggest };
      for await (const event of askWhatIf(question, abort.signal)) {
        if (event.name === 'progress') this.#progress(event.data);
        if (event.name === 'error') throw this.#refusal(event.data);
        if (event.name === 'answer') {
          this.answer = parsePlain(event.data) as Answer;
          this.asked = asked;
          app.say('The answer is there.');
          return;
        }
      }
      this.problem = 'The connection broke off before the answer.';
    } catch (error) {
      if (abort.signal.aborted) app.say('Cancelled.');
      else this.#failed(error);
      if (this.needsKey) void this.giveKey();
    } finally {
      this.running = false;
    }
  }

  cancel(): void {
    this.#abort?.abort();
  }

  // Another key is asked for; then it is tried again.
  async giveKey(which: 'key' | 'admin key' = 'key'): Promise<void> {
    if (!(await app.askForKey(which))) return;
    this.#solved();
    await this.readTypes();
  }

  // Puts the plan of the answer in force. Returns whether the server takes it.
  async apply(answer: Answer): Promise<boolean> {
    this.#solved();
    try {
      await tellHelix('plan', { layers: answer.apply.layers });
      for (const name of answer.apply.drain ?? []) await tellHelix(`nodes/${encodeURIComponent(name)}/drain`, {});
      return true;
    } catch (error) {
      this.#failed(error);
      if (this.needsKey) void this.giveKey(app.keyToAdministrate);
      return false;
    }
  }

  #progress(data: string): void {
    const said = parsePlain(data) as { phase?: unknown; share_done?: unknown };
    this.phase = PHASES[String(said.phase)] ?? String(said.phase);
    this.share = Math.min(1, Math.max(this.share, Number(said.share_done) || 0));
    app.say(`${percent(this.share)}: ${this.phase}`);
  }

  #refusal(data: string): ApiProblem {
    const said = parsePlain(data) as { error?: { message?: unknown } };
    return new ApiProblem({ kind: 'refused', text: String(said.error?.message ?? 'The server gave no answer.') });
  }

  #solved(): void {
    this.problem = '';
    this.needsKey = false;
  }

  #failed(error: unknown): void {
    if (!(error instanceof ApiProblem)) throw error;
    this.problem = error.problem.text;
    this.needsKey = error.problem.kind === 'key';
    if (error.problem.kind === 'offline') app.noteAway();
  }
}

export const asker = new Asker();
