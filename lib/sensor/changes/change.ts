/** The vocabulary of the change watch: what changed, and who did it. */
import { inotifyBits } from '../paths/inotify.ts';

/** A path or a name in the kernel's bytes: one character a byte (latin1), as in `paths/inotify.ts`. */
export type ByteString = string;

/**
 * Kinds of changes of a path:
 * - `created`, `deleted`, `moved-from`, `moved-to`: the name came or went, hard links included
 * - `attributes`: permissions, owner, times, extended attributes, number of links
 * - `modified`: the content
 * - `closed`: a descriptor that could write was closed
 * - `changed`: the inode changed in an unknown way; for a directory also: a name in it came or went
 */
const changeKinds = [
  'created',
  'deleted',
  'moved-from',
  'moved-to',
  'attributes',
  'modified',
  'closed',
  'changed',
] as const;
export type ChangeKind = (typeof changeKinds)[number];

/** One bit for each of {@link changeKinds}, in its order. */
export const kindBits = {
  created: 1,
  deleted: 2,
  movedFrom: 4,
  movedTo: 8,
  attributes: 16,
  modified: 32,
  closed: 64,
  changed: 128,
} as const;

/** The words for a set of {@link kindBits}. */
export function kindsOf(bits: number): readonly ChangeKind[] {
  return changeKinds.filter((_, index) => bits & (1 << index));
}

/** The kinds that an inotify mask stands for, as {@link kindBits}. */
export function kindsOfMask(mask: number): number {
  return (
    (mask & inotifyBits.CREATE && kindBits.created) |
    (mask & (inotifyBits.DELETE | inotifyBits.DELETE_SELF) && kindBits.deleted) |
    (mask & (inotifyBits.MOVED_FROM | inotifyBits.MOVE_SELF) && kindBits.movedFrom) |
    (mask & inotifyBits.MOVED_TO && kindBits.movedTo) |
    (mask & inotifyBits.ATTRIB && kindBits.attributes) |
    (mask & inotifyBits.MODIFY && kindBits.modified) |
    (mask & inotifyBits.CLOSE_WRITE && kindBits.closed)
  );
}

/** A process that made a change, as of that moment. All IDs are those of the initial namespaces. */
export interface ChangeProcess {
  /** Full path of the executable as the process sees it; empty for a kernel thread. */
  readonly executable: string;
  /** argv[1..], joined by one space. */
  readonly arguments: string;
  readonly cwd: string;
  readonly comm: string;
  readonly uid: number;
  readonly gid: number;
  readonly pid: number;
  readonly ppid: number;
  /** The executable of the parent, as the parent sees it; empty without a parent. */
  readonly parentExecutable: string;
  /** Inode number of the mount namespace. */
  readonly mountNamespace: number;
  /** Id of the cgroup in the v2 hierarchy. */
  readonly cgroupId: bigint;
  /** See `Access.cgroup`. */
  readonly cgroup: string;
  /** Whether it is this process itself. */
  readonly own: boolean;
}

/** All changes of one path since its last report. */
export interface Change {
  /** The path passed to `watchDirectory`, and the name in it: `/etc/passwd`. */
  readonly path: ByteString;
  /** All that happened since, in the order of {@link changeKinds}. */
  readonly kinds: readonly ChangeKind[];
  /** Wall clock, ms since 1970: the time of the last change if the sensor saw it, else the time of the report. */
  readonly atMs: number;
  /**
   * A new directory that is watched from here on. Earlier changes in it were not reported: everything below
   * has to be checked.
   */
  readonly below: boolean;
  /** Who made the last of these changes. Undefined if no record of it was seen. */
  readonly author?: ChangeProcess;
  /** Who made the last of them that is not known to have changed attributes alone; often the same. */
  readonly contentAuthor?: ChangeProcess;
  /** How many other processes changed the same path since its last report. */
  readonly others: number;
  /** The known ones of `others`; some may be missing. */
  readonly otherAuthors: readonly ChangeProcess[];
}

/** What is missing. */
export type ChangeLoss =
  /**
   * The kernel's queue was full, or more changes waited than are kept: any change may be missing. Reported
   * when all directories are watched again, so that a full scan that begins now misses nothing.
   */
  | { readonly what: 'changes' }
  /** Records of processes were lost: changes are reported without their author. */
  | { readonly what: 'authors'; readonly count: number };

/**
 * `watched`; `limit`: no watches left; `gone`: the directory does not exist; `refused`: the kernel refuses,
 * which is reported as a problem.
 */
export type WatchOutcome = 'watched' | 'limit' | 'gone' | 'refused';
