import type { ChangeWatchOptions } from '../../../lib/sensor/changes/options.ts';

export interface LiveOptions {
  /** Mode of the sensor. Default: `auto`. With `inotify`, changes have no authors. */
  readonly mode?: ChangeWatchOptions['mode'];
  /** Limit of watched directories of a root. Default: half of fs.inotify.max_user_watches. */
  readonly maxDirectories?: number;
  readonly signal?: AbortSignal;
  /** Limit of a job's queued paths; if there are more, it is scanned. Default: {@link maxQueuedPaths}. */
  readonly maxQueued?: number;
}

export const maxQueuedPaths = 10_000;
