/** The queue between changes and reconcilers: keys, each at most once, each with one worker. */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { type BackoffOptions, KeyedBackoff } from '../../time/backoff.ts';
import { type Clock, systemClock } from '../../time/clock.ts';
import { type RateLimitOptions, TokenBucket } from '../../time/rate-limit.ts';
import { DelayHeap } from './delay-heap.ts';
import { type Ready, ReadyLists, type Urgency } from './ready-lists.ts';

export interface WorkQueueOptions {
  /** The delays of `addRateLimited` for one key. Default: 5 ms to 1,000 s. */
  readonly backoff?: BackoffOptions;
  /** The rate of `addRateLimited` for all keys together. Default: 10 per second, in bursts of up to 100. */
  readonly retryLimit?: Omit<RateLimitOptions, 'clock'>;
  readonly clock?: Clock | undefined;
}

interface AddOptions {
  /** 0, the default, is the most urgent. A key that waits already moves up, never down. */
  readonly level?: Urgency;
}

/** The current state of the queue, and its totals since it was created. */
export interface QueueStats {
  /** Keys that wait for a worker, by level. */
  readonly depth: readonly number[];
  /** Keys scheduled for later. */
  readonly delayed: number;
  /** Keys that a worker has. */
  readonly processing: number;
  /** Calls of `add` that were accepted, including those for a key that was waiting already. */
  readonly added: number;
  /** Calls of `addRateLimited` that were accepted. */
  readonly retried: number;
  readonly done: number;
  /** Sum of the times that keys waited until they were handed out. */
  readonly latencyMsSum: number;
  /** Sum of the times that workers had keys until they were done. */
  readonly durationMsSum: number;
  /** How long the worker that has been busy longest has had its key; 0 if no worker has one. */
  readonly longestRunningMs: number;
}

/** Everything about a key that waits, is being worked on, or both. */
interface Entry<K> extends Ready {
  readonly key: K;
  /** Whether it waits in a list, or runs and will wait again. */
  waiting: boolean;
  running: boolean;
  /** When it began to wait, or, for one that runs, when it was first added again. */
  addedMs: number;
  takenMs: number;
}

/**
 * A queue of keys (compared as a Map does) with these promises:
 *
 * - A key that is added while it waits is handed out once.
 * - A key is with one worker at a time. Added while a worker has it, it waits again once that worker is done:
 *   each key is worked on at least once after it was last added.
 * - Within a level, oldest first; level 1 does not starve.
 *
 * The worker calls `done` for every key that it was given, whatever came of it.
 *
 * @example
 * const key = await queue.get(signal);
 * if (key === undefined) return; // shut down
 * try { await work(key); queue.forget(key); }
 * catch { queue.addRateLimited(key); }
 * finally { queue.done(key); }
 */
export class WorkQueue<K = string> implements Disposable {
  readonly #clock: Clock;
  readonly #entries = new Map<K, Entry<K>>();
  readonly #ready = new ReadyLists<Entry<K>>();
  readonly #getters = new Set<(key: K | undefined) => void>();
  readonly #delayed = new DelayHeap<K>();
  #cancelTimer: (() => void) | undefined;
  #timerDueMs = Infinity;
  readonly #backoff: KeyedBackoff<K>;
  readonly #retryLimit: TokenBucket;
  #open = true;
  #running = 0;
  #added = 0;
  #retried = 0;
  #done = 0;
  #latencyMsSum = 0;
  #durationMsSum = 0;

  /** @throws {RampartError} `INPUT` for options that cannot work. */
  constructor(options: WorkQueueOptions = {}) {
    const { clock = systemClock } = options;
    this.#clock = clock;
    this.#backoff = new KeyedBackoff(options.backoff ?? { baseMs: 5, maxMs: 1_000_000 });
    this.#retryLimit = new TokenBucket({ ...(options.retryLimit ?? { perSecond: 10, burst: 100 }), clock });
  }

  get depth(): number {
    return this.#ready.size;
  }

