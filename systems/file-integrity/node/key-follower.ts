/**
 * The key of a job: asked for until it is there, and now and then after that, since it may be replaced.
 *
 * @module
 */
import { Backoff } from '../../../shared/time/backoff.ts';
import type { KubeClient } from '../../../shared/kube/client.ts';
import { type Clock, sleep } from '../../../shared/time/clock.ts';
import type { Logger } from '../../../shared/observe/log.ts';
import { keyId } from '../database/signature.ts';
import type { SigningKey } from '../database/signature.ts';
import { readSigningKey } from './signing-key.ts';

export interface KeyFollowerOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** There is a key, or another one. */
  readonly onKey: (key: SigningKey) => void;
  /** There has been none for a while. */
  readonly onMissing: (why: string) => Promise<void>;
}

/** The operator makes it when the first FileIntegrity comes: then it is there soon. */
const missing = { baseMs: 250, maxMs: 5000 };
const knownMs = 10 * 60_000;
/** Before that its absence is no error: the operator is about to make it. */
const patienceMs = 10_000;
/** An API that does not answer holds up nothing else. */
const askMs = 5000;

export class KeyFollower {
  readonly #options: KeyFollowerOptions;
  #known: string | undefined;
  #told: string | undefined;

  constructor(options: KeyFollowerOptions) {
    this.#options = options;
  }

  /** Until the signal aborts. */
  async run(): Promise<void> {
    const { clock, signal, onMissing } = this.#options;
    const startedMs = clock.monotonicMs();
    const backoff = new Backoff(missing);
    while (!signal.aborted) {
      const why = await this.ask();
      if (why !== undefined && this.#known === undefined && clock.monotonicMs() - startedMs >= patienceMs)
        await onMissing(why);
      const waitMs = this.#known === undefined ? backoff.nextMs() : knownMs;
      await sleep(clock, waitMs, signal).catch(() => undefined);
    }
  }

  /**
   * Asks now: before something is done that depends on which key there is now. The one that is known stays where there is none that
   * can be used, and where the API does not answer.
   *
   * @returns why there is none that can be used; undefined where there is one, and where nobody knows
   */
  async ask(): Promise<string | undefined> {
    const { client, namespace, logger, signal, onKey } = this.#options;
    try {
      const key = await readSigningKey(
        client,
        namespace,
        AbortSignal.any([signal, AbortSignal.timeout(askMs)]),
      );
      if (typeof key === 'string') {
        if (key !== this.#told) logger.warn({ why: key }, this.#withoutKey);
        return (this.#told = key);
      }
      this.#told = undefined;
      const id = keyId(key);
      const isOther = id !== this.#known;
      this.#known = id;
      if (isOther && !signal.aborted) onKey(key);
    } catch (err) {
      logger.debug({ err }, 'cannot read the baseline signing key now');
    }
    return undefined;
  }

  get #withoutKey(): string {
    return this.#known === undefined
      ? 'nothing is scanned before there is a key to sign baselines with'
      : 'the key that baselines are signed with is gone: this agent keeps using it until it stops; a new agent will not have it';
  }
}
