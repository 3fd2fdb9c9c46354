/**
 * The key of a job: asked for until it is there, and now and then after that, since it may be replaced.
 *
 * @module
 */
import { Backoff } from '../../../shared/kube/backoff.ts';
import type { KubeClient } from '../../../shared/kube/client.ts';
import { type Clock, sleep } from '../../../shared/kube/clock.ts';
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

/** Until the signal aborts. */
export async function followKey(options: KeyFollowerOptions): Promise<void> {
  const { client, namespace, clock, logger, signal, onKey, onMissing } = options;
  const startedMs = clock.monotonicMs();
  let known: string | undefined;
  let told: string | undefined;
  const backoff = new Backoff(missing);
  while (!signal.aborted) {
    try {
      const key = await readSigningKey(client, namespace, signal);
      if (typeof key !== 'string') {
        const id = keyId(key);
        if (id !== known) onKey(key);
        known = id;
      } else if (known === undefined) {
        if (key !== told)
          logger.warn({ why: key }, 'nothing is scanned before there is a key to sign baselines with');
        told = key;
        if (clock.monotonicMs() - startedMs >= patienceMs) await onMissing(key);
      }
    } catch (err) {
      logger.debug({ err }, 'the key to sign baselines with cannot be read now');
    }
    await sleep(clock, known === undefined ? backoff.nextMs() : knownMs, signal).catch(() => undefined);
  }
}
