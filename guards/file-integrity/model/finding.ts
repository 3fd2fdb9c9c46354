/**
 * A finding as people and machines get it: one changed file of a node, and who changed it if known.
 *
 * The same in the agent's lines of JSON, in the status of the node and in PolicyReports. Keys are stable.
 */
import type { ByteString } from './entry.ts';

/** The process that made a change, as of that moment. */
export interface ChangeAuthor {
  /** The full path of its executable, as it sees it. */
  readonly binary: string;
  /** argv[1..], joined by one space. */
  readonly arguments: string;
  readonly cwd: string;
  readonly uid: number;
  readonly gid: number;
  /** In the first pid namespace. */
  readonly pid: number;
  readonly ppid: number;
  /** The executable of the parent; empty if it was gone. */
  readonly parentBinary: string;
  /** `host`: a process of the node itself; `unknown`: a container that no runtime has reported. */
  readonly relation: 'host' | 'container' | 'unknown';
  /** Absent for `host`. For `unknown`: the id without the runtime, if the cgroup has it, and an empty name. */
  readonly container?: { readonly id: string; readonly name: string };
  /** Only for `container`. */
  readonly pod?: { readonly namespace: string; readonly name: string };
  /** Only for `host`: the systemd unit, if there is one: `system.slice/cron.service`. */
  readonly unit?: string;
  /** Only for `host`: the process is in another mount namespace than the node. */
  readonly mounts?: 'own';
}

export interface Finding {
  readonly path: string;
  readonly change: 'added' | 'removed' | 'changed';
  /** The names of the attributes that differ, as in AIDE's JSON report: `sha256`; empty for added and removed. */
  readonly attributes: readonly string[];
  /** When it was seen, ms since 1970: at once, or by the scan. */
  readonly seenMs: number;
  /** `event`: known when it happened; `scan`: found by a full scan. */
  readonly seenBy: 'event' | 'scan';
  /** Who changed the content, if it differs. Undefined if it was not seen. */
  readonly author?: ChangeAuthor;
  /** A later change of what is not its content: the mode, the owner, the change time. */
  readonly last?: Sighting;
  /**
   * The package update that it comes from: `openssl 3.0.15-1 -> 3.0.16-1`. Its content matches the package
   * database, and only the package manager has changed the file since the baseline.
   */
  readonly explained?: string;
}

/** When a change was seen, how, and who made it if known. */
export type Sighting = Pick<Finding, 'seenMs' | 'seenBy' | 'author'>;

/** Time of the latest change. */
export function lastSeenMs({ seenMs, last }: Finding): number {
  return last?.seenMs ?? seenMs;
}

/**
 * Files that the last scan could not read, or not wholly: it is unknown whether they have changed. A node with such
 * files has not failed, since nothing was found, but it is not in order either.
 */
export interface Unread {
  readonly count: number;
  readonly files: readonly { readonly path: string; readonly reason: string }[];
}

/** Large files of which the last scan says nothing: they are read after it, and what was known of them before stays until then. */
export interface Reading {
  readonly count: number;
  readonly files: readonly string[];
}

/** How a node learns of changes between its scans. */
export interface Detection {
  /** `sensor`: events with their process; `inotify`: events without; `none`: scans alone. */
  readonly events: 'sensor' | 'inotify' | 'none';
  /** Why it is not `sensor`; empty if it is. */
  readonly reason: string;
  readonly watchedDirectories: number;
  /** Directories that scans alone look at, e.g. because fs.inotify.max_user_watches is reached. */
  readonly unwatchedDirectories: number;
  /** How often events were lost since the agent began, by the kernel or in a storm of too many; a full scan follows each time. */
  readonly lostEvents: number;
  /** Records of who made changes that were lost since the agent began: these changes have no author. */
  readonly lostAuthors: number;
  /** Watched directories beyond those that the sensor has room for: changes in them have no author. */
  readonly directoriesWithoutAuthors: number;
  /** Why updates of packages are not recognized; absent if they are, and if nothing watches. */
  readonly packagesReason?: string;
}

/** The detection while nothing watches. */
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
  /** `gone`: it is again as in the baseline. */
  readonly state: 'found' | 'gone' | 'accepted';
  /** With the prefix of the root. */
  readonly path: ByteString;
  readonly finding: Finding;
}
