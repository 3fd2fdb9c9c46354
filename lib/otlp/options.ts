/** The options of an exporter, and what it counts. */
import type { StoredRecord } from '../spool/record.ts';
import type { Logger } from '../telemetry/log.ts';
import type { BackoffOptions } from '../time/backoff.ts';
import type { Clock } from '../time/clock.ts';
import type { LogRecord, LogSource } from './log-record.ts';
import type { OtlpTarget } from './target.ts';

export interface OtlpExporterOptions {
  /** A directory used by this exporter alone, and by one process at a time; created with mode 0700. */
  readonly directory: string;
  readonly target: OtlpTarget;
  readonly source: LogSource;
  /** Must not throw: even a line that it cannot parse has to become a record. */
  readonly logRecordOf: (line: StoredRecord) => LogRecord;
  readonly userAgent: string;
  /** Limit of the queue on disk. Default 256 MiB. */
  readonly maxBytes?: number;
  /** Older lines are dropped and counted. Default 7 days. */
  readonly maxAgeMs?: number;
  readonly maxBatchRecords?: number;
  /** Limit for one request, until the head of its answer. Default 10,000, as OpenTelemetry's. */
  readonly timeoutMs?: number;
  /** Delays after failed requests. Default from 500 ms to 60 s, with jitter 0.5. */
  readonly backoff?: BackoffOptions;
  /** How long disposing continues to send to a receiver that answers. Default 2000. */
  readonly lingerMs?: number;
  readonly log?: Pick<Logger, 'info' | 'warn'>;
  readonly clock?: Clock;
}

/** Why `push` has returned false. */
const refusals = [
  /** The line is above 1 MiB. */
  'size',
  /** The queue is full. */
  'full',
  /** The disk is full or broken. */
  'disk',
  /** The exporter was disposed. */
  'closed',
] as const;
export type Refusal = (typeof refusals)[number];

const drops = [
  /** The receiver refused the request, with an answer after which it must not be sent again. */
  'refused',
  /** The receiver rejected this record, but took others of the same request: a partial success. */
  'rejected',
  /** The record was older than `maxAgeMs`. */
  'expired',
  /** The record could not be read again. */
  'damaged',
] as const;
export type Drop = (typeof drops)[number];

/**
 * Counts of lines since the start of this process. Always:
 *
 * - offered = queued + all of refused
 * - recovered + queued = sent + all of dropped + depth
 */
export interface OtlpStats {
  readonly offered: number;
  readonly queued: number;
  readonly refused: Readonly<Record<Refusal, number>>;
  /** Records that earlier processes had left. */
  readonly recovered: number;
  readonly sent: number;
  readonly dropped: Readonly<Record<Drop, number>>;
  /** Requests that failed and were made again. */
  readonly retried: number;
  readonly depth: number;
  readonly sizeBytes: number;
  /** Age of the oldest waiting line; 0 if none waits. */
  readonly oldestMs: number;
  /** Calls of fdatasync(2) that failed: a loss of power may lose lines that would survive the end of this process. */
  readonly syncErrors: number;
  /** Batches that were sent but could not be recorded as sent: the next process would send them again. */
  readonly cursorErrors: number;
  /** Failed requests since the last success. */
  readonly failures: number;
  /** The error of the last failed request. */
  readonly lastError: string | undefined;
}

export function newCounts() {
  return {
    ...{ offered: 0, queued: 0, recovered: 0, sent: 0, retried: 0, syncErrors: 0, cursorErrors: 0 },
    refused: Object.fromEntries(refusals.map((name) => [name, 0])) as Record<Refusal, number>,
    dropped: Object.fromEntries(drops.map((name) => [name, 0])) as Record<Drop, number>,
  };
}
