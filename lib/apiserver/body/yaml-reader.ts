/**
 * Decodes YAML bodies on a separate thread: the parser cannot be interrupted, and for some texts, even valid ones, it takes
 * seconds per 100 kB. Small texts and JSON are decoded at once.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';

import type { Body } from '../verbs/request.ts';
import { BodyMistake, bodyMistake } from './body-mistake.ts';
import { asJsonBody, assertYamlSize, decodeYaml } from './yaml-body.ts';

/** Texts up to this size are decoded on the calling thread, which takes 30 ms at most. */
const inlineBytes = 4 * 1024;
const heapMb = 256;

/** The thread's answer to each text. */
export type YamlReply =
  { readonly body: Body } | { readonly mistake: string } | { readonly failure: unknown };

interface Thread {
  readonly worker: Worker;
  /** Resolves when the thread has loaded its code, or has ended. */
  readonly loaded: Promise<unknown>;
}

interface YamlReaderOptions {
  /** Time limit for one text. Default: 10 s. */
  readonly deadlineMs?: number;
  /** The thread ends after this time without a text. Default: 5 s. */
  readonly idleMs?: number;
}

/** Decodes one text at a time. The thread starts with the first long text. */
export class YamlReader implements Disposable {
  readonly #deadlineMs: number;
  readonly #idleMs: number;
  #last: Promise<unknown> = Promise.resolve();
  #thread: Thread | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor({ deadlineMs = 10_000, idleMs = 5_000 }: YamlReaderOptions = {}) {
    this.#deadlineMs = deadlineMs;
    this.#idleMs = idleMs;
  }

  /**
   * @throws {BodyMistake} as `decodeYaml`, and for a text that takes too long; the reason of `signal` if it
   * aborts.
   */
  async read(bytes: Buffer, signal: AbortSignal): Promise<Body> {
    const json = asJsonBody(bytes);
    if (json !== undefined) return json;
    assertYamlSize(bytes);
    if (bytes.length <= inlineBytes) return decodeYaml(bytes);
    const turn = this.#last.then(() => {
      signal.throwIfAborted();
      return this.#ask(bytes);
    });
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #ask(bytes: Buffer): Promise<Body> {
    clearTimeout(this.#idle);
    const { promise, resolve } = Promise.withResolvers<YamlReply>();
    const { worker } = (this.#thread ??= this.#start());
    const onMessage = (reply: YamlReply | { readonly loaded: true }): void => {
      if (!('loaded' in reply)) resolve(reply);
    };
    const onError = (error: Error & { readonly code?: string }): void =>
      resolve(
        error.code === 'ERR_WORKER_OUT_OF_MEMORY'
          ? { mistake: 'yaml: takes too much memory to parse' }
          : { failure: error },
      );
    const onExit = (): void => resolve({ failure: new Error('the thread that parses YAML has ended') });
    worker.on('message', onMessage).on('error', onError).on('exit', onExit);
    const late = setTimeout(() => {
      resolve({ mistake: `yaml: takes longer than ${this.#deadlineMs} ms to parse` });
      this.#end();
    }, this.#deadlineMs);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- for windows
    worker.postMessage(bytes);
    const reply = await promise;
    clearTimeout(late);
    worker.off('message', onMessage).off('error', onError).off('exit', onExit);
    this.#idle = setTimeout(() => this.#end(), this.#idleMs).unref();
    if ('body' in reply) return reply.body;
    throw 'mistake' in reply ? bodyMistake(reply.mistake) : reply.failure;
  }

  #start(): Thread {
    // The same folder holds .ts in a checkout and .js in a build.
    const file = new URL(`./yaml-thread${extname(import.meta.filename)}`, import.meta.url);
    const worker = new Worker(file, {
      name: 'yaml',
      // Without the flags of this process, which may be meant only for its own entry point.
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
    });
    worker.unref();
    const forget = (): void => {
      if (this.#thread?.worker === worker) this.#thread = undefined;
    };
    worker.on('error', forget).on('exit', forget);
    const loaded = new Promise((resolve) => worker.once('message', resolve).once('exit', resolve));
    return { worker, loaded };
  }

  /** V8 may crash, and the process with it, where it is stopped while it evaluates modules: https://github.com/denoland/rusty_v8/issues/830. */
  #end(): void {
    const thread = this.#thread;
    this.#thread = undefined;
    thread?.worker.ref();
    void thread?.loaded.then(() => thread.worker.terminate());
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#idle);
    this.#end();
  }
}

/** Decodes a text on the thread. */
export function replyTo(bytes: Uint8Array): YamlReply {
  try {
    return { body: decodeYaml(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)) };
  } catch (error) {
    return error instanceof BodyMistake ? { mistake: error.message } : { failure: error };
  }
}
