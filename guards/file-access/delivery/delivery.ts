/**
 * Delivers alerts to callbacks: by POST, from queues on disk, in order, at least once.
 *
 * - When `enqueue` returns, the kernel has the alert, by a single write(2): it survives the end of the process, even by kill -9. A power
 *   failure loses what was written since the last sync (see group-sync.ts). Measured: 4.6 µs for a line of 1 kB, against 2.0 µs if whole
 *   batches were written; docs/decisions/0006-a-queue-file-for-each-callback.md says why this cost is accepted.
 * - Each alert is sent until the receiver answers 2xx, or refuses this particular alert (outcome.ts), or the alert is too old. A receiver
 *   may get an alert twice, if the process ended before the answer was recorded, or if the answer was lost: the header `x-rampart-alert-id`
 *   is the same then.
 * - If a queue is full, new alerts are refused and counted, and the old ones stay: the first alerts of an attack tell the most.
 */
import { AddressRules } from '../../../lib/net/address-rules.ts';
import type { QueueLog } from '../../../lib/spool/queue-log.ts';
import { MAX_ID_BYTES } from '../../../lib/spool/record.ts';
import { openSpool, type Spool, type SpoolObserver } from '../../../lib/spool/spool.ts';
import { Listeners } from '../../../lib/time/listeners.ts';
import { type CallbackQueue, isSecretName, keyOf, parseQueueName, queueName } from './callback-queue.ts';
import { callbackException, displayName, parseCallback } from './callback-url.ts';
import { Lane, type LaneObserver } from './lane.ts';
import {
  type CallbackState,
  type CallbackStats,
  type CompleteOptions,
  type DeliveryOptions,
  type DeliveryStats,
  newCounts,
  type Refusal,
  withDefaults,
} from './options.ts';
import { type AcquireSlot, slotsFor } from './slots.ts';

/** Minimum time between two log lines about refusals of one kind. */
const REFUSAL_LOG_MS = 10_000;
// Printable ASCII, since it is sent in a header.
const idForm = /^[\x21-\x7e]+$/;

/**
 * Opens the queues in a directory and starts to deliver their alerts. The caller disposes of it, which gives requests under way `lingerMs`
 * to complete and leaves undelivered alerts on disk.
 *
 * @throws {RampartError} `INPUT` for invalid networks, `IN_USE` if another process uses the directory, `SYSTEM` or `FULL` if the directory
 * cannot be used. Damaged files do not throw.
 */
export function openDelivery(options: DeliveryOptions): Delivery {
  const checked = withDefaults(options);
  return new Delivery(checked, new AddressRules({ ...checked, exception: callbackException }));
}

/** See {@link openDelivery}. */
export class Delivery implements AsyncDisposable {
  readonly #options: CompleteOptions;
  readonly #rules: AddressRules;
  readonly #spool: Spool;
  readonly #lanes = new LaneTable();
  readonly #troubleListeners = new Listeners<[callback: CallbackStats]>();
  readonly #lastingListeners = new Listeners<[callback: CallbackState]>();
  readonly #acquireSlot: AcquireSlot;
  readonly #counts = newCounts();
  readonly #refusalLoggedMs = new Map<Refusal, number>();
  #closed: Promise<void> | undefined;

