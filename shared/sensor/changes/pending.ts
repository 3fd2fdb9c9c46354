/**
 * Changed paths that wait to be told: each some time after its first change, and not too often. Pure, with the time given.
 *
 * @module
 */
import type { ByteString } from './change.ts';

export interface PendingChange {
  readonly path: ByteString;
  /** `kindBits`. */
  readonly bits: number;
  readonly below: boolean;
  /** As it was given with the first change, see {@link PendingChanges.add}. */
  readonly sinceMs: number;
  /** What was given with the last telling of this path, if that is not too long ago. */
  readonly mark: number;
}

interface Waiting {
  bits: number;
  below: boolean;
  dueMs: number;
  readonly sinceMs: number;
}

interface Told {
  readonly atMs: number;
  readonly mark: number;
}

export class PendingChanges {
  readonly #settleMs: number;
  readonly #paceMs: number;
  readonly #waiting = new Map<ByteString, Waiting>();
  #told = new Map<ByteString, Told>();
  #toldBefore = new Map<ByteString, Told>();
  #nextDueMs = Infinity;

  /**
   * @param settleMs - From the first change of a path until it is told.
   * @param paceMs - At least between two tellings of a path.
   */
  constructor(settleMs: number, paceMs: number) {
    this.#settleMs = settleMs;
    this.#paceMs = paceMs;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** When the next is due; Infinity when nothing waits. */
  get nextDueMs(): number {
    return this.#nextDueMs;
  }

  /** Whether nothing waits and nothing is remembered. */
  get empty(): boolean {
    return this.#waiting.size === 0 && this.#told.size === 0 && this.#toldBefore.size === 0;
  }

  /** @param sinceMs - Wall clock: what is added now did not happen before. */
  add(path: ByteString, bits: number, nowMs: number, sinceMs: number, below = false): void {
    const waiting = this.#waiting.get(path);
    if (waiting !== undefined) {
      waiting.bits |= bits;
      waiting.below ||= below;
      return;
    }
    const told = this.#lastTold(path);
    const settledMs = nowMs + this.#settleMs;
    const dueMs = told === undefined ? settledMs : Math.max(settledMs, told.atMs + this.#paceMs);
    this.#waiting.set(path, { bits, below, dueMs, sinceMs });
    this.#nextDueMs = Math.min(this.#nextDueMs, dueMs);
  }

  /**
   * Takes out what is due, at most `most`.
   *
   * @param mark - Given back with the next telling of the same paths.
   */
  take(nowMs: number, most: number, mark: number): PendingChange[] {
    const taken: PendingChange[] = [];
    this.#nextDueMs = Infinity;
    for (const [path, { bits, below, dueMs, sinceMs }] of this.#waiting) {
      if (dueMs > nowMs || taken.length >= most) {
        this.#nextDueMs = Math.min(this.#nextDueMs, dueMs);
        continue;
      }
      taken.push({ path, bits, below, sinceMs, mark: this.#lastTold(path)?.mark ?? 0 });
    }
    for (const { path } of taken) {
      this.#waiting.delete(path);
      this.#told.set(path, { atMs: nowMs, mark });
    }
    return taken;
  }

  /** Forgets what was told before the call before this one. */
  rotate(): void {
    this.#toldBefore = this.#told;
    this.#told = new Map();
  }

  #lastTold(path: ByteString): Told | undefined {
    return this.#told.get(path) ?? this.#toldBefore.get(path);
  }
}
