/** Keys scheduled for later, the earliest on top. */

import type { Urgency } from './ready-lists.ts';

interface Delayed<K> {
  readonly key: K;
  dueMs: number;
  level: Urgency;
  /** Among entries due at the same time, the one scheduled first goes first. */
  order: number;
  /** Its position in the heap. */
  index: number;
}

/** A binary heap with one entry for each key. */
export class DelayHeap<K> {
  readonly #heap: Delayed<K>[] = [];
  readonly #byKey = new Map<K, Delayed<K>>();
  #orders = 0;

  get size(): number {
    return this.#heap.length;
  }

  /** When the first is due; `undefined` when nothing waits. */
  get nextDueMs(): number | undefined {
    return this.#heap[0]?.dueMs;
  }

  /** Adds a key. For one that waits already, the earlier time and the more urgent level count. */
  add(key: K, dueMs: number, level: Urgency): void {
    const known = this.#byKey.get(key);
    if (known !== undefined) {
      known.level = known.level < level ? known.level : level;
      if (dueMs >= known.dueMs) return;
      known.dueMs = dueMs;
      known.order = this.#orders++;
      this.#up(known);
      return;
    }
    const added: Delayed<K> = { key, dueMs, level, order: this.#orders++, index: this.#heap.length };
    this.#heap.push(added);
    this.#byKey.set(key, added);
    this.#up(added);
  }

  /** Removes and returns the earliest key if it is due. */
  takeDue(nowMs: number): Delayed<K> | undefined {
    const first = this.#heap[0];
    if (first === undefined || first.dueMs > nowMs) return undefined;
    const last = this.#heap.pop();
    if (last !== undefined && last !== first) {
      last.index = 0;
      this.#heap[0] = last;
      this.#down(last);
    }
    this.#byKey.delete(first.key);
    return first;
  }

  clear(): void {
    this.#heap.length = 0;
    this.#byKey.clear();
  }

  #up(entry: Delayed<K>): void {
    while (entry.index > 0) {
      const parent = this.#heap[(entry.index - 1) >> 1];
      if (parent === undefined || !earlier(entry, parent)) return;
      this.#swap(parent, entry);
    }
  }

  #down(entry: Delayed<K>): void {
    for (;;) {
      const left = this.#heap[2 * entry.index + 1];
      const right = this.#heap[2 * entry.index + 2];
      const smaller = left && right && earlier(right, left) ? right : left;
      if (smaller === undefined || !earlier(smaller, entry)) return;
      this.#swap(entry, smaller);
    }
  }

  #swap(above: Delayed<K>, below: Delayed<K>): void {
    const index = above.index;
    this.#heap[below.index] = above;
    above.index = below.index;
    this.#heap[index] = below;
    below.index = index;
  }
}

function earlier<K>(a: Delayed<K>, b: Delayed<K>): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order);
}
