/** The options of a delivery, and what it reports. */
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { BackoffOptions } from '../../../lib/time/backoff.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import type { Resolve } from '../../../lib/net/address-rules.ts';
import type { CredentialsFor, Credentials } from './poster.ts';

export type { Credentials, CredentialsFor };

export interface DeliveryOptions {
  /** A directory used by this delivery alone, and by one process at a time; created with mode 0700. */
  readonly directory: string;
  /** Limit of all queues. One callback gets at most as much as is still free. Default 1 GiB. */
  readonly maxBytes?: number;
  /** Limit of one queue. Default 256 MiB. */
  readonly maxBytesPerCallback?: number;
  /** Queues at a time: one for each callback and Secret. Default 1000. */
  readonly maxCallbacks?: number;
  /** Older alerts are dropped and counted. Default 7 days. */
  readonly maxAgeMs?: number;
  /** For one request, until the head of its answer. Default 10,000. */
  readonly timeoutMs?: number;
  /** The most requests in flight at once; a callback has at most one. Default: 64. */
  readonly concurrency?: number;
  /** Between tries. Default from 500 ms to 60 s, with jitter 0.5. */
  readonly backoff?: BackoffOptions;
  /** The longest that `Retry-After` is obeyed. Default 15 minutes. */
  readonly maxRetryAfterMs?: number;
  /** Failures without a delivery for this long are a lasting problem, see `CallbackState`. Default 30 s. */
  readonly failingMs?: number;
  /** How long disposing waits for requests that are under way. Default 2000. */
  readonly lingerMs?: number;
  /** See `AddressRulesOptions`. */
  readonly allow?: readonly string[];
  readonly refuse?: readonly string[];
  readonly resolve?: Resolve;
  /** Default: none for any callback, and nothing is sent to those with a Secret. */
  readonly credentialsFor?: CredentialsFor;
  readonly log?: Pick<Logger, 'info' | 'warn'>;
  readonly clock?: Clock;
}

/** Why `enqueue` has returned false. */
const refusals = [
  /** The URL is invalid or leads to a forbidden place, or the Secret is missing, or has no keys for https. */
  'callback',
  /** The id is empty, too long, or not printable ASCII. */
  'id',
  /** The line is above 1 MiB. */
  'size',
  /** The queue of this callback is full. */
  'callback_full',
  /** All queues together are full. */
  'full',
  /** There are too many callbacks with something in their queue. */
  'callbacks',
  /** The disk is full or broken. */
  'disk',
  /** The delivery was disposed. */
  'closed',
] as const;
export type Refusal = (typeof refusals)[number];

const drops = [
  /** The receiver does not take this alert. */
  'unwanted',
  /** The alert was older than `maxAgeMs`. */
  'expired',
  /** The alert could not be read again. */
  'damaged',
] as const;
export type Drop = (typeof drops)[number];

/**
 * Counts since the start of this process. Always:
 *
 * - offered = accepted + all of refused
 * - recovered + accepted = delivered + all of dropped + depth
 */
export interface DeliveryStats {
  readonly offered: number;
  readonly accepted: number;
  readonly refused: Readonly<Record<Refusal, number>>;
  /** Alerts that earlier processes had left. */
  readonly recovered: number;
  readonly delivered: number;
  /** Tries that failed and are made again. */
  readonly retried: number;
  readonly dropped: Readonly<Record<Drop, number>>;
  readonly depth: number;
  /** Length of all files, with what is delivered and not yet removed. */
  readonly sizeBytes: number;
  /** Age of the oldest that waits; 0 when none does. */
  readonly oldestMs: number;
  /** From `enqueue` to the answer: the sum over all that were delivered. */
  readonly latencyMs: number;
  /** Files of which a part could not be read, now beside the others with the suffix `.corrupt`. */
  readonly damagedFiles: number;
  /** At the ends of files, cut off by the end of an earlier process. */
  readonly tornBytes: number;
  /** fdatasync(2) that failed: a loss of power might lose what this process would not. */
  readonly syncErrors: number;
  /** Deliveries that could not be written down, and would be made again by the next process. */
  readonly cursorErrors: number;
}

export interface LastError {
  readonly why: string;
  /** Milliseconds since 1970. */
  readonly atMs: number;
  /** There are no credentials to send, or the two sides do not take each other's. */
  readonly aboutCredentials: boolean;
}

/** Whether a callback accepts alerts, as reported to its policies. */
export interface CallbackState {
  readonly callback: string;
  readonly secret: string;
  readonly name: string;
  /** Why nothing is delivered, once that has lasted for long. */
  readonly problem: string | undefined;
  /** Whether this process knows: with alerts of an earlier one that were not tried for long yet it does not. */
  readonly isDecided: boolean;
  /** This agent's configuration does not allow it: its alerts are not even queued. */
  readonly isRefused?: true;
  readonly aboutCredentials: boolean;
}

export interface CallbackStats {
  readonly callback: string;
  /** The Secret that its alerts are sent with, `namespace/name`; empty if the trap names none. */
  readonly secret: string;
  /** Its name in logs and metrics: without path and query, which may be secret. */
  readonly name: string;
  readonly depth: number;
  readonly sizeBytes: number;
  readonly oldestMs: number;
  readonly delivered: number;
  /** Tries since the last success; 0 when all is well. */
  readonly failures: number;
  readonly lastError: LastError | undefined;
}

export type CompleteOptions = Required<Omit<DeliveryOptions, 'log' | 'resolve'>> &
  Pick<DeliveryOptions, 'log' | 'resolve'>;

const MIB = 1024 * 1024;
const MINUTE_MS = 60_000;

export function withDefaults(options: DeliveryOptions): CompleteOptions {
  return {
    maxBytes: 1024 * MIB,
    maxBytesPerCallback: 256 * MIB,
    maxCallbacks: 1000,
    maxAgeMs: 7 * 24 * 60 * MINUTE_MS,
    timeoutMs: 10_000,
    concurrency: 64,
    backoff: { baseMs: 500, maxMs: MINUTE_MS, jitter: 0.5 },
    maxRetryAfterMs: 15 * MINUTE_MS,
    failingMs: 30_000,
    lingerMs: 2000,
    allow: [],
    refuse: [],
    credentialsFor: () => undefined,
    clock: systemClock,
    ...options,
  };
}

export function newCounts() {
  return {
    offered: 0,
    accepted: 0,
    refused: Object.fromEntries(refusals.map((name) => [name, 0])) as Record<Refusal, number>,
    recovered: 0,
    delivered: 0,
    retried: 0,
    dropped: Object.fromEntries(drops.map((name) => [name, 0])) as Record<Drop, number>,
    latencyMs: 0,
    damagedFiles: 0,
    tornBytes: 0,
    syncErrors: 0,
    cursorErrors: 0,
  };
}
