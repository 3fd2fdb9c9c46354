/** Runs `work` when it is its turn, and settles with its result. */
export type WorkLimit = <T>(work: () => Promise<T>) => Promise<T>;

/** Limits concurrency; further calls wait in order. */
export function workLimit(limit: number): WorkLimit {
  const waiting: (() => void)[] = [];
  let running = 0;

  return async (work) => {
    if (running >= limit) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      // The next waiting call takes over the slot.
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
