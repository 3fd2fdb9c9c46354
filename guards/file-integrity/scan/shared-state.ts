/**
 * What the threads of a scan share in memory, without messages: whether the scan is over, its progress, and how much
 * may be read.
 */

/** Thrown in a thread when its scan is over; the result of its task is not needed. */
export class StoppedError extends Error {}

const stopIndex = 0;
const countersAt = 8;
/** Numbers of files and of bytes, as doubles. Each has only one writer, and eight aligned bytes are written atomically. */
const countersPerThread = 2;

/** The shared state of one scan. */
export class RunState {
  readonly buffer: SharedArrayBuffer;
  readonly stopFlag: Int32Array;
  readonly #counters: Float64Array;

  /** @param of the number of threads, or the buffer of another thread's RunState */
  constructor(of: number | SharedArrayBuffer) {
    this.buffer =
      typeof of === 'number' ? new SharedArrayBuffer(countersAt + of * countersPerThread * 8) : of;
    this.stopFlag = new Int32Array(this.buffer, 0, 1);
    this.#counters = new Float64Array(this.buffer, countersAt);
  }

  stop(): void {
    Atomics.store(this.stopFlag, stopIndex, 1);
    Atomics.notify(this.stopFlag, stopIndex);
  }

  /** @throws StoppedError */
  throwIfStopped(): void {
    if (Atomics.load(this.stopFlag, stopIndex) !== 0) throw new StoppedError('the scan is over');
  }

  /**
   * Delays the thread.
   *
   * @throws StoppedError
   */
  wait(ms: number): void {
    Atomics.wait(this.stopFlag, stopIndex, 0, ms);
    this.throwIfStopped();
  }

  add(thread: number, files: number, bytes: number): void {
    const at = thread * countersPerThread;
    this.#counters[at] = (this.#counters[at] ?? 0) + files;
    this.#counters[at + 1] = (this.#counters[at + 1] ?? 0) + bytes;
  }

  bytesOf(thread: number): number {
    return this.#counters[thread * countersPerThread + 1] ?? 0;
  }

  totals(): { readonly files: number; readonly bytes: number } {
    let [files, bytes] = [0, 0];
    for (let at = 0; at < this.#counters.length; at += countersPerThread) {
      files += this.#counters[at] ?? 0;
      bytes += this.#counters[at + 1] ?? 0;
    }
    return { files, bytes };
  }
}

const nanosecondsPerSecond = 1e9;

/**
 * Limits how much all scans of a scanner read together: a read starts when the previous ones have taken the time that
 * the rate gives them.
 */
export class ReadRate {
  readonly buffer: SharedArrayBuffer;
  readonly #next: BigInt64Array;
  readonly bytesPerSecond: number;

  constructor(bytesPerSecond: number, buffer = new SharedArrayBuffer(8)) {
    this.buffer = buffer;
    this.#next = new BigInt64Array(buffer);
    this.bytesPerSecond = bytesPerSecond;
  }

  get isUnlimited(): boolean {
    return this.bytesPerSecond === Infinity;
  }

  /** Number of bytes to read in one call, so that there are several reads per second. */
  get chunkBytes(): number {
    return Math.max(4096, Math.floor(this.bytesPerSecond / 16));
  }

  /**
   * Waits until `bytes` may be read. Without a `stopFlag` it does not wait, but later reads wait longer.
   *
   * @throws StoppedError
   */
  take(bytes: number, stopFlag?: Int32Array): void {
    if (this.isUnlimited) return;
    const cost = BigInt(Math.ceil((bytes * nanosecondsPerSecond) / this.bytesPerSecond));
    for (;;) {
      const now = process.hrtime.bigint();
      const next = Atomics.load(this.#next, 0);
      const start = next > now ? next : now;
      if (Atomics.compareExchange(this.#next, 0, next, start + cost) !== next) continue;
      if (stopFlag === undefined || start === now) return;
      const waitMs = Number(start - now) / 1e6;
      if (Atomics.wait(stopFlag, stopIndex, 0, waitMs) === 'not-equal')
        throw new StoppedError('the scan is over');
      return;
    }
  }
}

const longestNote = 4096;

/** Records the file that a thread is reading, for the error message if the thread dies. */
export class ThreadNote {
  readonly buffer: SharedArrayBuffer;
  readonly #bytes: Buffer;

  constructor(buffer = new SharedArrayBuffer(longestNote)) {
    this.buffer = buffer;
    this.#bytes = Buffer.from(buffer);
  }

  /** Writes a path with one character for each byte; a long path is truncated. */
  write(text: string): void {
    const written = this.#bytes.write(text, 4, longestNote - 4, 'latin1');
    this.#bytes.writeUInt32LE(written, 0);
  }

  read(): string {
    return this.#bytes.toString('utf8', 4, 4 + this.#bytes.readUInt32LE(0));
  }
}
