/** The status, as `rampart status` reads it, for a page that asks again and again. */
import type { Guard } from '../../guard/guard.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { personOf } from '../../lib/cli/person.ts';
import { messageOf } from '../../lib/errors/errors.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { ask, askStored, isRefused, type StatusChoice } from '../status/ask.ts';
import type { UiReport } from './report.ts';

/** Answers younger than that are good enough for a second page. */
const FRESH_MS = 2_000;

export type PolledStatus = Pick<UiReport, 'failure' | 'status' | 'who'>;

export class StatusPoll {
  readonly #guards: readonly Guard[];
  readonly #choice: StatusChoice;
  readonly #signal: AbortSignal;
  #who: string | null = null;
  #last: { readonly answer: Promise<PolledStatus>; endedMs: number | undefined } | undefined;

  constructor(guards: readonly Guard[], choice: StatusChoice, signal: AbortSignal) {
    this.#guards = guards;
    this.#choice = choice;
    this.#signal = signal;
  }

  /** Reads at most once at a time. Unreadable parts are in the answer: never rejects. */
  read(): Promise<PolledStatus> {
    const endedMs = this.#last?.endedMs;
    const isOld = endedMs !== undefined && performance.now() - endedMs > FRESH_MS;
    if (this.#last === undefined || isOld) {
      const last = { answer: this.#read(), endedMs: undefined as number | undefined };
      void last.answer.then(() => (last.endedMs = performance.now()));
      this.#last = last;
    }
    return this.#last.answer;
  }

  async #read(): Promise<PolledStatus> {
    try {
      const { examined } = await ask(this.#guards, this.#choice, this.#signal);
      this.#who ??= await this.#askWho();
      return { status: examined.report, failure: null, who: this.#who };
    } catch (error) {
      const failure = messageOf(error);
      if (!isRefused(error)) return { status: null, failure, who: this.#who };
      const stored = await askStored(this.#guards, this.#choice, this.#signal).catch(() => undefined);
      return { status: stored?.examined.report ?? null, failure, who: this.#who };
    }
  }

  async #askWho(): Promise<string> {
    using client = new KubeClient(clusterAccess(this.#choice));
    return await personOf(client, this.#choice, this.#signal);
  }
}
