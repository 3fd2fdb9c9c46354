import { setImmediate as turn } from 'node:timers/promises';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { Logger } from '../../telemetry/log.ts';
import type { KubeClient } from '../client/client.ts';
import { type Clock, sleep, systemClock } from '../../time/clock.ts';
import type { ControllerMetrics } from './controller-metrics.ts';
import { type FailureLevel, failureLevels } from '../client/failure-level.ts';
import type { WorkQueue } from './workqueue.ts';
import type { Outcome } from './controller-metrics.ts';

/** The result of a reconcile that did not throw. */
export interface Result {
  /** Reconcile the same key again after this time, e.g. to check something that sends no events. */
  readonly requeueAfterMs?: number;
}

/** Nothing left to do until the next change. */
export const done: Result = {};

/** Nothing left to do for now; reconcile again in `ms` milliseconds at the latest. */
export function requeueAfter(ms: number): Result {
  return { requeueAfterMs: ms };
}

/**
 * Brings the world in line with the state that `key` names. The contract, for every controller:
 *
 * - Level-triggered: what it does follows from the state that it reads now, never from which change led to the
 *   call. Changes are folded, calls come without a change, and after a restart every key is called for.
 * - Idempotent: called twice with the same state, the second call does nothing.
 * - It writes the difference only, and takes a conflict as "read again": it throws and is retried.
 * - A key whose object is gone is a normal call: clean up, return.
 * - It is called for one key at a time, for different keys at the same time.
 * - It ends soon after `signal` aborts: the controller stops, or the time for this key is up.
 *
 * It returns {@link done} or {@link requeueAfter}. Whatever it throws is retried with backoff.
 */
export type Reconcile<K> = (key: K, signal: AbortSignal) => Promise<Result>;

/** The parts that controllers of API objects get, besides the caches that they follow. */
export interface ControllerContext {
  readonly client: KubeClient;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly metrics?: ControllerMetrics | undefined;
}

export interface ControllerOptions<K> {
  /** For logs and metrics. */
  readonly name: string;
  /** The controller shuts it down when it stops. */
  readonly queue: WorkQueue<K>;
  readonly reconcile: Reconcile<K>;
  readonly signal: AbortSignal;
  /** How many keys are reconciled at the same time. Default: 1. */
  readonly workers?: number;
  /** How long one reconcile may take before its signal aborts. Default: 5 minutes. */
  readonly timeoutMs?: number;
  /**
   * How long a reconcile may take to end after its signal aborted. One that takes longer loses its worker to
   * the other keys; its own key stays out of the queue until it ends after all. Default: 30 s.
   */
  readonly graceMs?: number;
  readonly logger?: Logger | undefined;
  readonly metrics?: ControllerMetrics | undefined;
  readonly clock?: Clock | undefined;
}

/** How a controller ended. */
export interface ControllerEnd<K> {
  /** Keys whose reconcile did not end within the grace time. They are still running. */
  readonly stillRunning: readonly K[];
}

/**
 * Reconciles the keys of the queue until `signal` aborts or the queue is shut down. Then nothing new begins,
 * running reconciles get their signal, and the promise resolves when they have ended or the grace time is
 * over. An error of a reconcile never rejects it. (A promise that a reconcile starts and leaves alone is out
 * of the controller's reach.)
 *
 * @throws {RampartError} `INPUT` for options that cannot work.
 * @example
 * using queue = keyQueue();
 * using _changes = cache.subscribe(({ key }) => queue.add(key));
 * const reflecting = runReflector({ client, cache, signal });
 * await cache.synced;
 * await runController({
 *   name: 'labels',
 *   queue,
 *   signal,
 *   async reconcile(key, signal) {
 *     const pod = cache.get(key);
 *     if (pod === undefined || pod.metadata.labels?.['seen'] === 'yes') return done;
 *     const { namespace = '', name = '' } = pod.metadata;
 *     const body = { metadata: { labels: { seen: 'yes' } } };
 *     await client.patch(pods, { namespace, name }, { type: 'merge', body }, { signal });
 *     return done;
 *   },
 * });
 */
export async function runController<K>(options: ControllerOptions<K>): Promise<ControllerEnd<K>> {
  const { queue, signal, workers = 1, graceMs = 30_000, timeoutMs = 300_000, clock = systemClock } = options;
  if (!Number.isInteger(workers) || workers < 1 || !(graceMs >= 0) || !(timeoutMs > 0)) {
    throw new RampartError(errorCodes.INPUT, {
      what: `controller ${options.name} with ${workers} workers, timeoutMs ${timeoutMs}, graceMs ${graceMs}`,
      why: 'expected an integer of at least 1, a time above 0, and a time of at least 0',
    });
  }
  const run = new Run({ ...options, graceMs, timeoutMs, clock });
  options.metrics?.add(options.name, queue, run.outcomes);
  const stopped = Promise.withResolvers<void>();
  const stop = (): void => {
    queue.shutDown();
    run.abortAll(signal.reason);
    stopped.resolve();
  };
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  const workersEnd = Promise.all(Array.from({ length: workers }, () => run.work()));
  try {
    await Promise.race([workersEnd, stopped.promise]);
    await within(clock, graceMs, run.allEnd());
  } finally {
    signal.removeEventListener('abort', stop);
    options.metrics?.remove(options.name);
  }
  const stillRunning = run.runningKeys();
  if (stillRunning.length > 0) {
    options.logger?.error(
      { controller: options.name, keys: stillRunning.map(String) },
      'reconciles do not finish',
    );
  }
  return { stillRunning };
}

