/**
 * Guards side by side in one process.
 *
 * @module
 */
import { RampartError } from '../shared/observe/errors.ts';
import type { Health } from '../shared/observe/health.ts';
import type { Logger } from '../shared/observe/log.ts';

export interface SideBySideOptions {
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly health?: Health | undefined;
}

/** One guard: runs until the signal aborts. */
export type Guard = (signal: AbortSignal) => Promise<void>;

/**
 * Runs guards by their names, until the signal aborts and all have ended.
 *
 * One that cannot do its work here (a {@link RampartError}, e.g. as the kernel refuses the sensor) takes no other with it: the
 * log says so, and the process is not ready. Only when none is left its error is thrown. Any other error is a fault of ours, and
 * so is a guard that ends by itself: then a new process is the best there is, and all end.
 *
 * @throws what the first guard threw that ends all.
 */
export async function runSideBySide(
  guards: Readonly<Record<string, Guard>>,
  { signal: outer, logger, health }: SideBySideOptions,
): Promise<void> {
  const stop = new AbortController();
  const signal = AbortSignal.any([outer, stop.signal]);
  const failures: unknown[] = [];
  let left = Object.keys(guards).length;
  using parts = new DisposableStack();
  const fail = (error: unknown): void => {
    failures.push(error);
    stop.abort();
  };
  const run = async (name: string, guard: Guard): Promise<void> => {
    try {
      await guard(signal);
      if (!signal.aborted) logger.warn(`${name} has ended; stopping`);
      stop.abort();
    } catch (error) {
      left--;
      if (signal.aborted) return;
      if (!(error instanceof RampartError) || left === 0) {
        fail(error);
        return;
      }
      logger.error({ err: error }, `${name} does not run, and what else guards goes on: ${error.message}`);
      parts.use(health?.ready(name.replaceAll(' ', '-'), () => error.message.split('\n')[0]));
    }
  };
  await Promise.all(Object.entries(guards).map(([name, guard]) => run(name, guard)));
  if (failures.length > 0) throw failures[0];
}
