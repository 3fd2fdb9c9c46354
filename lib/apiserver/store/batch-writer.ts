/** Applies writes on this thread or on a separate one. Decision 0003 has the cost of each. */
import { extname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { type SqliteFailure, storageError, withStorageErrors } from '../../sqlite/failure.ts';
import type { DatabaseFiles } from './database-file.ts';
import { type Outcome, type Write, Writer } from './writer.ts';

/** A message to the thread. */
export type Request =
  | { readonly ask: 'apply'; readonly writes: readonly Write[] }
  | { readonly ask: 'compact'; readonly to: bigint }
  | { readonly ask: 'close' };

/** The thread's reply to each request, in the order of the requests. */
export type Reply =
  | { readonly outcomes: readonly Outcome[] }
  | { readonly compacted: bigint }
  | { readonly closed: true }
  | { readonly failure: SqliteFailure };

/** A {@link Writer}, in this thread or another. Requests are done in order, one after the other. */
export interface BatchWriter {
  /** @throws {RampartError} `SYSTEM` if the writer has ended: it is unknown which writes were applied. */
  apply(writes: readonly Write[]): Promise<readonly Outcome[]>;
  /** @throws {RampartError} `FULL`, `CORRUPT`, `SYSTEM` */
  compact(to: bigint): Promise<bigint>;
  /** Ends the writer after earlier requests. */
  close(): Promise<void>;
}

/** Writes on the calling thread, so that its event loop waits for the disk. The caller closes the connection. */
export class InlineWriter implements BatchWriter {
  readonly #writer: Writer;

  constructor(database: DatabaseSync, files?: DatabaseFiles) {
    this.#writer = new Writer(database, files);
  }

  async apply(writes: readonly Write[]): Promise<readonly Outcome[]> {
    return this.#writer.apply(writes);
  }

  async compact(to: bigint): Promise<bigint> {
    return withStorageErrors('cannot compact the store', () => this.#writer.compact(to));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

interface Waiting {
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
}

/** Writes on a thread with its own connection. The thread keeps the process alive only while something is being written. */
export class ThreadWriter implements BatchWriter {
  readonly #path: string;
  readonly #worker: Worker;
  readonly #waiting: Waiting[] = [];
  readonly #onGone: (error: RampartError) => void;
  #gone: Error | undefined;

  /** @param onGone called when the thread has ended, even if it was closed. */
  constructor(path: string, onGone: (error: RampartError) => void = () => undefined) {
    this.#path = path;
    this.#onGone = onGone;
    // The same folder holds .ts in a checkout and .js in a build.
    const file = new URL(`./writer-thread${extname(import.meta.filename)}`, import.meta.url);
    this.#worker = new Worker(file, {
      name: 'store writer',
      workerData: { path },
      // Without the flags of this process, which may be meant only for its own entry point.
      execArgv: [],
      // Most of its allocations are short-lived texts, for which V8 would by default keep 16 MiB and more.
      resourceLimits: { maxYoungGenerationSizeMb: 8 },
    });
    this.#worker.unref();
    this.#worker.on('message', (reply: Reply) => this.#next()?.resolve(reply));
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('exit', (code) => this.#fail(new Error(`it ended with exit code ${code}`)));
  }

  async apply(writes: readonly Write[]): Promise<readonly Outcome[]> {
    const reply = await this.#ask({ ask: 'apply', writes });
    return 'outcomes' in reply ? reply.outcomes : this.#refuse(reply);
  }

  async compact(to: bigint): Promise<bigint> {
    const reply = await this.#ask({ ask: 'compact', to });
    return 'compacted' in reply ? reply.compacted : this.#refuse(reply);
  }

  async close(): Promise<void> {
    if (this.#gone !== undefined) return;
    const ended = new Promise((resolve) => this.#worker.once('exit', resolve));
    const reply = await this.#ask({ ask: 'close' });
    this.#worker.ref();
    await ended;
    if ('failure' in reply) this.#refuse(reply);
  }

  #ask(request: Request): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (this.#gone !== undefined) {
        reject(this.#goneError());
        return;
      }
      if (this.#waiting.length === 0) this.#worker.ref();
      this.#waiting.push({ resolve, reject });
      // The rule below is about browser windows; a worker has no origin.
      // oxlint-disable-next-line unicorn/require-post-message-target-origin
      this.#worker.postMessage(request);
    });
  }

  #next(): Waiting | undefined {
    const waiting = this.#waiting.shift();
    if (this.#waiting.length === 0) this.#worker.unref();
    return waiting;
  }

  #fail(error: Error): void {
    this.#gone ??= error;
    this.#onGone(this.#goneError());
    for (const { reject } of this.#waiting.splice(0)) reject(this.#goneError());
  }

  #goneError(): RampartError {
    return new RampartError(errorCodes.SYSTEM, {
      what: `cannot write to the store ${this.#path}`,
      why: `its writing thread has ended: ${this.#gone?.message}`,
      next: 'Open the store again; a pending write may or may not have been committed',
      cause: this.#gone,
    });
  }

  #refuse(reply: Reply): never {
    const failure =
      'failure' in reply ? reply.failure : { resultCode: undefined, message: 'unexpected reply' };
    throw storageError(`cannot write to the store ${this.#path}`, failure);
  }
}
