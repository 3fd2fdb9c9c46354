/** Deletes events an hour after they were last seen (kube-apiserver `--event-ttl`). */
import { type Clock, sleep, systemClock } from '../../time/clock.ts';
import type { Logger } from '../../telemetry/log.ts';
import { textAt } from '../../json/fields.ts';
import type { Registry } from '../resources/registry.ts';
import type { ChangeType, StoredObject } from '../store/object.ts';
import type { Store } from '../store/store.ts';
import type { ObjectListener } from './object-follower.ts';
import { hasCode, type VerbCalls } from './verb-calls.ts';

interface EventExpiryOptions {
  readonly store: Store;
  readonly registry: Registry;
  readonly calls: VerbCalls;
  /** Default: an hour. */
  readonly ttlMs?: number | undefined;
  readonly logger?: Logger | undefined;
  readonly clock?: Clock | undefined;
}

/** The names under which the store has events of either group. */
const eventStoreNames: ReadonlySet<string> = new Set(['events', 'events.events.k8s.io']);

/** Events are grouped into slots by the time at which they may be due: with a TTL of an hour, a slot lasts half a minute. */
const slotsPerTtl = 120;
const [shortestSlotMs, longestSlotMs] = [50, 30_000];
/** Number of concurrent deletions, which the store does in one or two transactions. */
const batchSize = 100;
const pauseMs = 20;
const retryMs = 60_000;

/**
 * Records only when to examine each event. At that time, the event is read, and recorded again if it was seen in the
 * meantime. So updates of events cost nothing, and neither do deletions by others.
 */
export class EventExpiry implements ObjectListener {
  readonly #options: EventExpiryOptions;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  readonly #slotMs: number;
  /** The events of each slot, as `STORE NAME/NAMESPACE/NAME`, keyed by the number of the slot. */
  readonly #slots = new Map<number, Set<string>>();
  #expired = 0;
  #failures = 0;

  constructor(options: EventExpiryOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#ttlMs = options.ttlMs ?? 3_600_000;
    this.#slotMs = Math.min(longestSlotMs, Math.max(shortestSlotMs, Math.ceil(this.#ttlMs / slotsPerTtl)));
  }

  /** Number of events deleted because they expired. */
  get expired(): number {
    return this.#expired;
  }

  get failures(): number {
    return this.#failures;
  }

  /** Number of recorded events, including those that were deleted since. */
  get size(): number {
    return [...this.#slots.values()].reduce((sum, slot) => sum + slot.size, 0);
  }

  object(type: ChangeType, object: StoredObject): void {
    if (type === 'ADDED' && eventStoreNames.has(object.resource)) {
      this.#remember(`${object.resource}/${object.namespace}/${object.name}`, this.#dueMs(object));
    }
  }

  /** Deletes expired events until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        await this.deleteDue(signal);
        await sleep(this.#clock, this.#slotMs, signal);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async deleteDue(signal: AbortSignal): Promise<void> {
    const nowMs = this.#clock.wallMs();
    const due = [...this.#slots.keys()].filter((slot) => slot * this.#slotMs <= nowMs).sort((a, b) => a - b);
    for (const slot of due) {
      const keys = [...(this.#slots.get(slot) ?? [])];
      this.#slots.delete(slot);
      for (let from = 0; from < keys.length; from += batchSize) {
        // The rest of the slot is not lost: after a restart, all events are seen again.
        signal.throwIfAborted();
        await Promise.all(keys.slice(from, from + batchSize).map((key) => this.#look(key, nowMs, signal)));
        if (from + batchSize < keys.length) await sleep(this.#clock, pauseMs, signal);
      }
    }
  }

  async #look(key: string, nowMs: number, signal: AbortSignal): Promise<void> {
    const [storeName = '', namespace = '', name = ''] = key.split('/');
    const { store, registry, calls, logger } = this.#options;
    try {
      const stored = store.get(storeName, namespace, name);
      const resource = registry.findStored(storeName);
      if (stored === undefined || resource === undefined) return;
      const dueMs = this.#dueMs(stored);
      if (dueMs > nowMs) {
        this.#remember(key, dueMs);
        return;
      }
      const { uid, resourceVersion } = stored;
      await calls.delete(resource, stored, { uid, resourceVersion, propagationPolicy: 'Background' }, signal);
      this.#expired++;
    } catch (error) {
      if (hasCode(error, 404)) return;
      this.#remember(key, nowMs + (hasCode(error, 409) ? this.#slotMs : retryMs));
      if (signal.aborted || hasCode(error, 409)) return;
      this.#failures++;
      logger?.warn({ err: error, event: `${namespace}/${name}` }, 'cannot delete an expired event; retrying');
    }
  }

  #remember(key: string, dueMs: number): void {
    // Rounded up: an event is examined up to one slot late, but never early.
    const number = Math.ceil(dueMs / this.#slotMs);
    const slot = this.#slots.get(number) ?? new Set();
    slot.add(key);
    this.#slots.set(number, slot);
  }

  #dueMs({ text }: StoredObject): number {
    return lastSeenMs(JSON.parse(text), this.#clock.wallMs()) + this.#ttlMs;
  }
}

/** When an event of either group was last seen; `otherwise` if it has no time. */
function lastSeenMs(event: unknown, otherwise: number): number {
  const times = [
    textAt(event, 'lastTimestamp'),
    textAt(event, 'deprecatedLastTimestamp'),
    textAt(event, 'eventTime'),
    textAt(event, 'series', 'lastObservedTime'),
    textAt(event, 'metadata', 'creationTimestamp'),
  ];
  const known = times.map((time) => Date.parse(time)).filter((ms) => !Number.isNaN(ms));
  // A reporter whose clock is ahead must not make an event stay forever.
  return known.length === 0 ? otherwise : Math.min(Math.max(...known), otherwise);
}
