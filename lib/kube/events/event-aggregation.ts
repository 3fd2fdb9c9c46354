/**
 * Which events become objects, which are counted in an existing one, and which are too many. Pure: no I/O,
 * the time is given.
 *
 * The rules are those of client-go's tools/record (EventAggregator, eventLogger,
 * EventSourceObjectSpamFilter), with their numbers:
 * - the same event again within 6 minutes of the last one is counted in its series;
 * - from the 11th note on, within 10 minutes of each other, events that differ in their note only are one
 *   series with the note "(combined from similar events): ...";
 * - new objects are limited for each object that they are about: 25 at once, then one in 5 minutes.
 *   Counting in a series costs no new object, so it is not limited.
 */
import type { Clock } from '../../time/clock.ts';
import { TokenBucket } from '../../time/rate-limit.ts';
import { cutNote, type EventRecord, type ObjectReference } from './event-object.ts';

/** One event object, stored or about to be. */
export interface EventEntry {
  readonly record: EventRecord;
  count: number;
  /** Wall-clock time. */
  readonly firstWallMs: number;
  lastWallMs: number;
  /** Monotonic time. */
  lastMs: number;
}

export interface AggregationLimits {
  /** A series ends after this long without an event. Default: 6 minutes. */
  readonly seriesEndMs: number;
  /** How many different notes of otherwise equal events get objects of their own. Default: 10. */
  readonly distinctNotes: number;
  /** The count of different notes starts again after this long without a new one. Default: 10 minutes. */
  readonly noteWindowMs: number;
  /** How many new event objects about one object may be created at once. Default: 25. */
  readonly burst: number;
  /** The rate of new event objects about one object after that. Default: one in 5 minutes. */
  readonly perSecond: number;
  /**
   * How many series are remembered, and how many groups of notes, and how many objects. The one idle longest is
   * forgotten first. Default: 2048.
   */
  readonly remembered: number;
}

const aggregationDefaults: AggregationLimits = {
  seriesEndMs: 360_000,
  distinctNotes: 10,
  noteWindowMs: 600_000,
  burst: 25,
  perSecond: 1 / 300,
  remembered: 2048,
};

/** The action for an event: write a new object, count it in one, or drop it. */
type Aggregated =
  | { readonly kind: 'new'; readonly entry: EventEntry }
  | { readonly kind: 'series'; readonly entry: EventEntry }
  | { readonly kind: 'limited' };

const COMBINED = '(combined from similar events): ';

interface Notes {
  count: number;
  lastMs: number;
}

export class EventAggregation {
  readonly #clock: Clock;
  readonly #limits: AggregationLimits;
  readonly #entries: Recent<EventEntry>;
  readonly #notes: Recent<Notes>;
  readonly #buckets: Recent<TokenBucket>;

  constructor(clock: Clock, limits: Partial<AggregationLimits> = {}) {
    this.#clock = clock;
    this.#limits = { ...aggregationDefaults, ...limits };
    const { remembered } = this.#limits;
    this.#entries = new Recent(remembered);
    this.#notes = new Recent(remembered);
    this.#buckets = new Recent(remembered);
  }

  add(record: EventRecord): Aggregated {
    const nowMs = this.#clock.monotonicMs();
    const group = keyOf(record);
    const key = `${group}\n${record.note}`;
    const known = this.#count(key, nowMs);
    if (known !== undefined) return { kind: 'series', entry: known };
    if (!this.#isTooMany(group, nowMs)) return this.#begin(key, record, nowMs);
    // The group without a note stands for all that are combined.
    const combined = this.#count(group, nowMs);
    if (combined !== undefined) return { kind: 'series', entry: combined };
    return this.#begin(group, { ...record, note: cutNote(`${COMBINED}${record.note}`) }, nowMs);
  }

  /** Call it if the event object could not be written: the next event like it creates one again. */
  forget(entry: EventEntry): void {
    const group = keyOf(entry.record);
    for (const key of [group, `${group}\n${entry.record.note}`]) {
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
    }
  }

  #count(key: string, nowMs: number): EventEntry | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || nowMs - entry.lastMs > this.#limits.seriesEndMs) return undefined;
    entry.count++;
    entry.lastMs = nowMs;
    entry.lastWallMs = this.#clock.wallMs();
    return entry;
  }

  #isTooMany(group: string, nowMs: number): boolean {
    const { noteWindowMs, distinctNotes } = this.#limits;
    let notes = this.#notes.get(group);
    if (notes === undefined || nowMs - notes.lastMs > noteWindowMs) {
      notes = { count: 0, lastMs: nowMs };
      this.#notes.set(group, notes);
    }
    notes.count++;
    notes.lastMs = nowMs;
    return notes.count > distinctNotes;
  }

  #begin(key: string, record: EventRecord, nowMs: number): Aggregated {
    const about = referenceKey(record.regarding);
    let bucket = this.#buckets.get(about);
    if (bucket === undefined) {
      const { burst, perSecond } = this.#limits;
      bucket = new TokenBucket({ burst, perSecond, clock: this.#clock });
      this.#buckets.set(about, bucket);
    }
    if (!bucket.tryTake()) return { kind: 'limited' };
    const wallMs = this.#clock.wallMs();
    const entry = { record, count: 1, firstWallMs: wallMs, lastWallMs: wallMs, lastMs: nowMs };
    this.#entries.set(key, entry);
    return { kind: 'new', entry };
  }
}

/** The common fields of the events in one series, and of a group whose notes differ. */
function keyOf({ regarding, related, type = 'Normal', reason, action }: EventRecord): string {
  const other = related === undefined ? '' : referenceKey(related);
  return JSON.stringify([referenceKey(regarding), other, type, reason, action]);
}

function referenceKey({ apiVersion, kind, namespace, name, uid, fieldPath }: ObjectReference): string {
  return JSON.stringify([apiVersion, kind, namespace, name, uid, fieldPath]);
}

/** A map that keeps the most recently used entries. */
class Recent<T> {
  readonly #map = new Map<string, T>();
  readonly #size: number;

  constructor(size: number) {
    this.#size = size;
  }

  get(key: string): T | undefined {
    const value = this.#map.get(key);
    if (value === undefined) return undefined;
    this.#map.delete(key);
    this.#map.set(key, value);
    return value;
  }

  set(key: string, value: T): void {
    this.#map.delete(key);
    this.#map.set(key, value);
    if (this.#map.size <= this.#size) return;
    for (const oldest of this.#map.keys()) {
      this.#map.delete(oldest);
      return;
    }
  }

  delete(key: string): void {
    this.#map.delete(key);
  }
}
