import type { ChangeWatchOptions } from '../../../lib/sensor/changes/options.ts';

export interface LiveOptions {
  /** Mode of the sensor. Default `auto`; `inotify` reports no authors. */
  readonly mode?: ChangeWatchOptions['mode'];
  /** Most directories of a root. Default: half of fs.inotify.max_user_watches. */
  readonly maxDirectories?: number;
  readonly signal?: AbortSignal;
  /** Changed paths of a job that may wait; with more it is scanned. Default {@link maxQueuedPaths}. */
  readonly maxQueued?: number;
}

export const maxQueuedPaths = 10_000;