  constructor(options: CompleteOptions, rules: AddressRules) {
    const { clock, directory, maxBytes, maxBytesPerCallback, concurrency } = options;
    this.#options = options;
    this.#rules = rules;
    this.#acquireSlot = slotsFor(concurrency);
    this.#spool = openSpool({
      ...{ directory, clock, maxBytes, maxQueueBytes: maxBytesPerCallback, observer: this.#spoolObserver },
      contents: 'alerts',
      keyOf: (name) => {
        const queue = parseQueueName(name);
        return queue && keyOf(queue.callback, queue.secret);
      },
    });
    this.#recover();
  }

  /**
   * Accepts an alert for a callback. Synchronous, with one write(2); never throws.
   *
   * @param id Printable ASCII, up to 128 characters, different for each alert: see `AlertIds`.
   * @param line JSON, without a newline.
   * @param secret `namespace/name` of the Secret to send it with, or empty. Each Secret has its own queue: nothing is ever sent with the
   * credentials of another trap.
   *
   * @returns false if it was refused, which is counted.
   */
  enqueue(callback: string, id: string, line: string | Uint8Array, secret = ''): boolean {
    this.#counts.offered++;
    const refusal = this.#take(callback, id, line, secret);
    if (refusal === undefined) {
      this.#counts.accepted++;
      return true;
    }
    this.#counts.refused[refusal]++;
    this.#logRefusal(refusal, callback, secret);
    return false;
  }

  /** Resolves once all alerts accepted so far are on disk. */
  async sync(): Promise<void> {
    await this.#spool.sync();
  }

  get stats(): DeliveryStats {
    let depth = 0;
    let oldestMs = 0;
    for (const lane of this.#lanes) {
      depth += lane.log.depth;
      oldestMs = Math.max(oldestMs, lane.oldestMs);
    }
    const { refused, dropped, ...counts } = this.#counts;
    return {
      ...counts,
      refused: { ...refused },
      dropped: { ...dropped },
      depth,
      oldestMs,
      sizeBytes: this.#spool.sizeBytes,
    };
  }

  /** Callbacks that have queued alerts, or had some recently. */
  callbacks(): readonly CallbackStats[] {
    return Array.from(this.#lanes, (lane) => lane.stats);
  }

  /** Calls `listener` when credentials are missing or not accepted: once for each reason. Dispose of the result to unsubscribe. */
  onCredentialsTrouble(listener: (callback: CallbackStats) => void): Disposable {
    return this.#troubleListeners.add(listener);
  }

  /** Whether a callback accepts alerts; undefined if no alert was queued for it recently, although it is permitted. */
  stateOf(callback: string, secret: string): CallbackState | undefined {
    return this.#lanes.get(callback, secret)?.state ?? this.#refusedState(callback, secret);
  }

  /**
   * Calls `listener` when nothing has been delivered for `failingMs`, when the reason has changed for as long, and when alerts are
   * delivered again. Dispose of the result to unsubscribe.
   */
  onLastingTrouble(listener: (callback: CallbackState) => void): Disposable {
    return this.#lastingListeners.add(listener);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  #refusedState(callback: string, secret: string): CallbackState | undefined {
    const problem = parseCallback(callback, this.#rules);
    if (typeof problem !== 'string') return undefined;
    const name = displayName(callback, secret);
    return { callback, secret, name, problem, isDecided: true, isRefused: true, aboutCredentials: false };
  }

  #take(callback: string, id: string, line: string | Uint8Array, secret: string): Refusal | undefined {
    if (this.#closed !== undefined) return 'closed';
    if (id.length > MAX_ID_BYTES || !idForm.test(id)) return 'id';
    const record = this.#spool.encode(id, line);
    if (record === undefined) return 'size';
    let lane = this.#lanes.get(callback, secret);
    if (lane === undefined) {
      const url = parseCallback(callback, this.#rules);
      if (typeof url === 'string') return 'callback';
      if (secret !== '' && (url.protocol !== 'https:' || !isSecretName(secret))) return 'callback';
      if (this.#lanes.size >= this.#options.maxCallbacks && !this.#forgetIdle()) return 'callbacks';
      lane = this.#addLane({ callback, secret });
    }
    const refusal = this.#spool.append(lane.log, record);
    if (refusal !== undefined) return refusal === 'queue_full' ? 'callback_full' : refusal;
    lane.wake();
    return undefined;
  }

  #recover(): void {
    const { records, tornBytes, unreadable } = this.#spool.found;
    this.#counts.tornBytes = tornBytes;
    this.#counts.damagedFiles += unreadable;
    this.#counts.recovered = records;
    for (const log of this.#spool.queues) {
      const queue = parseQueueName(log.name);
      if (queue !== undefined) this.#addLane(queue, log);
    }
    const { recovered, damagedFiles } = this.#counts;
    if (damagedFiles > 0) this.#options.log?.warn({ damagedFiles }, 'queue files of callbacks are damaged');
    if (recovered > 0)
      this.#options.log?.info(
        { alerts: recovered },
        'alerts from before the restart are queued for callbacks',
      );
    for (const lane of this.#lanes) if (lane.log.depth > 0) lane.wake();
  }

  #addLane(queue: CallbackQueue, log: QueueLog = this.#spool.add(queueName(queue))): Lane {
    const lane = new Lane(queue, log, {
      ...this.#options,
      rules: this.#rules,
      acquireSlot: this.#acquireSlot,
      nowMs: this.#spool.nowMs,
      observer: this.#laneObserver,
    });
    this.#lanes.add(lane);
    return lane;
  }

  /** Closes an idle queue to make room for another callback. Returns false if no queue is idle. */
  #forgetIdle(): boolean {
    for (const lane of this.#lanes) {
      if (!lane.idle) continue;
      this.#lanes.delete(lane);
      void lane.stop(0);
      this.#spool.forget(lane.log);
      return true;
    }
    return false;
  }

  readonly #spoolObserver: SpoolObserver = {
    damaged: (lostAlerts) => {
      this.#counts.damagedFiles++;
      this.#counts.dropped.damaged += lostAlerts;
      this.#options.log?.warn({ lostAlerts }, 'a queue file of a callback is damaged');
    },
    syncFailed: (error) => {
      this.#counts.syncErrors++;
      this.#options.log?.warn({ err: error }, 'alerts for callbacks could not be synced to disk');
    },
  };

  readonly #laneObserver: LaneObserver = {
    delivered: (latencyMs) => {
      this.#counts.delivered++;
      this.#counts.latencyMs += latencyMs;
    },
    retried: () => void this.#counts.retried++,
    dropped: (reason) => void this.#counts.dropped[reason]++,
    cursorFailed: () => void this.#counts.cursorErrors++,
    troubled: (lane) => {
      const { name: callback, lastError } = lane;
      this.#options.log?.warn(
        { callback, why: lastError?.why },
        'a callback does not accept alerts; they are queued and retried',
      );
      if (lastError?.aboutCredentials !== true) return;
      this.#troubleListeners.notify(lane.stats);
    },
    lasting: ({ state }) => this.#lastingListeners.notify(state),
    recovered: (callback, failures, waiting) =>
      this.#options.log?.info({ callback, failures, waiting }, 'a callback accepts alerts again'),
    unwanted: (callback, id, why) =>
      this.#options.log?.warn({ callback, id, why }, 'a callback rejected an alert; it is dropped'),
  };

  #logRefusal(refusal: Refusal, callback: string, secret: string): void {
    const { log, clock } = this.#options;
    const nowMs = clock.monotonicMs();
    const loggedMs = this.#refusalLoggedMs.get(refusal);
    if (log === undefined || (loggedMs !== undefined && nowMs - loggedMs < REFUSAL_LOG_MS)) return;
    this.#refusalLoggedMs.set(refusal, nowMs);
    const soFar = this.#counts.refused[refusal];
    const name = displayName(callback, secret);
    const url = refusal === 'callback' ? parseCallback(callback, this.#rules) : undefined;
    const why = typeof url === 'string' ? { why: url } : {};
    log.warn({ callback: name, reason: refusal, ...why, soFar }, 'an alert was not queued for its callback');
  }

  async #close(): Promise<void> {
    try {
      await Promise.all(Array.from(this.#lanes, (lane) => lane.stop(this.#options.lingerMs)));
    } finally {
      await this.#spool[Symbol.asyncDispose]();
    }
  }
}

