/** The queue that a controller of objects works on. */
import { WorkQueue } from './workqueue.ts';

/**
 * A queue of keys. After an outage of the API nothing waits longer than the reflectors do, and of hundreds of keys none
 * waits for the others. The caller disposes it.
 */
export function keyQueue(): WorkQueue {
  return new WorkQueue({
    backoff: { baseMs: 5, maxMs: 30_000 },
    retryLimit: { perSecond: 100, burst: 200 },
  });
}
