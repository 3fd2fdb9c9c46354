/** The threads of a scanner: started when needed, and ended when idle for a while. */
import { availableParallelism } from 'node:os';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';

import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import type { ScanRoot } from '../provider/provider.ts';
import type { Answer, Begin, FromThread, Request, ThreadData, ToThread } from './messages.ts';
import { ReadRate, ThreadNote } from './shared-state.ts';

/** Number of requests that a thread has at the same time, so that it never waits for the next one. */
const ahead = 2;
/**
 * A thread that ignores a request to stop for this long is in a system call that does not return, as on an unresponsive
 * network file system.
 */
const stopMs = 2000;

export interface ThreadPoolOptions {
  readonly root: ScanRoot;
  /** Number of threads. Default: 2, or the number of CPUs if that is lower. */
  readonly workers?: number | undefined;
  /**
   * Limit for all scans together, in bytes per second. Default: unlimited. A ReadRate passed to several scanners limits
   * all of them together.
   */
  readonly readBytesPerSecond?: number | ReadRate | undefined;
  /** Niceness of the threads, as in nice(1): 19 is the lowest priority. Default: 0. */
  readonly niceness?: number;
  /**
   * A file that has not changed for this long is read before its stat is taken; otherwise the stat is taken both before
   * and after. The clocks of file servers differ from ours by less than this, and our clock is corrected by less.
   * Default: 10 s.
   */
  readonly restMs?: number;
  /** How long threads may be idle before they end. Default: 5 seconds. */
  readonly idleMs?: number;
}

interface Waiting {
  readonly run: number;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
}

interface Thread {
  readonly worker: Worker;
  readonly note: ThreadNote;
  readonly waiting: Map<number, Waiting>;
  readonly started: Set<number>;
  /** Resolves when the thread has loaded its code, or has ended. */
  readonly loaded: Promise<void>;
}

/** 2, or the number of CPUs if that is lower. */
export function defaultWorkers(): number {
  return Math.min(2, availableParallelism());
}

/** Threads start when there are requests for them. Dispose it to end them. */
export class ThreadPool implements AsyncDisposable {
  readonly root: ScanRoot;
  readonly rate: ReadRate;
  readonly #data: Pick<ThreadData, 'root' | 'bytesPerSecond' | 'niceness' | 'restMs'>;
  #idleMs: number;
  readonly #threads: (Thread | undefined)[];
  /** Callbacks of runs that have more requests, in the order of their turns. */
  readonly #wanting = new Set<() => void>();
  #nextId = 1;
  #isDisposed = false;
  #idle: NodeJS.Timeout | undefined;

  /** @throws RampartError INPUT for an invalid number */
  constructor(options: ThreadPoolOptions) {
    const { root, workers = defaultWorkers(), readBytesPerSecond = Infinity } = options;
    if (!Number.isInteger(workers) || workers < 1 || workers > 64) throw wrong('workers', workers, '1 to 64');
    const { niceness = 0, restMs = 10_000, idleMs = 5000 } = options;
    this.root = root;
    this.rate =
      typeof readBytesPerSecond === 'number' ? new ReadRate(readBytesPerSecond) : readBytesPerSecond;
    const { bytesPerSecond } = this.rate;
    if (!(bytesPerSecond >= 1)) throw wrong('bytes per second', bytesPerSecond, 'at least 1');
    this.#data = { root, bytesPerSecond, niceness, restMs };
    this.#idleMs = idleMs;
    this.#threads = Array.from({ length: workers }, () => undefined);
  }

  get size(): number {
    return this.#threads.length;
  }

  /** The thread with the fewest requests; undefined if all have enough. */
  free(): number | undefined {
    let best: number | undefined;
    let min = ahead;
    for (const [at, thread] of this.#threads.entries()) {
      const waiting = thread?.waiting.size ?? 0;
      if (waiting < min) [best, min] = [at, waiting];
    }
    return best;
  }

  /**
   * Calls back once when a thread is free. Callbacks are called in order, so that a comparison of single files is not
   * delayed by a scan.
   */
  whenFree(callBack: () => void): void {
    this.#wanting.add(callBack);
  }

  /** Removes the callback of a run that is over. */
  forget(callBack: () => void): void {
    this.#wanting.delete(callBack);
  }

  /** From now on, threads end as soon as they have no requests. They start again for new ones. */
  endWhenIdle(): void {
    this.#idleMs = 0;
    this.#restWhenIdle();
  }

