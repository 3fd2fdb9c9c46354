/**
 * A finding in the form in which it is published: one changed file of a node, and who changed it, if known.
 *
 * The agent's JSON lines, the status of the node and PolicyReports use the same keys, which are stable.
 */
import type { ByteString } from './entry.ts';

/** The process that made a change, as it was at that moment. */
export interface ChangeAuthor {
  /** Path of its executable, as the process sees it. */
  readonly binary: string;
  /** argv[1..], joined by spaces. */
  readonly arguments: string;
  readonly cwd: string;
  readonly uid: number;
  readonly gid: number;
  /** In the initial PID namespace. */
  readonly pid: number;
  readonly ppid: number;
  /** The executable of the parent process; empty if the parent had ended. */
  readonly parentBinary: string;
  /** `host`: a process of the node itself; `unknown`: in a container that no runtime has reported. */
  readonly relation: 'host' | 'container' | 'unknown';
  /** Absent for `host`. For `unknown`: the id without the runtime's prefix, if the cgroup contains it, and an empty name. */
  readonly container?: { readonly id: string; readonly name: string };
  /** Only for `container`. */
  readonly pod?: { readonly namespace: string; readonly name: string };
  /** Only for `host`: the systemd unit, if there is one, such as `system.slice/cron.service`. */
  readonly unit?: string;
  /** Only for `host`: the process is in another mount namespace than the node's. */
  readonly mounts?: 'own';
}

export interface Finding {
  readonly path: string;
  readonly change: 'added' | 'removed' | 'changed';
  /** Names of the attributes that differ, as in AIDE's JSON report: `sha256`; empty for added and removed files. */
  readonly attributes: readonly string[];
  /** When the change was detected, in ms since 1970. */
  readonly seenMs: number;
  /** How it was detected: `event`, when it happened; `scan`, by a full scan. */
  readonly seenBy: 'event' | 'scan';
  /** Who changed the content, if it differs. Undefined if that was not seen. */
  readonly author?: ChangeAuthor;
  /** A later change that did not affect the content but, for example, the mode, the owner or the change time. */
  readonly last?: Sighting;
  /**
   * The package update that caused the finding: `openssl 3.0.15-1 -> 3.0.16-1`. Set only if the content matches the
   * package database and only the package manager has changed the file since the baseline.
   */
  readonly explained?: string;
}

/** When and how a change was detected, and who made it, if known. */
export type Sighting = Pick<Finding, 'seenMs' | 'seenBy' | 'author'>;

/** Time of the latest change. */
export function lastSeenMs({ seenMs, last }: Finding): number {
  return last?.seenMs ?? seenMs;
}

/**
 * Files that the last scan could not read completely, so that it is unknown whether they have changed. A node with such
 * files has not failed, since nothing was found, but it is not in order either.
 */
export interface Unread {
  readonly count: number;
  readonly files: readonly { readonly path: string; readonly reason: string }[];
}

/**
 * Large files, which are read after the scan. The last scan has no result for them: previous findings about them are
 * kept until they are read.
 */
export interface Reading {
  readonly count: number;
  readonly files: readonly string[];
}

/** How changes are detected on a node between its scans. */
export interface Detection {
  /** `sensor`: events with the process; `inotify`: events without the process; `none`: only scans. */
  readonly events: 'sensor' | 'inotify' | 'none';
  /** Why it is not `sensor`; empty if it is. */
  readonly reason: string;
  readonly watchedDirectories: number;
  /** Directories that only scans examine, e.g. because fs.inotify.max_user_watches is reached. */
  readonly unwatchedDirectories: number;
  /**
   * How often events were lost since the agent started, by the kernel or because there were too many at once; a full
   * scan follows each time.
   */
  readonly lostEvents: number;
  /** Number of lost records about authors since the agent started: the changes concerned have no author. */
  readonly lostAuthors: number;
  /** Number of watched directories for which the sensor has no room: changes in them have no author. */
  readonly directoriesWithoutAuthors: number;
  /** Why package updates are not recognized; absent if they are, or if nothing is watched. */
  readonly packagesReason?: string;
}

/** The detection while no files are watched. */
export const noDetection: Detection = {
  events: 'none',
  reason: 'nothing watches files between the scans',
  watchedDirectories: 0,
  unwatchedDirectories: 0,
  lostEvents: 0,
  lostAuthors: 0,
  directoriesWithoutAuthors: 0,
};

export interface FindingChange {
  /** `gone`: the file is as in the baseline again. */
  readonly state: 'found' | 'gone' | 'accepted';
  /** Including the prefix of the root. */
  readonly path: ByteString;
  readonly finding: Finding;
}
