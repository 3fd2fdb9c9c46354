/**
 * Credentials for callbacks, from Secrets in the API: read when an alert has to be sent, and kept only in memory.
 *
 * - They are read again after a minute, and after the receiver has refused them: rotating a Secret needs no restart.
 * - While the API is unavailable, the last ones are used; before the first read, alerts wait.
 * - A Secret that is missing, unusable or may not be read is an error: alerts wait, and are never sent without it.
 */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { isForbidden, isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { orAborted } from '../../../lib/time/abort.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import { TokenBucket } from '../../../lib/time/rate-limit.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { type Secret, secrets } from '../../../lib/kube/object/object.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { type CallbackDefault, callbackDefault } from './callback-defaults.ts';
import type { Credentials, CredentialsFor } from './options.ts';
import { credentialBytes, sameCredentials, secretCredentials } from './secret-credentials.ts';

export interface CallbackSecretsOptions {
  readonly client: Pick<KubeClient, 'get'>;
  /** For callbacks whose trap names no Secret; see `parseCallbackDefaults`. */
  readonly defaults: readonly CallbackDefault[];
  readonly logger: Pick<Logger, 'info' | 'warn'>;
  /** Minimum time between two reads of one Secret, even if it was refused or is missing. Default: one second. */
  readonly paceMs?: number;
  readonly clock?: Clock;
}

/** Maximum number of cached Secrets: as many as queues by default. */
const MAX_SECRETS = 1000;
const MAX_BYTES = 16 * 1024 * 1024;
const READ_TIMEOUT_MS = 5000;
/** Minimum time between two reads while the API is unavailable and credentials are known. */
const AWAY_MS = 15_000;
/** Rate limit for reading Secrets, all together: the author of many policies must not delay the agent's other requests. */
const READS = { perSecond: 20, burst: 20 };

/** After this time a Secret is read again. */
const REFRESH_MS = 60_000;

interface Known {
  readonly secret: string;
  /** Undefined while there is a problem. */
  credentials: Credentials | undefined;
  /** The certificate authority alone, without the secret parts. */
  authority: Credentials | undefined;
  problem: RampartError | undefined;
  readMs: number;
  /** Before this time it is not read again. */
  nextMs: number;
  reading: Promise<void> | undefined;
  /** The problem that was logged last. */
  reported: string;
}

/** Each delivery has its own. Dispose of it after the delivery. */
export class CallbackSecrets implements Disposable {
  readonly #options: CallbackSecretsOptions;
  readonly #clock: Clock;
  readonly #paceMs: number;
  readonly #reads: TokenBucket;
  readonly #stop = new AbortController();
  /** Least recently used first. */
  readonly #known = new Map<string, Known>();
  #sizeBytes = 0;

  constructor(options: CallbackSecretsOptions) {
    const { clock = systemClock, paceMs = 1000 } = options;
    this.#options = options;
    this.#clock = clock;
    this.#paceMs = paceMs;
    this.#reads = new TokenBucket({ ...READS, clock });
  }

  /** For `DeliveryOptions`. @throws {RampartError} the reason if there are no credentials now; it names the Secret. */
  readonly credentialsFor: CredentialsFor = (callback, secret, signal) => {
    if (secret !== '') return this.#get(secret, false, signal);
    const found = callbackDefault(this.#options.defaults, callback);
    return found && this.#get(found.secret, found.origin === undefined, signal);
  };

  get size(): number {
    return this.#known.size;
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
    this.#known.clear();
  }

  #get(secret: string, authorityOnly: boolean, signal: AbortSignal): Credentials | Promise<Credentials> {
    const known = this.#use(secret);
    if (this.#clock.monotonicMs() >= known.nextMs) known.reading ??= this.#read(known);
    const { reading } = known;
    return reading === undefined
      ? credentialsOf(known, authorityOnly)
      : orAborted(reading, signal).then(() => credentialsOf(known, authorityOnly));
  }

  #use(secret: string): Known {
    const known = this.#known.get(secret) ?? {
      secret,
      credentials: undefined,
      authority: undefined,
      problem: undefined,
      readMs: -Infinity,
      nextMs: -Infinity,
      reading: undefined,
      reported: '',
    };
    this.#known.delete(secret);
    this.#known.set(secret, known);
    return known;
  }

  /** Never rejects: it stores the result in `known`. */
  async #read(known: Known): Promise<void> {
    const { signal } = this.#stop;
    const [namespace = '', name = ''] = known.secret.split('/');
    try {
      await this.#reads.take(signal);
      known.readMs = this.#clock.monotonicMs();
      const options = { signal, timeoutMs: READ_TIMEOUT_MS };
      this.#take(known, await this.#options.client.get(secrets, { namespace, name }, options));
    } catch (error) {
      this.#failed(known, error);
    }
    known.reading = undefined;
    if (signal.aborted) return;
    this.#notify(known);
    this.#makeRoom(known);
  }

  #take(known: Known, object: Secret): void {
    const nowMs = this.#clock.monotonicMs();
    try {
      const credentials = secretCredentials(object, known.secret);
      const before = known.credentials;
      if (before === undefined || !sameCredentials(before, credentials)) this.#keep(known, credentials);
      if (before !== undefined && known.credentials !== before) {
        this.#options.logger.info({ secret: known.secret }, 'credentials of callbacks reloaded');
      }
      known.nextMs = nowMs + REFRESH_MS;
    } catch (error) {
      this.#keep(known, undefined, error as RampartError);
      known.nextMs = nowMs + this.#paceMs;
    }
  }

  #keep(known: Known, credentials: Credentials | undefined, problem?: RampartError): void {
    if (this.#known.get(known.secret) === known) {
      this.#sizeBytes += sizeOf(credentials) - sizeOf(known.credentials);
    }
    const onRefused = (): void => {
      if (known.credentials !== kept) return;
      known.nextMs = Math.min(known.nextMs, known.readMs + this.#paceMs);
    };
    const kept = credentials && { ...credentials, onRefused };
    known.credentials = kept;
    const ca = credentials?.ca;
    known.authority = ca === undefined ? undefined : { ca, onRefused };
    known.problem = problem;
  }

  #failed(known: Known, error: unknown): void {
    const { secret } = known;
    const nowMs = this.#clock.monotonicMs();
    known.nextMs = nowMs + this.#paceMs;
    if (isNotFound(error)) this.#keep(known, undefined, missing(secret));
    else if (isForbidden(error)) this.#keep(known, undefined, forbidden(secret));
    else if (known.credentials !== undefined) {
      known.nextMs = nowMs + AWAY_MS;
    } else if (known.problem === undefined || known.problem.code === errorCodes.API_UNREACHABLE) {
      // Without a cause: a malformed response may contain anything.
      known.problem = unreachable(secret);
    }
  }

  /** Logs each change of the problem once. */
  #notify({ secret, problem }: Known): void {
    const known = this.#known.get(secret);
    const why = problem?.message ?? '';
    if (known === undefined || known.reported === why) return;
    const { logger } = this.#options;
    known.reported = why;
    if (problem === undefined) logger.info({ secret }, 'credentials of callbacks are available again');
    else logger.warn({ secret, why }, 'callbacks are waiting for their credentials');
  }

  /** Drops the least recently used Secrets; they are read again when needed. */
  #makeRoom(used: Known): void {
    for (const [secret, known] of this.#known) {
      if (this.#known.size <= MAX_SECRETS && this.#sizeBytes <= MAX_BYTES) return;
      if (known === used || known.reading !== undefined) continue;
      this.#known.delete(secret);
      this.#sizeBytes -= sizeOf(known.credentials);
    }
  }
}

