/** The status, as `rampart status` reads it, for a page that polls. */
import type { Guard } from '../../guard/guard.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { personOf } from '../../lib/cli/person.ts';
import { messageOf } from '../../lib/errors/errors.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { SingleFlightCache } from '../../lib/time/single-flight-cache.ts';
import { ask, askStored, isRefused, type StatusChoice } from '../status/ask.ts';
import type { UiReport } from './report.ts';

/** If another page requests the status, one of this age is reused. */
const FRESH_MS = 2_000;

export type PolledStatus = Pick<UiReport, 'failure' | 'status' | 'who'>;

export class StatusPoll {
  readonly #guards: readonly Guard[];
  readonly #choice: StatusChoice;
  readonly #answers = new SingleFlightCache<PolledStatus>({
    fresh: { sinceEndMs: () => FRESH_MS },
    maxEntries: 1,
  });
  #who: string | null = null;

  constructor(guards: readonly Guard[], choice: StatusChoice) {
    this.#guards = guards;
    this.#choice = choice;
  }

  /** Reads at most once at a time. Failures are part of the result. @throws only the reason of the signal */
  read(signal: AbortSignal): Promise<PolledStatus> {
    return this.#answers.get('', (untilNobodyWaits) => this.#read(untilNobodyWaits), { signal });
  }

  async #read(signal: AbortSignal): Promise<PolledStatus> {
    try {
      const { examined } = await ask(this.#guards, this.#choice, signal);
      this.#who ??= await this.#askWho(signal);
      return { status: examined.report, failure: null, who: this.#who };
    } catch (error) {
      const failure = messageOf(error);
      if (!isRefused(error)) return { status: null, failure, who: this.#who };
      const stored = await askStored(this.#guards, this.#choice, signal).catch(() => undefined);
      return { status: stored?.examined.report ?? null, failure, who: this.#who };
    }
  }

  async #askWho(signal: AbortSignal): Promise<string> {
    using client = new KubeClient(clusterAccess(this.#choice));
    return await personOf(client, this.#choice, signal);
  }
}
