/**
 * Starts watching the files of a job. This module is small because every agent loads it: the rest is loaded with the
 * first job.
 */
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { noDetection } from '../model/finding.ts';
import type { FollowJob, Followed } from './live-engine.ts';
import type { LiveOptions } from './options.ts';
import { messageOf } from '../../../lib/errors/errors.ts';
import type { LiveJob, StartLive } from './live-job.ts';

/** Delay before another attempt to start watching. */
const retryMs = 60_000;

/**
 * Starts the watches of a node's jobs; jobs with the same root share one. With `options.signal`, a watch continues for
 * a while after its job has ended, so that nothing is missed until the job with the next baseline starts. The caller
 * aborts the signal at the end.
 */
export function liveOf(options: LiveOptions = {}): StartLive {
  let engine: Promise<FollowJob> | undefined;
  const loaded = (): Promise<FollowJob> =>
    (engine ??= import('./live-engine.ts').then((module) => module.liveEngine(options)));
  return (job) => {
    const stop = new AbortController();
    const following = follow(job, loaded, stop.signal);
    return {
      [Symbol.asyncDispose]: async () => {
        stop.abort();
        await (await following)?.[Symbol.asyncDispose]();
      },
    };
  };
}

/** Does not throw: without watches, the job still has its scans. */
async function follow(
  job: LiveJob,
  loaded: () => Promise<FollowJob>,
  signal: AbortSignal,
): Promise<Followed | undefined> {
  while (!signal.aborted) {
    try {
      return (await loaded())(job, signal);
    } catch (err) {
      if (signal.aborted) return undefined;
      job.logger.error({ err }, 'changes are found by scans only; retrying in a minute');
      job.notify({ ...noDetection, reason: messageOf(err) });
    }
    await sleep(systemClock, retryMs, signal).catch(() => undefined);
  }
  return undefined;
}
