/** The key of a job: read repeatedly until it exists, and then at intervals, because it may be replaced. */
import { createPrivateKey, createPublicKey } from 'node:crypto';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { Backoff } from '../../../lib/time/backoff.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { type Clock, sleep } from '../../../lib/time/clock.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { keyId, type SigningKey } from '../database/signature.ts';
import { isForbidden, isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { secrets } from '../../../lib/kube/object/object.ts';

export const keySecretName = 'file-integrity-baseline-key';
/** Contains 32 or more random bytes. */
export const hmacDataKey = 'hmac-sha256';
/** Contains PKCS #8 in PEM. Preferred if the Secret has both. */
export const ed25519DataKey = 'ed25519';

/**
 * Reads the key. If there is no usable one, returns the reason and the remedy.
 *
 * @throws the client's errors, except for a missing or forbidden Secret
 */
export async function readSigningKey(
  client: Pick<KubeClient, 'get'>,
  namespace: string,
  signal: AbortSignal,
): Promise<SigningKey | string> {
  const name = `the Secret ${namespace}/${keySecretName}`;
  let data: Readonly<Record<string, string>>;
  try {
    ({ data = {} } = await client.get(secrets, { namespace, name: keySecretName }, { signal }));
  } catch (error) {
    if (isNotFound(error)) return `${name} does not exist. The operator creates it; is the operator running?`;
    if (isForbidden(error))
      return `access to ${name} is denied: ${error.message}. The operator grants access; is the operator running?`;
    throw error;
  }
  const pem = data[ed25519DataKey];
  if (pem !== undefined) {
    try {
      const privateKey = createPrivateKey(Buffer.from(pem, 'base64'));
      if (privateKey.asymmetricKeyType === 'ed25519')
        return { scheme: 'ed25519', privateKey, publicKey: createPublicKey(privateKey) };
    } catch {
      // Reported below.
    }
    return `${name} has no Ed25519 private key (PKCS #8, PEM) under ${ed25519DataKey}.`;
  }
  const secret = Buffer.from(data[hmacDataKey] ?? '', 'base64');
  if (secret.length >= 32) return { scheme: 'hmac-sha256', secret };
  return `${name} has ${secret.length} bytes under ${hmacDataKey}; at least 32 are required.`;
}

export interface KeyFollowerOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called when a key was found, or has changed: see {@link KeyFollower.key}. */
  readonly onKey: () => void;
  /** Called when no key was found for a while. */
  readonly onMissing: (error: RampartError) => Promise<void>;
}

/** Retries are frequent: the operator creates the key with the first FileIntegrity, so it is not missing for long. */
const missing = { baseMs: 250, maxMs: 5000 };
const knownMs = 10 * 60_000;
/** A key that is missing for less than this is not an error: the operator is about to create it. */
const patienceMs = 10_000;
/** Time limit of a read, so that an API that does not answer delays nothing else. */
const askMs = 5000;

export class KeyFollower {
  readonly #options: KeyFollowerOptions;
  #key: SigningKey | undefined;
  #known: string | undefined;
  #reported: string | undefined;

  constructor(options: KeyFollowerOptions) {
    this.#options = options;
  }

  /** The last usable key; undefined before the first. */
  get key(): SigningKey | undefined {
    return this.#key;
  }

  async run(): Promise<void> {
    const { clock, signal, onMissing } = this.#options;
    const startedMs = clock.monotonicMs();
    const backoff = new Backoff(missing);
    while (!signal.aborted) {
      const why = await this.ask();
      if (why !== undefined && this.#known === undefined && clock.monotonicMs() - startedMs >= patienceMs)
        await onMissing(
          new RampartError(errorCodes.NOT_FOUND, { what: 'there is no key for signing baselines', why }),
        );
      const waitMs = this.#known === undefined ? backoff.nextMs() : knownMs;
      await sleep(clock, waitMs, signal).catch(() => undefined);
    }
  }

  /**
   * Reads the key now, before a step that depends on the current one. If the new key is unusable, or the API does not
   * answer, the known key is kept.
   *
   * @returns why there is no usable key; undefined if there is one, or if that is unknown
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
        if (key !== this.#reported) logger.warn({ why: key }, this.#withoutKey);
        return (this.#reported = key);
      }
      this.#reported = undefined;
      const id = keyId(key);
      const isOther = id !== this.#known;
      this.#known = id;
      if (isOther && !signal.aborted) {
        this.#key = key;
        onKey();
      }
    } catch (err) {
      logger.debug({ err }, 'cannot read the baseline signing key');
    }
    return undefined;
  }

  get #withoutKey(): string {
    return this.#known === undefined
      ? 'scans do not start until there is a key for signing baselines'
      : 'the baseline signing key is gone: this agent keeps using it until it stops; a new agent will not have it';
  }
}
