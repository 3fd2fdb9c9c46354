/**
 * Changed paths that wait for their report: each some time after its first change, and not too often. Pure.
 */
import type { ByteString } from './change.ts';

export interface PendingChange {
  readonly path: ByteString;
  /** All kinds of changes since the last report, as `kindBits`. */
  readonly bits: number;
  /** The kinds among them that came with events. */
  readonly events: number;
  readonly below: boolean;
  /** When the first change was added. */
  readonly addedMs: number;
  /** `sinceMs` of the first change, see {@link PendingChanges.add}. */
  readonly sinceMs: number;
}

/** How a change is known: by an event, by a record of the sensor, or as a new directory with all that is below it. */
type ChangeSource = 'event' | 'record' | 'below';

/** Limit of waiting paths, some 10 MB. Beyond it, the changed paths are unknown; only the fact that something changed is reported. */
const maxPending = 32_768;

interface Waiting {
  bits: number;
  events: number;
  below: boolean;
  readonly dueMs: number;
  readonly addedMs: number;
  readonly sinceMs: number;
}

export class PendingChanges {
  readonly #settleMs: number;
  readonly #paceMs: number;
  readonly #max: number;
  readonly #waiting = new Map<ByteString, Waiting>();
  /** Time of the last report by path. */
  #reported = new Map<ByteString, number>();
  #reportedBefore = new Map<ByteString, number>();
  #nextDueMs = Infinity;
  #isFull = false;

  /**
   * @param settleMs - Time from the first change of a path until its report.
   * @param paceMs - Least time between two reports of a path.
   * @param max - Limit of waiting paths. After more reports than this, the paths reported earlier are no longer paced.
   */
  constructor(settleMs: number, paceMs: number, max = maxPending) {
    [this.#settleMs, this.#paceMs, this.#max] = [settleMs, paceMs, max];
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** When the next report is due; Infinity if nothing waits. */
  get nextDueMs(): number {
    return this.#nextDueMs;
  }

  /** When the oldest waiting change was added; Infinity if nothing waits. */
  get oldestMs(): number {
    // A Map iterates in the order of insertion.
    for (const { addedMs } of this.#waiting.values()) return addedMs;
    return Infinity;
  }

  /** How many paths are kept: waiting ones, and reported ones. */
  get kept(): number {
    return this.#waiting.size + this.#reported.size + this.#reportedBefore.size;
  }

  /** Whether, since the last call, there was no room for a path. */
  takeOverflow(): boolean {
    const isFull = this.#isFull;
    this.#isFull = false;
    return isFull;
  }

  get empty(): boolean {
    return this.kept === 0;
  }

  /** @param sinceMs - Wall clock: the change happened at this time or later. */
  add(path: ByteString, bits: number, nowMs: number, sinceMs: number, source: ChangeSource): void {
    const events = source === 'event' ? bits : 0;
    const below = source === 'below';
    const waiting = this.#waiting.get(path);
    if (waiting !== undefined) {
      waiting.bits |= bits;
      waiting.events |= events;
      waiting.below ||= below;
      return;
    }
    if (this.#waiting.size >= this.#max) {
      this.#isFull = true;
      return;
    }
    const reportedMs = this.#reported.get(path) ?? this.#reportedBefore.get(path);
    const settledMs = nowMs + this.#settleMs;
    const dueMs = reportedMs === undefined ? settledMs : Math.max(settledMs, reportedMs + this.#paceMs);
    this.#waiting.set(path, { bits, events, below, dueMs, addedMs: nowMs, sinceMs });
    this.#nextDueMs = Math.min(this.#nextDueMs, dueMs);
  }

  /** Removes and returns the changes that are due, at most `max`. */
  take(nowMs: number, max: number): PendingChange[] {
    const taken: PendingChange[] = [];
    this.#nextDueMs = Infinity;
    for (const [path, waiting] of this.#waiting) {
      if (waiting.dueMs > nowMs || taken.length >= max) {
        this.#nextDueMs = Math.min(this.#nextDueMs, waiting.dueMs);
        continue;
      }
      const { bits, events, below, addedMs, sinceMs } = waiting;
      taken.push({ path, bits, events, below, addedMs, sinceMs });
    }
    for (const { path } of taken) {
      this.#waiting.delete(path);
      this.#reported.set(path, nowMs);
    }
    if (this.#reported.size >= this.#max) this.rotate();
    return taken;
  }

  /** Forgets reports from before the previous call. */
  rotate(): void {
    this.#reportedBefore = this.#reported;
    this.#reported = new Map();
  }
}
