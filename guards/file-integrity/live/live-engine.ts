import type { ContainerSource } from '../../../lib/cri/container-source.ts';
import { NodeWatch } from './node-watch.ts';
import type { LiveOptions } from './options.ts';
import type { LiveJob } from './live-job.ts';

/** Dispose it when the job ends or its baseline is replaced. */
export type Followed = AsyncDisposable;

/**
 * Follows a job until the result is disposed.
 *
 * @returns undefined if the signal is aborted
 * @throws RampartError as `new ChangeWatch`; the error of Selection if the rules are too large
 */
export type FollowJob = (job: LiveJob, signal: AbortSignal) => Followed | undefined;

export function liveEngine(options: LiveOptions): FollowJob {
  const watches = new Map<string, { readonly containers: ContainerSource; readonly watch: NodeWatch }>();

  function watchOf({ root: { directory }, containers }: LiveJob): NodeWatch {
    const known = watches.get(directory);
    if (known?.containers === containers) return known.watch;
    const watch = new NodeWatch(directory, containers, options, () => {
      if (watches.get(directory)?.watch === watch) watches.delete(directory);
    });
    watches.set(directory, { containers, watch });
    return watch;
  }

  function close(): void {
    for (const { watch } of [...watches.values()]) watch[Symbol.dispose]();
  }

  options.signal?.addEventListener('abort', close, { once: true });
  return (job, signal) => {
    if (signal.aborted || options.signal?.aborted === true) return undefined;
    return watchOf(job).follow(job);
  };
}