/** The lanes of a delivery, by callback and Secret. Every alert is looked up here, so no combined key is built. */
export class LaneTable implements Iterable<Lane> {
  /** Lanes of traps without a Secret: nearly all. */
  readonly #plain = new Map<string, Lane>();
  /** Keyed by Secret, then by callback. */
  readonly #bySecret = new Map<string, Map<string, Lane>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** @param secret `namespace/name`, or empty. */
  get(callback: string, secret: string): Lane | undefined {
    return this.#mapOf(secret)?.get(callback);
  }

  add(lane: Lane): void {
    const { callback, secret } = lane.queue;
    let lanes = this.#mapOf(secret);
    if (lanes === undefined) this.#bySecret.set(secret, (lanes = new Map()));
    lanes.set(callback, lane);
    this.#size++;
  }

  delete(lane: Lane): void {
    const { callback, secret } = lane.queue;
    const lanes = this.#mapOf(secret);
    if (lanes?.delete(callback) !== true) return;
    this.#size--;
    if (lanes.size === 0) this.#bySecret.delete(secret);
  }

  *[Symbol.iterator](): Iterator<Lane> {
    yield* this.#plain.values();
    for (const lanes of this.#bySecret.values()) yield* lanes.values();
  }

  #mapOf(secret: string): Map<string, Lane> | undefined {
    return secret === '' ? this.#plain : this.#bySecret.get(secret);
  }
}
