/**
 * One scan: distributes pieces of the tree to threads, and combines their results in order. The pieces form a list in
 * the order of paths. A thread gets the first piece that no thread has, and what it does not finish replaces that piece
 * in the list. So early results wait for little, and the list stays short.
 */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { EntryBlock } from '../database/entry-block.ts';
import type { Batch } from '../model/batches.ts';
import type { Entry, ScanProblem } from '../model/entry.ts';
import type { ScanProgress } from '../provider/provider.ts';
import type { FromThread } from './messages.ts';
import { RunState } from './shared-state.ts';
import type { Part, PlainConf, Task, TaskResult } from './tasks.ts';
import type { ThreadPool } from './thread-pool.ts';

/** Maximum sizes of results, in bytes: of those that wait for earlier ones, and of those that wait to be read. */
const outOfOrderBytes = 4 * 1024 * 1024;
const unreadBytes = 1024 * 1024;
const progressMs = 200;

interface Piece {
  readonly task: Task;
  isGiven: boolean;
  parts: TaskResult['parts'] | undefined;
  bytes: number;
  next: Piece | undefined;
}

export interface ScanRunOptions {
  readonly run: number;
  readonly pool: ThreadPool;
  readonly confs: readonly PlainConf[];
  /** In the order of paths. */
  readonly tasks: readonly Task[];
  readonly signal: AbortSignal;
  readonly onProgress?: ((progress: ScanProgress) => void) | undefined;
  readonly expected?: { readonly files: number; readonly bytes: number } | undefined;
  /** See ScanOptions. */
  readonly largeBytes?: number | undefined;
  /** See ScanOptions. */
  readonly isLast?: boolean | undefined;
}

export class ScanRun {
  readonly #options: ScanRunOptions;
  readonly #state: RunState;
  readonly #streams: Stream[];
  #first: Piece | undefined;
  #isStarted = false;
  #isOver = false;
  #outOfOrder = 0;
  #failure: { readonly error: unknown } | undefined;
  #progress: NodeJS.Timeout | undefined;

  constructor(options: ScanRunOptions) {
    this.#options = options;
    this.#state = new RunState(options.pool.size);
    this.#streams = options.confs.map(() => new Stream());
    this.#first = rowOf(options.tasks);
  }

  /**
   * The results for one configuration. Each stream can be read only once, since a second reader would wrongly get
   * nothing. Work starts when the first stream is read.
   */
  stream(at: number): AsyncIterable<ScanBatch> {
    return {
      [Symbol.asyncIterator]: () => {
        const stream = this.#streams[at];
        if (stream === undefined || stream.isRead) throw new Error('a scan is read once');
        stream.isRead = true;
        return this.#read(stream);
      },
    };
  }

