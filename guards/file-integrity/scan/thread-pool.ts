/** The threads of a scanner: started when they are needed, ended when idle for a while. */
import { availableParallelism } from 'node:os';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';

import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import type { ScanRoot } from '../provider/provider.ts';
import type { Answer, Begin, FromThread, Request, ThreadData, ToThread } from './messages.ts';
import { ReadRate, ThreadNote } from './shared-state.ts';

/** Asked of a thread before it has answered, so that it never waits for the next one. */
const ahead = 2;
/**
 * A thread that ignores a request to stop is in a call that the kernel does not end: a dead network file
 * system.
 */
const stopMs = 2000;

export interface ThreadPoolOptions {
  readonly root: ScanRoot;
  /** Threads; by default 2, or the number of CPUs. */
  readonly workers?: number | undefined;
  /**
   * Limit for all scans together; unlimited by default. A rate shared by several scanners limits them
   * together.
   */
  readonly readBytesPerSecond?: number | ReadRate | undefined;
  /** Niceness of the threads, as in nice(1): 19 is the least important. By default 0. */
  readonly niceness?: number;
  /**
   * A file that was unchanged for this long is read, and its stat is taken afterwards: clocks of file servers
   * differ from ours by less, and so do corrections of our clock. For others, it is taken before and after.
   * By default 10 s.
   */
  readonly restMs?: number;
  /** The threads end when they have been idle for this long; by default 5 seconds. */
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
  /** Resolves when its code is loaded, or it has ended. */
  readonly loaded: Promise<void>;
}

/** 2, or the number of CPUs. */
export function defaultWorkers(): number {
  return Math.min(2, availableParallelism());
}

/** Threads start when something is asked of them. Dispose it to end them. */
export class ThreadPool implements AsyncDisposable {
  readonly root: ScanRoot;
  readonly rate: ReadRate;
  readonly #data: Pick<ThreadData, 'root' | 'bytesPerSecond' | 'niceness' | 'restMs'>;
  #idleMs: number;
  readonly #threads: (Thread | undefined)[];
  /** Runs that have more to ask, in the order of their turns. */
  readonly #wanting = new Set<() => void>();
  #nextId = 1;
  #isDisposed = false;
  #idle: NodeJS.Timeout | undefined;

  /** @throws RampartError INPUT for a number that cannot be */
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

  /** The thread that has least to do, or undefined while all have enough. */
  free(): number | undefined {
    let best: number | undefined;
    let min = ahead;
    for (const [at, thread] of this.#threads.entries()) {
      const waiting = thread?.waiting.size ?? 0;
      if (waiting < min) [best, min] = [at, waiting];
    }
    return best;
  }

  /** Calls back once when a thread is free, in order of arrival, so that a look is not kept waiting by a scan. */
  whenFree(callBack: () => void): void {
    this.#wanting.add(callBack);
  }

  /** Removes a callback of a run that is over. */
  forget(callBack: () => void): void {
    this.#wanting.delete(callBack);
  }

  /** From now on the threads end as soon as nothing is asked of them. They start again when something is. */
  endWhenIdle(): void {
    this.#idleMs = 0;
    this.#restWhenIdle();
  }

  /** Starts all threads, side by side: a thread needs some 80 ms for it. */
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
   * @throws RampartError SYSTEM when the thread dies
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

  /** A run is over; its outstanding requests are not waited for. */
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
    // The same folder holds .ts in a checkout and .js in a build.
    const file = new URL(`./scan-thread${extname(import.meta.filename)}`, import.meta.url);
    const worker = new Worker(file, {
      name: 'file scan',
      workerData: data,
      // The flags of this process may be meant for its own entry point.
      execArgv: [],
      // Nearly all that it makes is forgotten with the file; 2 MiB more of it cost nothing but memory.
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
 * Resolves when the thread has ended; one in a call that the kernel does not end is left behind. It is asked, and not ended by
 * force while its code is loaded: koffi takes the whole process with it when its thread ends while it declares functions
 * (its napi_throw fails then). The end of the process would end it by force too, so it is waited for.
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
  // That rule is for windows; a worker has no origin.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  worker.postMessage(message);
}

function wrong(what: string, value: number, allowed: string): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: `cannot scan with ${value} ${what}`,
    next: `Give ${allowed}`,
  });
}
