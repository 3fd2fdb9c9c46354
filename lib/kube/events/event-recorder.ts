/**
 * Reports the actions of a controller as Events that `kubectl describe` and `kubectl events` show.
 *
 * Written as events.k8s.io/v1 and not as core/v1: both are views of the same stored objects, so all tools
 * show them; the new one has `series`, which needs one small patch where the old one rewrites message, count
 * and timestamps, and is checked strictly by the API server, so that a fault shows in our tests and not in a
 * user's dashboard.
 */
import type { Logger } from '../../telemetry/log.ts';
import { orAborted } from '../../time/abort.ts';
import { Backoff } from '../../time/backoff.ts';
import { type Clock, sleep, systemClock } from '../../time/clock.ts';
import type { KubeClient } from '../client/client.ts';
import {
  isAlreadyExists,
  isTooManyRequests,
  isUnreachable,
  KubeError,
  orUndefined,
} from '../client/client-errors.ts';
import { type AggregationLimits, EventAggregation, type EventEntry } from './event-aggregation.ts';
import {
  cutNote,
  eventObject,
  type EventPlace,
  type EventRecord,
  type EventReporter,
  events,
  newEventPlace,
  seriesOf,
} from './event-object.ts';

export interface EventRecorderOptions extends EventReporter {
  readonly client: KubeClient;
  /** How many objects may wait to be written; more are dropped and counted. Default: 1000. */
  readonly queueLimit?: number;
  readonly limits?: Partial<AggregationLimits> | undefined;
  readonly logger?: Logger;
  readonly clock?: Clock;
}

/** What became of the events so far. Each event counted in `recorded` is in exactly one of the other counts. */
export interface EventStats {
  readonly recorded: number;
  /** Written to the API, as an object or in the count of a series. */
  readonly written: number;
  /** Dropped because there were too many new events about one object. */
  readonly limited: number;
  /** Dropped because the queue was full or the recorder had been stopped. */
  readonly dropped: number;
  /** Refused by the API: no permission, namespace gone, not valid. */
  readonly refused: number;
  /** Given up after repeated failures. */
  readonly failed: number;
  readonly waiting: number;
}

interface Pending {
  readonly entry: EventEntry;
  readonly place: EventPlace;
  /** The part of the entry's count that the API has. 0: the object does not exist. */
  writtenCount: number;
  /** The earliest time to write it. */
  dueMs: number;
}

type Outcome = Exclude<keyof EventStats, 'recorded' | 'waiting'>;

/** As client-go (tools/record, maxTriesPerEvent). */
const MAX_TRIES = 12;
const BACKOFF = { baseMs: 1000, maxMs: 30_000 };

/**
 * Records events in the background. `record` returns at once and never throws; see {@link EventAggregation} for what is
 * folded and limited. The owner ends it with `stop`, or disposes it, which gives it 5 seconds.
 *
 * @example
 * await using recorder = new EventRecorder({ client, controller: 'rampart.dev/agent', instance: nodeName });
 * recorder.record({ regarding: referenceTo(policies, policy), reason: 'Watching', action: 'Watch', note: '3 files' });
 */
