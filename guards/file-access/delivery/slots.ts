/** Limits concurrent requests over all callbacks. */

/**
 * Waits for a free slot, first come, first served. Dispose the result to free the slot. `troubled`: the callback's last
 * try failed.
 */
export type AcquireSlot = (troubled: boolean) => Promise<Disposable>;

/**
 * Callbacks whose last try failed get at most half of the slots: receivers that hang until the timeout cannot keep the
 * others waiting.
 */
export function slotsFor(limit: number): AcquireSlot {
  let used = 0;
  let troubledUsed = 0;
  const waiting: { readonly calm: (() => void)[]; readonly troubled: (() => void)[] } = {
    calm: [],
    troubled: [],
  };
  const troubledLimit = Math.max(1, Math.floor(limit / 2));

  function free(troubled: boolean): boolean {
    return used < limit && (!troubled || troubledUsed < troubledLimit);
  }

  function take(troubled: boolean): void {
    used++;
    if (troubled) troubledUsed++;
  }

  function release(troubled: boolean): void {
    used--;
    if (troubled) troubledUsed--;
    for (const isTroubled of [false, true]) {
      const queue = waiting[isTroubled ? 'troubled' : 'calm'];
      while (queue.length > 0 && free(isTroubled)) {
        take(isTroubled);
        queue.shift()?.();
      }
    }
  }

  return async (troubled) => {
    if (!free(troubled)) {
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting[troubled ? 'troubled' : 'calm'].push(resolve);
      await promise;
    } else {
      take(troubled);
    }
    return { [Symbol.dispose]: () => release(troubled) };
  };
}
