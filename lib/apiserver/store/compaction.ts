/** Compacts the history, so that it keeps the newest changes up to a number and an age. */
import type { BatchWriter } from './batch-writer.ts';
import type { History } from './history.ts';

interface CompactionOptions {
  readonly history: History;
  readonly writer: BatchWriter;
  /** The number of changes to keep; up to a tenth more stay until the next compaction. */
  readonly historyLimit: number;
  /** Older changes are removed even if there are few; a tenth of this time may pass before that. */
  readonly historyAgeMs: number;
}

/** Node.js runs a longer timer after 1 ms. */
const maxTimerMs = 2 ** 31 - 1;

interface Sample {
  readonly atMs: number;
  readonly version: bigint;
}

/** Compacts in the background, until it is disposed. */
export class Compaction implements AsyncDisposable {
  readonly #options: CompactionOptions;
  readonly #timer: NodeJS.Timeout;
  /** Which version the store had at which time, on a monotonic clock. */
  #samples: Sample[] = [];
  #running: Promise<void> | undefined;
  #disposed = false;
  /** Number of failed compactions, for example on a full disk. They are retried. */
  failures = 0;

  constructor(options: CompactionOptions) {
    this.#options = options;
    // The age of existing changes is unknown at the start, so it counts from now.
    this.#sample();
    this.#timer = setInterval(
      () => this.#age(),
      Math.min(Math.max(options.historyAgeMs / 10, 1), maxTimerMs),
    ).unref();
  }

  /** Resolves when the current step is done. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    clearInterval(this.#timer);
    await this.#running?.catch(() => undefined);
  }

  committed(): void {
    const { history, historyLimit } = this.#options;
    if (history.version - history.compacted <= BigInt(Math.ceil(historyLimit * 1.1))) return;
    void this.#compactQuietly(history.version - BigInt(historyLimit));
  }

  /**
   * Compacts up to a version that the history has reached: from now on, lists at an earlier version and watches from one
   * are refused. Resolves when the rows are deleted.
   *
   * @throws {RampartError} `FULL`, `CORRUPT`, `SYSTEM`; remaining rows are deleted by the next compaction.
   */
  async compactTo(version: bigint): Promise<void> {
    this.#options.history.compactTo(version);
    while (this.#running !== undefined) await this.#running;
    this.#running = this.#removeRows(this.#options.history.compacted).finally(() => {
      this.#running = undefined;
    });
    await this.#running;
  }

  async #removeRows(version: bigint): Promise<void> {
    let compacted = 0n;
    while (compacted < version && !this.#disposed) compacted = await this.#options.writer.compact(version);
  }

  /** Does nothing while a compaction runs: later commits and timer ticks request it again. */
  async #compactQuietly(version: bigint): Promise<void> {
    if (this.#running !== undefined) return;
    try {
      await this.compactTo(version);
    } catch {
      this.failures++;
    }
  }

  #age(): void {
    const { historyAgeMs, history } = this.#options;
    const oldestMs = performance.now() - historyAgeMs;
    const old = this.#samples.filter(({ atMs }) => atMs <= oldestMs);
    this.#samples = this.#samples.slice(old.length);
    const version = old.at(-1)?.version;
    if (version !== undefined && version > history.compacted) void this.#compactQuietly(version);
    this.#sample();
  }

  #sample(): void {
    this.#samples.push({ atMs: performance.now(), version: this.#options.history.version });
  }
}