/** Resolves with `promise`, or after `ms`. */
async function within(clock: Clock, ms: number, promise: Promise<unknown>): Promise<void> {
  const waiting = new AbortController();
  const timeUp = sleep(clock, ms, waiting.signal).catch(() => undefined);
  await Promise.race([promise, timeUp]);
  waiting.abort();
}

interface Call {
  readonly controller: AbortController;
  readonly end: Promise<void>;
  timedOut: boolean;
}

type RunOptions<K> = ControllerOptions<K> & {
  readonly clock: Clock;
  readonly graceMs: number;
  readonly timeoutMs: number;
};

/** After this many calls the workers let the event loop turn: keys that never make them wait would block timers and sockets. */
const CALLS_PER_TURN = 32;

class Run<K> {
  readonly #options: RunOptions<K>;
  readonly #calls = new Map<K, Call>();
  readonly outcomes: Record<Outcome, number> = {
    done: 0,
    requeue: 0,
    error: 0,
    timeout: 0,
    cancelled: 0,
  };
  #started = 0;
  readonly #level: FailureLevel;

  constructor(options: RunOptions<K>) {
    this.#options = options;
    this.#level = failureLevels(options.clock);
  }

  /** One worker, until the queue is shut down. */
  async work(): Promise<void> {
    for (;;) {
      const key = await this.#options.queue.get();
      if (key === undefined) return;
      if (++this.#started % CALLS_PER_TURN === 0) await turn();
      // The controller may have been stopped after the queue handed out this key.
      if (this.#options.signal.aborted) this.#options.queue.done(key);
      else await this.#handle(key);
    }
  }

  abortAll(reason: unknown): void {
    for (const { controller } of this.#calls.values()) controller.abort(reason);
  }

  runningKeys(): K[] {
    return [...this.#calls.keys()];
  }

  async allEnd(): Promise<void> {
    while (this.#calls.size > 0) await Promise.all([...this.#calls.values()].map(({ end }) => end));
  }

  /** Resolves when the reconcile has ended, or when its grace time is over. */
  async #handle(key: K): Promise<void> {
    const { clock, timeoutMs, graceMs, name, logger } = this.#options;
    const controller = new AbortController();
    const given = Promise.withResolvers<void>();
    let cancel = clock.schedule(timeoutMs, () => {
      call.timedOut = true;
      controller.abort(
        new RampartError(errorCodes.LIMIT, { what: `${name}: reconcile took over ${timeoutMs} ms` }),
      );
      cancel = clock.schedule(graceMs, () => {
        logger?.error(
          { controller: name, key: String(key) },
          'a reconcile does not finish; its worker continues',
        );
        given.resolve();
      });
    });
    const call: Call = {
      controller,
      timedOut: false,
      // Called in a later microtask, so that an exception thrown synchronously is a rejection, too, and `call` exists.
      end: Promise.resolve()
        .then(() => this.#options.reconcile(key, controller.signal))
        .then(
          (result) => this.#succeeded(key, result),
          (error: unknown) => this.#failed(key, call, error),
        )
        .finally(() => {
          cancel();
          this.#calls.delete(key);
          this.#options.queue.done(key);
        }),
    };
    this.#calls.set(key, call);
    await Promise.race([call.end, given.promise]);
  }

  #succeeded(key: K, result: Result): void {
    const { queue } = this.#options;
    queue.forget(key);
    if (result.requeueAfterMs === undefined) {
      this.outcomes.done++;
    } else {
      this.outcomes.requeue++;
      queue.addAfter(key, result.requeueAfterMs);
    }
  }

  #failed(key: K, call: Call, error: unknown): void {
    const { queue, name, logger, signal } = this.#options;
    const about = { controller: name, key: String(key), err: error };
    if (signal.aborted) {
      this.outcomes.cancelled++;
      return;
    }
    this.outcomes[call.timedOut ? 'timeout' : 'error']++;
    const level = this.#level(error, queue.retries(key));
    queue.addRateLimited(key);
    logger?.[level]({ ...about, retries: queue.retries(key) }, 'reconcile failed; retrying');
  }
}
