/**
 * Waiting paths that take long to compare: large files, and directories with their contents. A path that changes all
 * the time is not compared all the time.
 */
import type { ByteString } from '../model/entry.ts';
import { bothOf, type ChangedPath } from './change-queue.ts';

/** After a comparison, a path rests for this many times as long as the comparison took. */
const restsTimes = 9;
const maxRemembered = 1000;

export class SlowPaths {
  readonly #waiting = new Map<ByteString, ChangedPath>();
  readonly #restsUntilMs = new Map<ByteString, number>();

  get size(): number {
    return this.#waiting.size;
  }

  add(change: ChangedPath): void {
    const known = this.#waiting.get(change.path);
    this.#waiting.set(change.path, known === undefined ? change : bothOf(known, change));
  }

  /** Removes and returns the first path that is due; if none is, returns when the next one will be. */
  take(nowMs: number): ChangedPath | number {
    let nextMs = Infinity;
    for (const [path, change] of this.#waiting) {
      const dueMs = this.#restsUntilMs.get(path) ?? 0;
      if (dueMs <= nowMs) {
        this.#waiting.delete(path);
        return change;
      }
      nextMs = Math.min(nextMs, dueMs);
    }
    return nextMs;
  }

  looked(path: ByteString, tookMs: number, nowMs: number): void {
    for (const [one, untilMs] of this.#restsUntilMs) if (untilMs <= nowMs) this.#restsUntilMs.delete(one);
    if (this.#restsUntilMs.size < maxRemembered) this.#restsUntilMs.set(path, nowMs + restsTimes * tookMs);
  }

  takeAll(): ChangedPath[] {
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    return all;
  }

  clear(): void {
    this.#waiting.clear();
  }
}
