/** Where a tracked path leads at one moment, and the interface between the tracker and its user. */
import { constants as fsConstants } from 'node:fs';
import { constants } from 'node:os';

import { SystemCallError } from '../../ebpf/libc.ts';
import { type ErrorCode, errorCodes, messageOf, RampartError } from '../../errors/errors.ts';
import { type FileIdentity, sameFile } from '../access.ts';

/** A path and the directory that is its `/`. */
export interface TrackedPath {
  /** The path as a process under `root` would write it; a relative one starts at `root` too. */
  readonly path: string;
  /** A directory of this machine; `/proc/PID/root` for a container's. */
  readonly root: string;
}

/** The type bits of a file's mode: S_IFREG, S_IFSOCK, ... */
export type FileType = number;

/** Where a path leads. Anything but a directory is a `file`: also a socket, a pipe or a device. */
export type PathState =
  | { readonly kind: 'file'; readonly identity: FileIdentity; readonly type: FileType }
  /** `missing` is the first path on the way, links resolved, that does not exist. */
  | { readonly kind: 'absent'; readonly missing: string }
  /** A directory, ELOOP, ENOTDIR, EACCES, a root that cannot be opened, ... */
  | { readonly kind: 'unusable'; readonly error: RampartError };

/** Reads the identity of the file behind an O_PATH descriptor. */
export type Identify = (fd: number, type: FileType) => FileIdentity;

export interface PathTrackerOptions {
  readonly paths?: Iterable<TrackedPath>;
  /** Gets an O_PATH descriptor that it must not keep. If it throws, the path is `unusable` until a retry. */
  readonly identify: Identify;
  /**
   * Called with the first state of a path (`before` is undefined), before `add` returns, and then
   * each time the state changes. It may call the tracker; it must not throw.
   */
  readonly onChange: (path: TrackedPath, now: PathState, before: PathState | undefined) => void;
  /**
   * Called when paths can't be followed by events: no watch left (`LIMIT`, naming the sysctl), or
   * another failure. They stay tracked by retries, the slowest every 30 s. One call per kind of
   * problem until all is well again.
   */
  readonly onProblem: (problem: RampartError) => void;
  /** Follow directories instead: they are the `file` of a state then, and a file is `unusable`. */
  readonly directories?: boolean;
  /** Called with a root, as it was given, when mounts below it have changed. Paths are reported as always. */
  readonly onMounts?: (root: string) => void;
  /** Disposes the tracker. */
  readonly signal?: AbortSignal;
}

export interface PathTrackerStats {
  readonly paths: number;
  readonly watches: number;
  readonly events: number;
  /** Times the kernel's event queue was full; every path was resolved again after each. */
  readonly overflows: number;
  readonly resolutions: number;
  /** Paths and parents that are retried because events for them are unavailable now. */
  readonly retrying: number;
}

/** Whether two states are equal; errors are compared by their message. */
export function samePathState(a: PathState, b: PathState): boolean {
  if (a.kind === 'file' && b.kind === 'file') return sameFile(a.identity, b.identity);
  if (a.kind === 'absent' && b.kind === 'absent') return a.missing === b.missing;
  return a.kind === 'unusable' && b.kind === 'unusable' && a.error.message === b.error.message;
}

/** A state, and whether it may change without an event, so that the path has to be tried again. */
export interface Reading {
  readonly state: PathState;
  readonly transient: boolean;
}

/** The state of a path that led to `fd` of the given type; the caller keeps `fd`. */
export function readFile(
  path: TrackedPath,
  fd: number,
  type: FileType,
  { identify, directories }: Pick<PathTrackerOptions, 'identify' | 'directories'>,
): Reading {
  const isDirectory = type === fsConstants.S_IFDIR;
  if (isDirectory !== (directories === true))
    return readErrno(path, isDirectory ? constants.errno.EISDIR : constants.errno.ENOTDIR, '', false);
  try {
    return { state: { kind: 'file', identity: identify(fd, type), type }, transient: false };
  } catch (cause) {
    const error =
      cause instanceof RampartError
        ? cause
        : new RampartError(errorCodes.SYSTEM, {
            what: `cannot identify ${path.path}`,
            why: messageOf(cause),
            cause,
          });
    return { state: { kind: 'unusable', error }, transient: true };
  }
}

/** The state of a path whose resolution failed with `number`; `missing` is for ENOENT. */
export function readErrno(path: TrackedPath, number: number, missing: string, transient: boolean): Reading {
  if (number === constants.errno.ENOENT) return { state: { kind: 'absent', missing }, transient };
  const where = path.root === '/' ? path.path : `${path.path} under ${path.root}`;
  return {
    state: {
      kind: 'unusable',
      error: new SystemCallError(`cannot follow ${where}`, number, advice.get(number)),
    },
    transient,
  };
}

/** The state of a path that leads through `link`, a link of procfs that leads each process to its own directory. */
export function readOwnOfEach(path: TrackedPath, link: string): Reading {
  const error = new RampartError(errorCodes.INPUT, {
    what: `cannot follow ${path.path}`,
    why: `${link} is another directory for each process that opens it: its own`,
    next: 'Name a file that is the same for all processes',
  });
  return { state: { kind: 'unusable', error }, transient: false };
}

/** Why a path is not tracked at all. */
export function cannotTrack({ path, root }: TrackedPath, code: ErrorCode, why: string): RampartError {
  return new RampartError(code, {
    what: `cannot track ${JSON.stringify(path)} under ${JSON.stringify(root)}`,
    why,
  });
}

/** What to add for an errno whose own text does not explain the problem. */
const advice: ReadonlyMap<number, string> = new Map([
  [
    constants.errno.ELOOP,
    'Circular links are not followed, nor are the links of procfs to the files of a process (/proc/PID/root)',
  ],
  [constants.errno.EISDIR, 'Name a file in it'],
]);