function credentialsOf(
  { secret, credentials, authority, problem }: Known,
  authorityOnly: boolean,
): Credentials {
  if (problem !== undefined) throw problem;
  const found = authorityOnly ? authority : credentials;
  if (found !== undefined) return found;
  throw new RampartError(errorCodes.INPUT, {
    what: `the Secret ${secret} cannot be used`,
    why: 'it has no key ca.crt, the only one used for callbacks to any origin',
    next: 'Configure it with an origin: --callback-secret https://HOST=NAMESPACE/NAME',
  });
}

function sizeOf(credentials: Credentials | undefined): number {
  return credentials === undefined ? 0 : credentialBytes(credentials);
}

function missing(secret: string): RampartError {
  return new RampartError(errorCodes.NOT_FOUND, { what: `the Secret ${secret} does not exist` });
}

function forbidden(secret: string): RampartError {
  return new RampartError(errorCodes.PRIVILEGE, {
    what: `the agent is not allowed to read the Secret ${secret}`,
    next: 'Create a RoleBinding to the ClusterRole rampart-callback-secrets in that namespace',
  });
}

function unreachable(secret: string): RampartError {
  return new RampartError(errorCodes.API_UNREACHABLE, {
    what: `cannot read the Secret ${secret}`,
    why: 'the Kubernetes API gave no usable response',
  });
}
