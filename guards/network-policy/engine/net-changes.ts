/** Collects items that come and go until the net change is requested. */

/** Coming and going cancel out. An address that passes from one pod to another may come before it goes. */
export class NetChanges<T> {
  #changes = new Map<string, { readonly item: T; readonly count: number }>();

  get size(): number {
    return this.#changes.size;
  }

  came(key: string, item: T): void {
    this.#count(key, item, 1);
  }

  went(key: string, item: T): void {
    this.#count(key, item, -1);
  }

  /** @returns first the items that went, then those that came; they are not returned again */
  take(): { readonly gone: readonly T[]; readonly come: readonly T[] } {
    if (this.size === 0) return { gone: [], come: [] };
    const changes = [...this.#changes.values()];
    this.#changes = new Map();
    return {
      gone: changes.filter(({ count }) => count < 0).map(({ item }) => item),
      come: changes.filter(({ count }) => count > 0).map(({ item }) => item),
    };
  }

  #count(key: string, item: T, by: 1 | -1): void {
    const count = (this.#changes.get(key)?.count ?? 0) + by;
    if (count === 0) this.#changes.delete(key);
    else this.#changes.set(key, { item, count });
  }
}
