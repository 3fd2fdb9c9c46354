/** Runs `work` when it is its turn, and settles as it does. */
export type WorkLimit = <T>(work: () => Promise<T>) => Promise<T>;

/** Limits concurrency; the rest wait in order. */
export function workLimit(limit: number): WorkLimit {
  const waiting: (() => void)[] = [];
  let running = 0;

  return async (work) => {
    if (running >= limit) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      // The place goes to the next one, if there is one.
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