export class EventRecorder implements AsyncDisposable {
  readonly #options: EventRecorderOptions;
  readonly #clock: Clock;
  readonly #aggregation: EventAggregation;
  readonly #pendings = new WeakMap<EventEntry, Pending>();
  /** In the order of arrival. */
  readonly #queue = new Set<Pending>();
  readonly #counts: Record<Outcome, number> = { written: 0, limited: 0, dropped: 0, refused: 0, failed: 0 };
  #recorded = 0;
  #running: Promise<void> | undefined;
  /** Ends a pause of the writer. */
  #wake: (() => void) | undefined;
  /** Whether series are written now, without waiting for their time. */
  #hurry = false;
  #stopped = false;
  /** Aborts the request or the pause that the writer waits for. */
  readonly #abort = new AbortController();

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#aggregation = new EventAggregation(this.#clock, options.limits);
  }

  record(record: EventRecord): void {
    this.#recorded++;
    try {
      if (this.#stopped) this.#counts.dropped++;
      else this.#add(record);
    } catch (error) {
      this.#counts.refused++;
      this.#options.logger?.warn({ err: error }, 'cannot record an event');
    }
  }

  stats(): EventStats {
    return { recorded: this.#recorded, ...this.#counts, waiting: this.#queue.size };
  }

  /** Writes all that waits, series too. @throws the signal's reason when it aborts; the writing continues. */
  async flush(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#hurry = true;
    this.#wake?.();
    try {
      await orAborted(this.#running ?? Promise.resolve(), signal);
    } finally {
      this.#hurry = this.#stopped;
    }
  }

  /** Writes what waits until `signal` aborts, then drops and counts the rest. Never throws. */
  async stop(signal: AbortSignal): Promise<void> {
    this.#stopped = true;
    const onAbort = (): void => this.#abort.abort(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    this.#hurry = true;
    this.#wake?.();
    await this.#running;
    signal.removeEventListener('abort', onAbort);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const limit = new AbortController();
    const cancel = this.#clock.schedule(DISPOSAL_MS, () =>
      limit.abort(new Error('timed out sending events')),
    );
    await this.stop(limit.signal);
    cancel();
  }

  #add(given: EventRecord): void {
    const record = { ...given, note: cutNote(given.note) };
    const result = this.#aggregation.add(record);
    if (result.kind === 'limited') {
      this.#counts.limited++;
      return;
    }
    const { entry } = result;
    const { queueLimit = 1000 } = this.#options;
    let pending = this.#pendings.get(entry);
    if (pending !== undefined && this.#queue.has(pending)) return;
    if (this.#queue.size >= queueLimit) {
      this.#counts.dropped++;
      if (pending === undefined) this.#aggregation.forget(entry);
      else entry.count--;
      return;
    }
    if (pending === undefined) {
      const place = newEventPlace(entry.record.regarding);
      pending = { entry, place, writtenCount: 0, dueMs: -Infinity };
      this.#pendings.set(entry, pending);
    } else {
      // Not immediately: the first repetition may be the first of many.
      pending.dueMs = this.#clock.monotonicMs() + SERIES_INTERVAL_MS;
    }
    this.#queue.add(pending);
    this.#wake?.();
    this.#running ??= this.#write().finally(() => (this.#running = undefined));
  }

  /** Writes until nothing waits. */
  async #write(): Promise<void> {
    // `record` calls this, and must return before anything is written.
    await Promise.resolve();
    while (this.#queue.size > 0) {
      if (this.#abort.signal.aborted) return this.#dropAll();
      const pending = this.#next();
      if (pending === undefined) await this.#pause();
      else await this.#writeOne(pending);
    }
  }

  #next(): Pending | undefined {
    const nowMs = this.#clock.monotonicMs();
    for (const pending of this.#queue) if (this.#hurry || pending.dueMs <= nowMs) return pending;
    return undefined;
  }

  /** Waits until the next series is due, or something new comes. */
  async #pause(): Promise<void> {
    let dueMs = Infinity;
    for (const pending of this.#queue) dueMs = Math.min(dueMs, pending.dueMs);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const cancel = this.#clock.schedule(dueMs - this.#clock.monotonicMs(), resolve);
    await promise;
    this.#wake = undefined;
    cancel();
  }

  async #writeOne(pending: Pending): Promise<void> {
    const { logger } = this.#options;
    const backoff = new Backoff(BACKOFF);
    for (;;) {
      // Events that come during this write are left to the next one.
      const { count } = pending.entry;
      try {
        await this.#send(pending, this.#abort.signal);
        this.#queue.delete(pending);
        this.#counts.written += count - pending.writtenCount;
        pending.writtenCount = count;
        if (pending.entry.count > count) this.#queueAgain(pending);
        return;
      } catch (error) {
        if (this.#abort.signal.aborted) return;
        const hopeless = !mayPass(error);
        if (hopeless || backoff.attempts + 1 >= MAX_TRIES) {
          logger?.warn({ err: error, event: pending.place.name }, 'an event was lost');
          this.#giveUp(pending, hopeless ? 'refused' : 'failed');
          return;
        }
        const asked = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
        const pauseMs = Math.max(asked, backoff.nextMs());
        await sleep(this.#clock, pauseMs, this.#abort.signal).catch(() => undefined);
        if (this.#abort.signal.aborted) return;
      }
    }
  }

  #queueAgain(pending: Pending): void {
    pending.dueMs = this.#clock.monotonicMs() + SERIES_INTERVAL_MS;
    this.#queue.add(pending);
  }

  async #send(pending: Pending, signal: AbortSignal): Promise<void> {
    const { client } = this.#options;
    const { place, entry } = pending;
    if (pending.writtenCount > 0) {
      const patch = { type: 'merge', body: { series: seriesOf(entry) } } as const;
      // Events expire, by default after an hour. Then the series continues in a new object.
      if ((await orUndefined(client.patch(events, place, patch, { signal }))) !== undefined) return;
    }
    try {
      await client.create(events, eventObject(place, entry.record, entry, this.#options), { signal });
    } catch (error) {
      // The name is unique, so this was an earlier try of ours whose answer got lost.
      if (!isAlreadyExists(error)) throw error;
      if (pending.writtenCount === 0) {
        this.#counts.written++;
        pending.writtenCount = 1;
      }
      if (entry.count > 1) await this.#send(pending, signal);
    }
  }

  #giveUp(pending: Pending, outcome: 'refused' | 'failed' | 'dropped'): void {
    this.#queue.delete(pending);
    this.#counts[outcome] += pending.entry.count - pending.writtenCount;
    this.#aggregation.forget(pending.entry);
  }

  #dropAll(): void {
    const before = this.#counts.dropped;
    for (const pending of this.#queue) this.#giveUp(pending, 'dropped');
    this.#options.logger?.warn({ count: this.#counts.dropped - before }, 'events were dropped at shutdown');
  }
}

const SERIES_INTERVAL_MS = 10_000;
const DISPOSAL_MS = 5000;

function mayPass(error: unknown): boolean {
  return (
    isUnreachable(error) || isTooManyRequests(error) || (error instanceof KubeError && error.status >= 500)
  );
}