  async *#read(stream: Stream): AsyncGenerator<ScanBatch, void, undefined> {
    try {
      this.#start();
      for (;;) {
        if (this.#failure !== undefined) throw this.#failure.error;
        const part = stream.take();
        if (part !== undefined) {
          this.#pump();
          yield batchOf(part);
        } else if (this.#isOver) return;
        else await stream.wait();
      }
    } finally {
      stream.end();
      if (this.#streams.every(({ isEnded }) => isEnded)) this.#finish();
    }
  }

  #start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    const { signal, onProgress } = this.#options;
    if (signal.aborted) return this.#fail(signal.reason);
    signal.addEventListener('abort', this.#onAbort, { once: true });
    if (onProgress !== undefined) {
      this.#progress = setInterval(() => this.#reportProgress(), progressMs);
      this.#progress.unref();
    }
    this.#flush();
    const first = this.#first?.task;
    // For the whole tree there will be enough work for all threads.
    if (first !== undefined && first.items === undefined && first.onlyRoot !== true) {
      this.#options.pool.startAll();
    }
    this.#pump();
  }

  readonly #onAbort = (): void => this.#fail(this.#options.signal.reason);

  #reportProgress(): void {
    const { onProgress, expected } = this.#options;
    onProgress?.({
      ...this.#state.totals(),
      ...(expected !== undefined && { expectedFiles: expected.files, expectedBytes: expected.bytes }),
    });
  }

  /** Gives the threads as much work as they can take. */
  readonly #pump = (): void => {
    if (this.#isOver) return;
    // A stream that is not read blocks the scan.
    if (this.#streams.some(({ bytes }) => bytes > unreadBytes)) return;
    for (let piece = this.#first; piece !== undefined; piece = piece.next) {
      if (piece.isGiven) continue;
      if (piece !== this.#first && this.#outOfOrder > outOfOrderBytes) return;
      const thread = this.#options.pool.free();
      if (thread === undefined) return this.#options.pool.whenFree(this.#pump);
      piece.isGiven = true;
      void this.#give(piece, thread);
    }
  };

  async #give(piece: Piece, thread: number): Promise<void> {
    const { pool, run, confs, largeBytes } = this.#options;
    try {
      const begin = { do: 'begin', run, confs, largeBytes, state: this.#state.buffer } as const;
      this.#found(piece, await pool.ask(thread, { do: 'walk', run, task: piece.task }, begin));
    } catch (error) {
      this.#fail(error);
    }
  }

  #found(piece: Piece, answer: FromThread): void {
    if (this.#isOver) return;
    if ('noRoot' in answer) return this.#fail(noRoot(this.#options.pool.root.directory, answer.noRoot));
    if (!('result' in answer)) return this.#fail(new Error('a scan thread stopped unexpectedly'));
    const { parts, rest } = answer.result;
    piece.parts = parts;
    for (const part of parts.flat()) piece.bytes += sizeOf(part);
    this.#outOfOrder += piece.bytes;
    const last = lastOf(rowOf(rest));
    if (last !== undefined) {
      last.last.next = piece.next;
      piece.next = last.first;
    }
    this.#flush();
    this.#pump();
  }

  #flush(): void {
    for (let piece = this.#first; piece?.parts !== undefined; piece = this.#first) {
      this.#outOfOrder -= piece.bytes;
      for (const [at, parts] of piece.parts.entries()) this.#streams[at]?.put(parts);
      this.#first = piece.next;
    }
    if (this.#first === undefined) this.#finish();
  }

  #fail(error: unknown): void {
    if (this.#isOver) return;
    this.#failure = { error };
    this.#finish();
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#first = undefined;
    this.#state.stop();
    clearInterval(this.#progress);
    this.#options.signal.removeEventListener('abort', this.#onAbort);
    this.#options.pool.forget(this.#pump);
    if (this.#isStarted) this.#options.pool.end(this.#options.run);
    if (this.#failure === undefined) {
      this.#reportProgress();
      if (this.#options.isLast === true) this.#options.pool.endWhenIdle();
    }
    for (const stream of this.#streams) stream.wake();
  }
}

/** Batches that wait for the reader of one configuration's results. */
class Stream {
  isRead = false;
  isEnded = false;
  bytes = 0;
  #parts: Part[] = [];
  #at = 0;
  #wake: (() => void) | undefined;
  #problem: ScanProblem | undefined;

  put(parts: readonly Part[]): void {
    if (this.isEnded || parts.length === 0) return;
    for (const part of parts) {
      if (this.#isReportedAgain(part)) continue;
      this.#parts.push(part);
      this.bytes += sizeOf(part);
    }
    this.wake();
  }

  /** Whether the part only repeats a problem: if a directory can no longer be opened, each of its pieces reports that. */
  #isReportedAgain(part: Part): boolean {
    if ('bytes' in part) return false;
    const [problem] = part;
    const isSame = problem?.path === this.#problem?.path && problem?.code === this.#problem?.code;
    this.#problem = part.at(-1);
    return isSame && part.length === 1;
  }

  take(): Part | undefined {
    const part = this.#parts[this.#at];
    if (part === undefined) return undefined;
    this.bytes -= sizeOf(part);
    if (++this.#at === this.#parts.length) {
      this.#parts = [];
      this.#at = 0;
    }
    return part;
  }

  wait(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve));
  }

  wake(): void {
    this.#wake?.();
    this.#wake = undefined;
  }

  end(): void {
    this.isEnded = true;
    this.bytes = 0;
    this.#parts = [];
  }
}

function sizeOf(part: Part): number {
  return 'bytes' in part ? part.bytes.length : 500 * part.length;
}

/** A batch of results: a block of entries, or problems. */
export type ScanBatch = Batch<Entry | ScanProblem>;

export function batchOf(part: Part): ScanBatch {
  return 'bytes' in part ? new EntryBlock(part.bytes, { facts: part }) : part;
}

function rowOf(tasks: readonly Task[]): Piece | undefined {
  let next: Piece | undefined;
  for (const task of tasks.toReversed()) next = { task, isGiven: false, parts: undefined, bytes: 0, next };
  return next;
}

function lastOf(first: Piece | undefined): { readonly first: Piece; readonly last: Piece } | undefined {
  if (first === undefined) return undefined;
  let last = first;
  while (last.next !== undefined) last = last.next;
  return { first, last };
}

export function noRoot(directory: string, code: string): RampartError {
  const isMissing = code === 'ENOENT' || code === 'ENOTDIR';
  return new RampartError(isMissing ? errorCodes.NOT_FOUND : errorCodes.SYSTEM, {
    what: `cannot scan ${directory}`,
    why: isMissing ? 'there is no such directory' : `it cannot be opened (${code})`,
    next: "Give the directory where the node's root file system is mounted",
  });
}
