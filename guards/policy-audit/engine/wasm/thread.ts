/** One thread that runs policies, as seen from outside. */
import { extname } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';

import type { HostCalls } from '../evaluator.ts';
import type {
  AnswerOfHost,
  AskedOfHost,
  FromThread,
  GuestPolicy,
  Job,
  Outcome,
  ThreadData,
  ToThread,
} from './messages.ts';
import { messageOf } from '../../../../lib/errors/errors.ts';

/** Answers the host calls of a job. */
export type AskHost = (asked: AskedOfHost) => Promise<AnswerOfHost>;

/** Limit of JavaScript's own heap, besides the memories of guests: requests and answers as strings. */
const heapMb = 128;

/**
 * V8 compiles a wrapper for an import that was called 1,000 times, shares it between all threads of the process, and may free it twice when two
 * threads stop using it (seen with Node.js 24.21: CHECK in WasmImportWrapperCache::Free, with the memory of a freed wrapper; similar:
 * https://github.com/nodejs/node/issues/64500). That ends the process. What is never compiled is never freed: calls of the host go
 * through the wrapper that is built in, and take 30 ns longer. A policy makes some hundreds of them.
 */
setFlagsFromString(`--wasm-wrapper-tiering-budget=${2 ** 31 - 1}`);

interface Running {
  readonly job: number;
  readonly ask: AskHost;
  readonly resolve: (outcome: Outcome) => void;
}

/** Runs one job at a time. The caller ends it. */
export class PolicyThread {
  readonly #worker: Worker;
  readonly #answers: MessagePort;
  readonly #flag: Int32Array;
  /** The policies that were sent to the thread, each with the version of its data. */
  readonly #known = new Map<number, number | undefined>();
  readonly #onEnd: () => void;
  /** Resolves when the thread is ready, or has ended. */
  readonly ready: Promise<void>;
  #isReady: () => void;
  /** Resolves when the thread has loaded its code, or has ended. */
  readonly #loaded = Promise.withResolvers<void>();
  /** The outcome of all further jobs. */
  #gone: Outcome | undefined;
  #running: Running | undefined;
  #ended: Promise<void> | undefined;

  /** @param onEnd - Called once when the thread has ended, for whatever reason. */
  constructor(onEnd: () => void) {
    const { port1, port2 } = new MessageChannel();
    const answered = new SharedArrayBuffer(4);
    this.#flag = new Int32Array(answered);
    this.#answers = port1;
    this.#onEnd = onEnd;
    ({ promise: this.ready, resolve: this.#isReady } = Promise.withResolvers<void>());
    const data: ThreadData = { answered, answers: port2 };
    // The same folder holds .ts in a checkout and .js in a build.
    const file = new URL(`./worker${extname(import.meta.filename)}`, import.meta.url);
    this.#worker = new Worker(file, {
      name: 'policies',
      workerData: data,
      transferList: [port2],
      // Node flags of this process are not inherited: they may be meant for its own entry point.
      execArgv: [],
      // Policies need no environment variables, and must not get at the secrets in those of this process.
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: heapMb, maxYoungGenerationSizeMb: 8 },
    });
    port1.unref();
    this.#worker.unref();
    this.#worker.on('message', (message: FromThread) => this.#hear(message));
    this.#worker.on('error', (error) => this.#over(failureOf(error)));
    this.#worker.on('exit', () => {
      this.#loaded.resolve();
      this.#over({ why: 'trap', message: 'the thread that ran the policy has ended' });
    });
  }

  /** @returns the outcome; never rejects. */
  run(policy: GuestPolicy, job: Job, ask: AskHost): Promise<Outcome> {
    if (this.#gone !== undefined) return Promise.resolve(this.#gone);
    return new Promise((resolve) => {
      this.#running = { job: job.id, ask, resolve };
      this.#worker.ref();
      if (!this.#known.has(policy.id)) {
        this.#known.set(policy.id, undefined);
        this.#post({ do: 'add', policy });
      }
      const { data } = job;
      const isReported = data !== undefined && this.#known.get(policy.id) === data.version;
      if (data !== undefined) this.#known.set(policy.id, data.version);
      this.#post({ do: 'run', job: isReported ? { ...job, data: { version: data.version } } : job });
    });
  }

  forget(policy: number): void {
    if (this.#known.delete(policy)) this.#post({ do: 'remove', policy });
  }

  /** Ends the thread whatever it does, even if a guest spins or waits. The current job gets `outcome`. */
  end(outcome: Outcome): Promise<void> {
    this.#over(outcome);
    this.#ended ??= this.#terminate();
    return this.#ended;
  }

  /** V8 may crash, and the process with it, where it is stopped while it evaluates modules: https://github.com/denoland/rusty_v8/issues/830. */
  async #terminate(): Promise<void> {
    this.#worker.ref();
    await this.#loaded.promise;
    await this.#worker.terminate();
  }

  #hear(message: FromThread): void {
    if ('ready' in message) {
      this.#loaded.resolve();
      return this.#isReady();
    }
    const running = this.#running;
    if (running === undefined || running.job !== message.job) return;
    if ('outcome' in message) {
      this.#running = undefined;
      this.#worker.unref();
      running.resolve(message.outcome);
    } else {
      void this.#answer(running, message.ask);
    }
  }

  async #answer(running: Running, asked: AskedOfHost): Promise<void> {
    const answer = await running.ask(asked);
    if (this.#running !== running) return;
    // The rule is for windows; a port has no origin.
    // oxlint-disable-next-line unicorn/require-post-message-target-origin
    this.#answers.postMessage(answer);
    Atomics.store(this.#flag, 0, 1);
    Atomics.notify(this.#flag, 0);
  }

  #over(outcome: Outcome): void {
    if (this.#gone !== undefined) return;
    this.#gone = outcome;
    const running = this.#running;
    this.#running = undefined;
    this.#isReady();
    running?.resolve(outcome);
    this.#answers.close();
    this.#onEnd();
  }

  #post(message: ToThread): void {
    // The rule is for windows; a worker has no origin.
    // oxlint-disable-next-line unicorn/require-post-message-target-origin
    this.#worker.postMessage(message);
  }
}

function failureOf(error: unknown): Outcome {
  const { code, message } = error as NodeJS.ErrnoException;
  return code === 'ERR_WORKER_OUT_OF_MEMORY'
    ? {
        why: 'memory',
        message: `the policy needs more than ${heapMb} MiB for its input and output`,
      }
    : { why: 'trap', message: `the thread that ran the policy failed: ${message}` };
}

/** Answers a guest's call by `hostCalls`. If that throws, the guest gets the message of the error. */
export async function answerOf(
  hostCalls: HostCalls,
  { payload, ...operation }: AskedOfHost,
  signal: AbortSignal,
): Promise<AnswerOfHost> {
  try {
    return { answer: await hostCalls.call(operation, payload, signal) };
  } catch (error) {
    return { error: messageOf(error) };
  }
}
