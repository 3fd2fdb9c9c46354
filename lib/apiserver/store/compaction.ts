/** When the history is compacted: it keeps the newest changes, up to a number and an age. */
import type { BatchWriter } from './batch-writer.ts';
import type { History } from './history.ts';

interface CompactionOptions {
  readonly history: History;
  readonly writer: BatchWriter;
  /** Changes kept at least; up to a tenth more stay until the next compaction. */
  readonly historyLimit: number;
  /** Older changes go even when there are few; up to a tenth older stay. */
  readonly historyAgeMs: number;
}

/** Beyond it Node.js takes a timer for one of 1 ms. */
const maxTimerMs = 2 ** 31 - 1;

interface Sample {
  readonly atMs: number;
  readonly version: bigint;
}

/** Compacts in the background, until it is disposed. */
export class Compaction implements AsyncDisposable {
  readonly #options: CompactionOptions;
  readonly #timer: NodeJS.Timeout;
  /** Versions by time, on a monotonic clock. */
  #samples: Sample[] = [];
  #running: Promise<void> | undefined;
  #disposed = false;
  /** Compactions that failed, on a full disk for example. They are tried again. */
  failures = 0;

  constructor(options: CompactionOptions) {
    this.#options = options;
    // At the start nothing is known of when older changes were made: their age begins now.
    this.#sample();
    this.#timer = setInterval(
      () => this.#age(),
      Math.min(Math.max(options.historyAgeMs / 10, 1), maxTimerMs),
    ).unref();
  }

  /** Ends it when the step under way is done. */
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
   * Compacts up to a version that the history has reached: a list at an earlier version and a watch from one
   * are refused from now on. Resolves when the rows are gone.
   *
   * @throws {RampartError} `FULL`, `CORRUPT`, `SYSTEM`; rows may be left, and go with the next compaction.
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

  /** One at a time: while one runs, the next commits and ticks ask again. */
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
