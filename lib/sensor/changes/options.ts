import type { ByteString, Change, ChangeLoss } from './change.ts';
import type { ChangeSensorMode, ChangeSensorStats } from './change-sensor.ts';

export const defaultSettleMs = 50;
export const defaultPaceMs = 500;

export interface ChangeWatchOptions {
  /** All paths, and the symbolic links on the way, are resolved below it. It is held open. Default `/`. */
  readonly root?: string;
  /**
   * `auto`, the default: the sensor in the best mode that the kernel accepts, else `inotify`, which reports
   * no authors.
   */
  readonly mode?: ChangeSensorMode | 'auto' | 'inotify';
  /** Whether to watch a directory that appears in a watched one; then called for those in it, too. Default: none is watched. */
  readonly wants?: (path: ByteString) => boolean;
  /** Called for one path, some time after it changed. Its errors go to `onProblem`. */
  readonly onChange: (change: Change) => void;
  /** Called after each batch of changes. */
  readonly onBatchEnd?: () => void;
  readonly onLost: (loss: ChangeLoss) => void;
  readonly onProblem: (problem: unknown) => void;
  /** Time from the first change of a path until its report; default {@link defaultSettleMs}. */
  readonly settleMs?: number;
  /** Least time between two reports of the same path; default {@link defaultPaceMs}. */
  readonly paceMs?: number;
  /** Limit of directories; default half of fs.inotify.max_user_watches. */
  readonly maxDirectories?: number | undefined;
}

/** Counts since the watch was opened, and its current state. */
export interface ChangeWatchStats {
  readonly directories: number;
  /** Directories that should be watched, but for which no watch was left. */
  readonly unwatchedDirectories: number;
  /** Watched directories beyond the capacity of the sensor; their changes have no author. */
  readonly directoriesWithoutAuthors: number;
  /** Events of inotify. */
  readonly events: number;
  /** How often the kernel dropped events; each time was reported as a loss. */
  readonly overflows: number;
  readonly reported: number;
  /** How many of the reported changes this process made itself. */
  readonly own: number;
  /** Entries kept in memory: paths, and who changed them. 0 some seconds after the last change. */
  readonly kept: number;
  /** Undefined in mode `inotify`. */
  readonly sensor: ChangeSensorStats | undefined;
}
