/** The options of a delivery, and what it reports. */
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { BackoffOptions } from '../../../lib/time/backoff.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import type { Resolve } from '../../../lib/net/address-rules.ts';
import type { CredentialsFor, Credentials } from './poster.ts';

export type { Credentials, CredentialsFor };

export interface DeliveryOptions {
  /** A directory that only this delivery uses, in one process at a time; created with mode 0700. */
  readonly directory: string;
  /** Maximum size of all queues together, in bytes. One callback can use what the others leave. Default: 1 GiB. */
  readonly maxBytes?: number;
  /** Maximum size of one queue, in bytes. Default: 256 MiB. */
  readonly maxBytesPerCallback?: number;
  /** Maximum number of queues: there is one for each callback and Secret. Default: 1000. */
  readonly maxCallbacks?: number;
  /** Older alerts are dropped and counted. Default: 7 days. */
  readonly maxAgeMs?: number;
  /** Time limit for one request, until the head of its response. Default: 10,000. */
  readonly timeoutMs?: number;
  /** Maximum number of concurrent requests; a callback has at most one. Default: 64. */
  readonly concurrency?: number;
  /** The pause between attempts. Default: from 500 ms to 60 s, with jitter 0.5. */
  readonly backoff?: BackoffOptions;
  /** The longest pause that `Retry-After` can ask for. Default: 15 minutes. */
  readonly maxRetryAfterMs?: number;
  /** After this time without a delivery, failures are a lasting problem, see `CallbackState`. Default: 30 s. */
  readonly failingMs?: number;
  /** How long disposing waits for requests under way. Default: 2000. */
  readonly lingerMs?: number;
  /** See `AddressRulesOptions`. */
  readonly allow?: readonly string[];
  readonly refuse?: readonly string[];
  readonly resolve?: Resolve;
  /** Default: callbacks have no credentials, and nothing is sent to those with a Secret. */
  readonly credentialsFor?: CredentialsFor;
  readonly log?: Pick<Logger, 'info' | 'warn'>;
  readonly clock?: Clock;
}

/** Reasons for which `enqueue` returns false. */
const refusals = [
  /** The URL is invalid or its target forbidden; or a Secret is named, but the URL is not https or the Secret's name is malformed. */
  'callback',
  /** The id is empty, too long, or not printable ASCII. */
  'id',
  /** The line is longer than 1 MiB. */
  'size',
  /** The queue of this callback is full. */
  'callback_full',
  /** All queues together are full. */
  'full',
  /** There are too many callbacks with queued alerts. */
  'callbacks',
  /** The disk is full or fails. */
  'disk',
  /** The delivery has been disposed. */
  'closed',
] as const;
export type Refusal = (typeof refusals)[number];

const drops = [
  /** The receiver refuses this alert. */
  'unwanted',
  /** The alert was older than `maxAgeMs`. */
  'expired',
  /** The alert could not be read back. */
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
  /** Alerts that earlier processes left in the queues. */
  readonly recovered: number;
  readonly delivered: number;
  /** Failed attempts that are repeated. */
  readonly retried: number;
  readonly dropped: Readonly<Record<Drop, number>>;
  readonly depth: number;
  /** Size of all files, including delivered alerts that have not been removed yet. */
  readonly sizeBytes: number;
  /** Age of the oldest waiting alert; 0 if none waits. */
  readonly oldestMs: number;
  /** Time from `enqueue` to the response, as a sum over all delivered alerts. */
  readonly latencyMs: number;
  /** Files that could not be read completely; they were renamed, with the suffix `.corrupt`. */
  readonly damagedFiles: number;
  /** Incomplete records at the ends of files, left when an earlier process ended. */
  readonly tornBytes: number;
  /** Failures of fdatasync(2): a power failure might lose what the end of this process would not. */
  readonly syncErrors: number;
  /** Deliveries that could not be recorded, so that the next process would repeat them. */
  readonly cursorErrors: number;
}

export interface LastError {
  readonly why: string;
  /** Milliseconds since 1970. */
  readonly atMs: number;
  /** Whether credentials are missing, or one of the two sides does not accept those of the other. */
  readonly aboutCredentials: boolean;
}

/** Whether a callback accepts alerts, as reported to its policies. */
export interface CallbackState {
  readonly callback: string;
  readonly secret: string;
  readonly name: string;
  /** Why nothing is delivered, once that has lasted for `failingMs`; undefined otherwise. */
  readonly problem: string | undefined;
  /** Whether this process knows the state: not while an earlier process's alerts have not been tried for long enough. */
  readonly isDecided: boolean;
  /** Set if this agent's configuration forbids the callback: its alerts are not even queued. */
  readonly isRefused?: true;
  readonly aboutCredentials: boolean;
}

export interface CallbackStats {
  readonly callback: string;
  /** The Secret that its alerts are sent with, `namespace/name`; empty if the trap names none. */
  readonly secret: string;
  /** The name in logs and metrics: without path and query, which may be secret. */
  readonly name: string;
  readonly depth: number;
  readonly sizeBytes: number;
  readonly oldestMs: number;
  readonly delivered: number;
  /** Failed attempts since the last success; 0 if all is well. */
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
