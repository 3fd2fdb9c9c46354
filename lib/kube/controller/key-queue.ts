/** The queue that a controller of objects works on. */
import type { Clock } from '../../time/clock.ts';
import { WorkQueue } from './workqueue.ts';

/** The limits let keys recover from an outage as soon as reflectors do (30 s), many at the same time. The caller disposes the queue. */
export function keyQueue(clock?: Clock): WorkQueue {
  return new WorkQueue({
    clock,
    backoff: { baseMs: 5, maxMs: 30_000 },
    retryLimit: { perSecond: 100, burst: 200 },
  });
}
