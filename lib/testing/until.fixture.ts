/** Waiting for what has to come. */
import { setTimeout as delay } from 'node:timers/promises';

import { inGuest } from './depth.fixture.ts';

/** Longer than anything takes on a machine with other work, or in a kernel under emulation, where everything takes ten times as long. */
const PATIENCE_MS = inGuest ? 600_000 : 90_000;
/**
 * At first often, for what takes a moment; then the more seldom the longer it takes. Each question costs the machine some
 * milliseconds, mostly of the process that is waited for; one that starts a process costs more, and is asked half of the time
 * at most.
 */
const SHORTEST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 300;
const PAUSE_OF_WAITED = 0.1;

/** For one wait that takes a signal: it aborts when what is waited for does not come. */
export const patience = (): AbortSignal => AbortSignal.timeout(PATIENCE_MS);

type Ask<T> = () => T | Promise<T>;
type Answer<T> = NonNullable<Exclude<T, false | ''>>;

/**
 * Asks until the answer is something: not false, empty, null or undefined. Where it throws, it is asked again.
 *
 * @param what - Told when it does not come. Without it the text of the question is.
 * @throws {Error} that it was waited for in vain, with the last error as its cause.
 */
export async function until<T>(ask: Ask<T>): Promise<Answer<T>>;
export async function until<T>(what: string, ask: Ask<T>, patienceMs?: number): Promise<Answer<T>>;
export async function until<T>(
  first: string | Ask<T>,
  second?: Ask<T>,
  patienceMs = PATIENCE_MS,
): Promise<Answer<T>> {
  const ask = typeof first === 'string' ? second : first;
  if (ask === undefined) throw new TypeError(`nothing is asked for ${String(first)}`);
  const beginMs = performance.now();
  for (let last: unknown; ;) {
    const askedMs = performance.now();
    try {
      const answer = await ask();
      if (answer !== false && answer !== '' && answer !== undefined && answer !== null)
        return answer as Answer<T>;
      last = undefined;
    } catch (error) {
      last = error;
    }
    const nowMs = performance.now();
    const waitedMs = nowMs - beginMs;
    if (waitedMs > patienceMs) throw new Error(`waited in vain for ${String(first)}`, { cause: last });
    const pauseMs = Math.max(SHORTEST_PAUSE_MS, waitedMs * PAUSE_OF_WAITED, nowMs - askedMs);
    await delay(Math.min(LONGEST_PAUSE_MS, pauseMs));
  }
}