  /** Starts all threads at the same time: each takes some 80 ms to start. */
  startAll(): void {
    if (this.#isDisposed) return;
    for (const at of this.#threads.keys()) this.#threads[at] ??= this.#start(at);
  }

  #offer(): void {
    while (this.free() !== undefined) {
      const [first] = this.#wanting;
      if (first === undefined) return;
      this.#wanting.delete(first);
      first();
    }
  }

  get running(): number {
    return this.#threads.filter((thread) => thread !== undefined).length;
  }

  /**
   * Sends a request to a thread; `begin` is sent before the first request of a run.
   *
   * @throws RampartError SYSTEM if the thread dies
   */
  ask(at: number, request: Request, begin: Begin): Promise<Answer> {
    if (this.#isDisposed) {
      return Promise.reject(
        new RampartError(errorCodes.DISPOSED, { what: 'a scanner was disposed during a scan' }),
      );
    }
    clearTimeout(this.#idle);
    const thread = (this.#threads[at] ??= this.#start(at));
    if (!thread.started.has(begin.run)) {
      thread.started.add(begin.run);
      post(thread, begin);
    }
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      if (thread.waiting.size === 0) thread.worker.ref();
      thread.waiting.set(id, { run: request.run, resolve, reject });
      post(thread, { do: 'ask', id, request });
    });
  }

  /** Call when a run is over: its outstanding requests are not waited for. */
  end(run: number): void {
    for (const [at, thread] of this.#threads.entries()) {
      if (thread?.started.delete(run) !== true) continue;
      post(thread, { do: 'end', run });
      const isBusy = (): boolean => [...thread.waiting.values()].some((waiting) => waiting.run === run);
      if (!isBusy()) continue;
      const timer = setTimeout(() => {
        if (!isBusy()) return;
        this.#drop(at, thread, new Error('it did not stop'));
        void close(thread);
      }, stopMs);
      timer.unref();
    }
    this.#restWhenIdle();
  }

  #start(at: number): Thread {
    const note = new ThreadNote();
    const data: ThreadData = { ...this.#data, thread: at, note: note.buffer, rate: this.rate.buffer };
    // This folder has .ts files in a checkout and .js files in a build.
    const file = new URL(`./scan-thread${extname(import.meta.filename)}`, import.meta.url);
    const worker = new Worker(file, {
      name: 'file scan',
      workerData: data,
      // The flags of this process may only make sense for its own entry point.
      execArgv: [],
      // Nearly everything that a thread allocates is garbage once a file is done, so a larger young generation would
      // only use more memory.
      resourceLimits: { maxYoungGenerationSizeMb: 4 },
    });
    const { promise: loaded, resolve: isLoaded } = Promise.withResolvers<void>();
    const thread: Thread = { worker, note, waiting: new Map(), started: new Set(), loaded };
    worker.unref();
    worker.once('exit', () => isLoaded());
    worker.on('message', (answer: FromThread) => {
      if ('loaded' in answer) return isLoaded();
      const waiting = thread.waiting.get(answer.id);
      thread.waiting.delete(answer.id);
      if (thread.waiting.size === 0) worker.unref();
      waiting?.resolve(answer);
      this.#offer();
      this.#restWhenIdle();
    });
    worker.on('error', (error) => this.#drop(at, thread, error));
    worker.on('exit', (code) => this.#drop(at, thread, new Error(`it ended with exit code ${code}`)));
    return thread;
  }

  #drop(at: number, thread: Thread, error: unknown): void {
    if (this.#threads[at] === thread) this.#threads[at] = undefined;
    const said = thread.note.read();
    for (const { reject } of thread.waiting.values()) {
      reject(
        new RampartError(errorCodes.SYSTEM, {
          what: `the scan of ${this.root.directory} has ended`,
          why: `a scan thread died at ${said === '' ? '/' : said}: ${messageOf(error)}`,
          next: 'The remaining files were not scanned; scan again',
          cause: error,
        }),
      );
    }
    thread.waiting.clear();
    this.#offer();
  }

  #restWhenIdle(): void {
    clearTimeout(this.#idle);
    if (this.#threads.some((thread) => (thread?.waiting.size ?? 0) > 0)) return;
    this.#idle = setTimeout(() => void this.#endAll(), this.#idleMs);
    this.#idle.unref();
  }

  async #endAll(): Promise<void> {
    const threads = this.#threads.splice(0, this.#threads.length, ...this.#threads.map(() => undefined));
    await Promise.all(
      threads.map(async (thread, at) => {
        if (thread === undefined) return;
        this.#drop(at, thread, new Error('the scanner was disposed'));
        await close(thread);
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    clearTimeout(this.#idle);
    await this.#endAll();
  }
}

/**
 * Resolves when the thread has ended; a thread in a system call that does not return is left running. The thread is
 * requested to end. It is not terminated while it loads its code: if a thread ends while koffi declares functions,
 * koffi ends the whole process (its napi_throw fails then). The end of the process would terminate it too, so loading
 * is waited for.
 */
async function close(thread: Thread): Promise<void> {
  const { worker } = thread;
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  worker.once('exit', () => resolve());
  if (worker.threadId === -1) return;
  worker.ref();
  post(thread, { do: 'close' });
  await thread.loaded;
  const timer = setTimeout(() => {
    worker.unref();
    resolve();
  }, stopMs);
  await ended;
  clearTimeout(timer);
}

function post({ worker }: Thread, message: ToThread): void {
  // The rule is meant for windows; a worker has no origin.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  worker.postMessage(message);
}

function wrong(what: string, value: number, allowed: string): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: `cannot scan with ${value} ${what}`,
    next: `Give ${allowed}`,
  });
}
