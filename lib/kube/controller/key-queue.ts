/** The queue that a controller of objects works on. */
import type { Clock } from '../../time/clock.ts';
import { WorkQueue } from './workqueue.ts';

/** After an outage a key waits no longer than reflectors do (30 s), and hardly for the retries of others. The caller disposes it. */
export function keyQueue(clock?: Clock): WorkQueue {
  return new WorkQueue({
    clock,
    backoff: { baseMs: 5, maxMs: 30_000 },
    retryLimit: { perSecond: 100, burst: 200 },
  });
}
