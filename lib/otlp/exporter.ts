/**
 * Sends lines to an OTLP receiver: as log records, in batches, in order, from a queue on disk, at least once.
 *
 * One request is in flight. Its records leave the queue when the receiver has answered. If the sender or the receiver is killed in
 * between, at most that batch arrives twice, each record with the same `log.record.uid`.
 */
import { randomBytes, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

import { messageOf } from '../errors/errors.ts';
import { describeConnectionFailure } from '../net/connection-failure.ts';
import { KeptConnection } from '../net/kept-connection.ts';
import type { QueueLog } from '../spool/queue-log.ts';
import type { StoredRecord } from '../spool/record.ts';
import { openSpool, type Spool } from '../spool/spool.ts';
import { Backoff } from '../time/backoff.ts';
import { type Clock, sleep, systemClock } from '../time/clock.ts';
import { exportRequest } from './log-record.ts';
import { type Drop, newCounts, type OtlpExporterOptions, type OtlpStats, type Refusal } from './options.ts';
import { type Outcome, outcomeOf } from './outcome.ts';
import { certificateError } from './target.ts';

const MAX_BYTES = 256 * 1024 * 1024;
const MAX_AGE_MS = 7 * 24 * 60 * 60_000;
/** The size of OpenTelemetry's batch processors. */
const BATCH_RECORDS = 512;
/** Limit of the lines in a request. The request is some three times as long, and receivers accept 20 MiB and more. */
const BATCH_BYTES = 1024 * 1024;
const TIMEOUT_MS = 10_000;
const LINGER_MS = 2000;
const MAX_RETRY_AFTER_MS = 15 * 60_000;
const BODY_MS = 5000;
const MAX_BODY_BYTES = 64 * 1024;
/** Least time between two lines in the log about losses of one kind. */
const LOSS_LOG_MS = 10_000;

/**
 * Opens the queue of a directory and sends what is in it. The caller disposes it; lines not yet sent stay on disk.
 *
 * @throws {RampartError} `INPUT` for a certificate that cannot be used, `IN_USE` when another process has the directory,
 *   `SYSTEM` or `FULL` when it cannot be used.
 */
export function openOtlpExporter(options: OtlpExporterOptions): OtlpExporter {
  const path = options.target.certificateFile;
  if (path !== undefined) {
    try {
      void new X509Certificate(readFileSync(path));
    } catch (error) {
      throw certificateError(path, error);
    }
  }
  return new OtlpExporter(options);
}

/** See {@link openOtlpExporter}. */
export class OtlpExporter implements AsyncDisposable {
  readonly #options: OtlpExporterOptions;
  readonly #clock: Clock;
  readonly #spool: Spool;
  readonly #queue: QueueLog;
  readonly #connection: KeptConnection;
  readonly #backoff: Backoff;
  readonly #counts = newCounts();
  readonly #reportedMs = new Map<string, number>();
  readonly #idPrefix = `${randomBytes(12).toString('hex')}-`;
  readonly #maxBatch: number;
  /** Records of the next request: fewer after one that was too large. */
  #batch: number;
  #nextId = 0;
  #lastError: string | undefined;
  #running: Promise<void> | undefined;
  /** Aborts waiting, but not a request in progress. */
  readonly #leave = new AbortController();
  readonly #abort = new AbortController();
  #closed: Promise<void> | undefined;

  constructor(options: OtlpExporterOptions) {
    const { directory, clock = systemClock, maxBytes = MAX_BYTES, timeoutMs = TIMEOUT_MS } = options;
    this.#options = options;
    this.#clock = clock;
    this.#maxBatch = this.#batch = options.maxBatchRecords ?? BATCH_RECORDS;
    this.#backoff = new Backoff(options.backoff ?? { baseMs: 500, maxMs: 60_000, jitter: 0.5 });
    this.#connection = new KeptConnection({
      ...{ clock, timeoutMs },
      bodyMs: BODY_MS,
      maxBodyBytes: MAX_BODY_BYTES,
    });
    this.#spool = openSpool({
      ...{ directory, clock, maxQueueBytes: maxBytes },
      // This is the only queue, so it need not leave room for others.
      maxBytes: Infinity,
      contents: 'lines',
      keyOf: ({ kind, text }) => (kind === queueName.kind && text === queueName.text ? queueKey : undefined),
      observer: {
        damaged: (lost) => {
          this.#counts.dropped.damaged += lost;
          options.log?.warn({ lost }, 'a queue file of OTLP is damaged');
        },
        syncFailed: (error) => {
          this.#counts.syncErrors++;
          options.log?.warn({ err: error }, 'lines for OTLP could not be synced to disk');
        },
      },
    });
    this.#queue = [...this.#spool.queues][0] ?? this.#spool.add(queueName);
    this.#counts.recovered = this.#spool.found.records;
    if (this.#queue.depth > 0) this.#wake();
  }

  /** Queues a line. Synchronous, one write(2); never throws. @returns false if it was not queued, which is counted */
  push(line: string): boolean {
    this.#counts.offered++;
    const refusal = this.#take(line);
    if (refusal === undefined) {
      this.#counts.queued++;
      this.#wake();
      return true;
    }
    const soFar = ++this.#counts.refused[refusal];
    this.#reportLoss(refusal, { reason: refusal, soFar }, 'a line was not queued for OTLP');
    return false;
  }

  get stats(): OtlpStats {
    const { refused, dropped, ...counts } = this.#counts;
    return {
      ...counts,
      refused: { ...refused },
      dropped: { ...dropped },
      depth: this.#queue.depth,
      sizeBytes: this.#spool.sizeBytes,
      oldestMs: this.#oldestMs(),
      failures: this.#backoff.attempts,
      lastError: this.#lastError,
    };
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  #take(line: string): Refusal | undefined {
    if (this.#closed !== undefined) return 'closed';
    const record = this.#spool.encode(`${this.#idPrefix}${(this.#nextId++).toString(36)}`, line);
    if (record === undefined) return 'size';
    const refusal = this.#spool.append(this.#queue, record);
    return refusal === 'queue_full' ? 'full' : refusal;
  }

  #oldestMs(): number {
    try {
      const head = this.#queue.head();
      return head === undefined ? 0 : Math.max(0, this.#spool.nowMs() - head.acceptedMs);
    } catch {
      return 0;
    }
  }

  #wake(): void {
    if (this.#running !== undefined || this.#leave.signal.aborted) return;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      // Records that were added between the last look into the queue and now.
      if (this.#queue.depth > 0 && this.#closed === undefined) this.#wake();
    });
  }

  async #run(): Promise<void> {
    const { signal } = this.#leave;
    while (!signal.aborted) {
      let delayMs: number;
      try {
        const records = this.#nextLive();
        if (records.length === 0) return;
        const outcome = await this.#send(records);
        if (outcome === undefined) return;
        delayMs = this.#settle(records.length, outcome);
      } catch (error) {
        delayMs = this.#failed({ kind: 'failed', why: `cannot read the queue: ${messageOf(error)}` });
      }
      if (delayMs === 0) continue;
      if (this.#closed !== undefined) return;
      await sleep(this.#clock, delayMs, signal).catch(() => undefined);
    }
  }

  /** The oldest lines that are not too old. */
  #nextLive(): readonly StoredRecord[] {
    const oldestMs = this.#spool.nowMs() - (this.#options.maxAgeMs ?? MAX_AGE_MS);
    for (let records; (records = this.#queue.heads(this.#batch, BATCH_BYTES)).length > 0;) {
      const firstLive = records.findIndex(({ acceptedMs }) => acceptedMs >= oldestMs);
      if (firstLive === 0) return records;
      const expired = firstLive < 0 ? records.length : firstLive;
      this.#drop('expired', expired, 'lines for OTLP are too old; they are dropped');
      this.#pass(expired);
    }
    return [];
  }

  /** @returns undefined if the exporter was told to end */
  async #send(records: readonly StoredRecord[]): Promise<Outcome | undefined> {
    const { target, source, logRecordOf, userAgent } = this.#options;
    const { signal } = this.#abort;
    try {
      const body = Buffer.from(exportRequest(source, records.map(logRecordOf)));
      const headers = { ...target.headers, 'content-type': 'application/json', 'user-agent': userAgent };
      // Read before each request, so that a rotated certificate is used.
      const ca = target.certificateFile === undefined ? undefined : await readFile(target.certificateFile);
      const answer = await this.#connection.post({ url: target.url, headers, body, tls: { ca } }, signal);
      return outcomeOf(answer, records.length, this.#clock.wallMs());
    } catch (error) {
      return signal.aborted ? undefined : { kind: 'failed', why: describeConnectionFailure(error) };
    }
  }

  /** @returns how long to wait before the next request, in milliseconds. */
  #settle(count: number, outcome: Outcome): number {
    switch (outcome.kind) {
      case 'too-large':
        this.#batch = Math.ceil(count / 2);
        return 0;
      case 'failed':
        return this.#failed(outcome);
      case 'refused':
        this.#lastError = outcome.why;
        this.#drop('refused', count, 'the OTLP receiver refuses lines; they are dropped', outcome.why);
        this.#done(count);
        return 0;
      case 'taken': {
        const { rejected, why } = outcome;
        if (rejected > 0) this.#drop('rejected', rejected, 'the OTLP receiver has rejected lines', why);
        else if (why !== '') this.#reportLoss('warning', { why }, 'the OTLP receiver warns');
        this.#counts.sent += count - rejected;
        this.#done(count);
        return 0;
      }
    }
  }

  #pass(count: number): void {
    if (!this.#queue.pass(count)) this.#counts.cursorErrors++;
  }

  #done(count: number): void {
    this.#pass(count);
    this.#batch = Math.min(this.#maxBatch, this.#batch * 2);
    const failures = this.#backoff.attempts;
    this.#backoff.reset();
    if (failures > 0) {
      const waiting = this.#queue.depth;
      this.#options.log?.info(
        { receiver: this.#receiver, failures, waiting },
        'the OTLP receiver answers again',
      );
    }
  }

  #failed({ why, retryAfterMs = 0 }: Extract<Outcome, { kind: 'failed' }>): number {
    this.#lastError = why;
    this.#counts.retried++;
    if (this.#backoff.attempts === 0) {
      this.#options.log?.warn(
        { receiver: this.#receiver, why },
        'the OTLP receiver does not accept lines; they are queued and retried',
      );
    }
    return Math.max(1, this.#backoff.nextMs(), Math.min(retryAfterMs, MAX_RETRY_AFTER_MS));
  }

  #drop(reason: Drop, count: number, message: string, why?: string): void {
    const soFar = (this.#counts.dropped[reason] += count);
    this.#reportLoss(
      `dropped ${reason}`,
      { receiver: this.#receiver, count, soFar, ...(why && { why }) },
      message,
    );
  }

  #reportLoss(kind: string, facts: object, message: string): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - (this.#reportedMs.get(kind) ?? -Infinity) < LOSS_LOG_MS) return;
    this.#reportedMs.set(kind, nowMs);
    this.#options.log?.warn(facts, message);
  }

  /** The receiver's name in logs: paths may be secret. */
  get #receiver(): string {
    return this.#options.target.url.origin;
  }

  async #close(): Promise<void> {
    // A receiver that does not answer is not waited for.
    if (this.#backoff.attempts > 0) this.#leave.abort();
    const cancel = this.#clock.schedule(this.#options.lingerMs ?? LINGER_MS, () => {
      this.#leave.abort();
      this.#abort.abort();
    });
    await this.#running;
    cancel();
    this.#connection[Symbol.dispose]();
    const left = this.#queue.depth;
    if (left > 0) {
      const { directory } = this.#options;
      this.#options.log?.warn(
        { left, directory },
        'lines for OTLP were not sent, and are left in their queue',
      );
    }
    await this.#spool[Symbol.asyncDispose]();
  }
}

/** The only queue: the receiver is set when the process starts. */
const queueName = { kind: 'RAMPOTLP', text: 'otlp' } as const;
const queueKey = '0'.repeat(32);