  /** Asks for `key` to be worked on. Ignored after a shut-down. */
  add(key: K, options?: AddOptions): void {
    if (!this.#open) return;
    this.#added++;
    this.#put(key, options?.level ?? 0);
  }

  /** `add` in `delayMs`. Of several delays for one key the earliest counts. Ignored after a shut-down. */
  addAfter(key: K, delayMs: number, options?: AddOptions): void {
    if (!this.#open) return;
    if (!(delayMs > 0)) return this.add(key, options);
    this.#delayed.add(key, this.#clock.monotonicMs() + delayMs, options?.level ?? 0);
    this.#armTimer();
  }

  /** `add` after a failure, with a delay that grows with each failure of this key. Retries of all keys together are limited, too. */
  addRateLimited(key: K, options?: AddOptions): void {
    if (!this.#open) return;
    this.#retried++;
    this.addAfter(key, Math.max(this.#backoff.nextMs(key), this.#retryLimit.reserveMs()), options);
  }

  /** Ends the backoff of `key`: call it when it succeeded or will not be retried. */
  forget(key: K): void {
    this.#backoff.forget(key);
  }

  /** How often `key` was added by `addRateLimited` since it was last forgotten. */
  retries(key: K): number {
    return this.#backoff.attempts(key);
  }

  /** The next key, if one waits. The caller owes a `done`. */
  tryGet(): K | undefined {
    const entry = this.#ready.take();
    if (entry === undefined) return undefined;
    this.#start(entry);
    return entry.key;
  }

  /**
   * The next key, as soon as there is one; `undefined` after a shut-down. The caller owes a `done`.
   *
   * @throws the signal's reason when it aborts; no key is lost then.
   */
  get(signal?: AbortSignal): Promise<K | undefined> {
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    if (this.#ready.size > 0) return Promise.resolve(this.tryGet());
    if (!this.#open) return Promise.resolve(undefined);
    return new Promise((resolve, reject) => {
      const getter = (key: K | undefined): void => {
        signal?.removeEventListener('abort', onAbort);
        resolve(key);
      };
      const onAbort = (): void => {
        this.#getters.delete(getter);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#getters.add(getter);
    });
  }

  /**
   * The worker has finished with `key`, well or not.
   *
   * @throws {RampartError} `INPUT` when no worker has it: two workers would get it at the same time.
   */
  done(key: K): void {
    const entry = this.#entries.get(key);
    if (!entry?.running) {
      throw new RampartError(errorCodes.INPUT, {
        what: `workqueue: done("${String(key)}")`,
        why: 'no worker has this key',
      });
    }
    const nowMs = this.#clock.monotonicMs();
    entry.running = false;
    this.#running--;
    this.#done++;
    this.#durationMsSum += nowMs - entry.takenMs;
    if (entry.waiting) {
      entry.waiting = false;
      this.#enqueue(entry, entry.level, entry.addedMs);
    } else {
      this.#entries.delete(key);
    }
  }

  /** Ends the queue at once: drops what waits, takes nothing more; every `get` returns `undefined`. */
  shutDown(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#forgetDelayed();
    this.#ready.clear();
    for (const entry of this.#entries.values()) {
      entry.waiting = false;
      if (!entry.running) this.#entries.delete(entry.key);
    }
    for (const getter of this.#getters) getter(undefined);
    this.#getters.clear();
  }

  [Symbol.dispose](): void {
    this.shutDown();
  }

  /** The present counts. Visits every key that is being worked on, for `longestRunningMs`. */
  stats(): QueueStats {
    const nowMs = this.#clock.monotonicMs();
    let longestRunningMs = 0;
    if (this.#running > 0) {
      for (const { running, takenMs } of this.#entries.values()) {
        if (running) longestRunningMs = Math.max(longestRunningMs, nowMs - takenMs);
      }
    }
    return {
      depth: this.#ready.sizes(),
      delayed: this.#delayed.size,
      processing: this.#running,
      added: this.#added,
      retried: this.#retried,
      done: this.#done,
      latencyMsSum: this.#latencyMsSum,
      durationMsSum: this.#durationMsSum,
      longestRunningMs,
    };
  }

  #put(key: K, level: Urgency): void {
    const nowMs = this.#clock.monotonicMs();
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      const added: Entry<K> = {
        key,
        level,
        waiting: false,
        running: false,
        addedMs: nowMs,
        takenMs: 0,
        previous: undefined,
        next: undefined,
      };
      this.#entries.set(key, added);
      this.#enqueue(added, level, nowMs);
    } else if (entry.running) {
      entry.level = entry.waiting && entry.level < level ? entry.level : level;
      if (!entry.waiting) entry.addedMs = nowMs;
      entry.waiting = true;
    } else if (level < entry.level) {
      this.#ready.remove(entry);
      this.#enqueue(entry, level, entry.addedMs);
    }
  }

  /** Puts an entry that is in no list at the end of its level, or hands it directly to a waiting caller. */
  #enqueue(entry: Entry<K>, level: Urgency, addedMs: number): void {
    entry.level = level;
    entry.addedMs = addedMs;
    const [getter] = this.#getters;
    if (getter !== undefined) {
      this.#getters.delete(getter);
      this.#start(entry);
      getter(entry.key);
      return;
    }
    entry.waiting = true;
    this.#ready.append(entry);
  }

  #start(entry: Entry<K>): void {
    entry.waiting = false;
    entry.running = true;
    entry.takenMs = this.#clock.monotonicMs();
    this.#running++;
    this.#latencyMsSum += entry.takenMs - entry.addedMs;
  }

  #armTimer(): void {
    const dueMs = this.#delayed.nextDueMs ?? Infinity;
    if (dueMs === this.#timerDueMs) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#timerDueMs = dueMs;
    if (dueMs === Infinity) return;
    this.#cancelTimer = this.#clock.schedule(dueMs - this.#clock.monotonicMs(), () => {
      this.#timerDueMs = Infinity;
      const nowMs = this.#clock.monotonicMs();
      for (let due = this.#delayed.takeDue(nowMs); due; due = this.#delayed.takeDue(nowMs)) {
        this.add(due.key, { level: due.level });
      }
      this.#armTimer();
    });
  }

  #forgetDelayed(): void {
    this.#delayed.clear();
    this.#armTimer();
  }
}
