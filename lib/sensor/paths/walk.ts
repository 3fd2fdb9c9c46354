/** Walks a path as the kernel does, component by component, to find the directories that decide where it leads. */
import { constants as fsConstants, statfsSync } from 'node:fs';
import { constants } from 'node:os';

import { Fd, fileTypeOf, openFlags, readLink, SystemCallError, tryOpenat2 } from '../../ebpf/libc.ts';
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { fromByteString } from './inotify.ts';

/** MAXSYMLINKS of include/linux/namei.h: one more is ELOOP. */
const MAX_SYMLINKS = 40;
/** include/uapi/linux/magic.h */
const PROC_SUPER_MAGIC = 0x9fa0;
/** Components in one walk: forty links could name 80,000, each costing a watch and a descriptor. */
const MAX_COMPONENTS = 1024;

/**
 * Errors of openat2(2) that follow from the files on the way: they last until an event. Others (EMFILE, ENOMEM,
 * EIO, ESTALE, ...) come and go without an event, so the caller must try again by itself.
 */
const lastingErrors: ReadonlySet<number> = new Set([
  constants.errno.ENOENT,
  constants.errno.ENOTDIR,
  constants.errno.EISDIR,
  constants.errno.ELOOP,
  constants.errno.ENAMETOOLONG,
  constants.errno.EACCES,
  constants.errno.EPERM,
  constants.errno.ESRCH, // a process that is gone, from procfs
]);

/** Whether the resolution that failed with `number` would fail again until some file changes. */
export function isLasting(number: number): boolean {
  return lastingErrors.has(number);
}

/** Called with each directory and name before the name is looked up. */
export interface WalkVisitor<D> {
  /** Called when a directory is entered. Its result is given to {@link name}. */
  directory(directory: Fd, shown: string): D;
  /** A name is about to be looked up in a directory. */
  name(directory: D, name: string): void;
}

export interface WalkEnd<D> {
  /** The directory in which the walk ended; undefined if the path is not a directory. */
  readonly directory: D | undefined;
  /** The path of that directory, or of the component that is not a directory or does not exist. */
  readonly shown: string;
  /** Whether {@link shown} does not exist. */
  readonly absent: boolean;
  /** Whether {@link shown} is a link of procfs that leads each process to its own directory: the walk ends there. */
  readonly ownOfEach?: true;
}

interface Level<D> {
  readonly fd: Fd | undefined;
  readonly shown: string;
  readonly visited: D;
}

/**
 * Follows `path` (a byte string, see inotify.ts) from `root` until it ends or can't go on: symbolic
 * links in the middle and at the end are followed, absolute ones from `root` again, `..` stops at
 * `root`. Every component is opened alone, by its name in the directory opened before, without
 * following links: nothing outside `root` can be reached, whatever is renamed meanwhile.
 *
 * A directory is shown to the visitor before a name in it is looked up. With a watch placed there
 * and then, a change after the lookup is an event, so one walk is enough; walking again until no
 * watch is new would find nothing more.
 *
 * @param root - A directory; the caller keeps it.
 * @throws {RampartError} `LIMIT` for a path of more than 1,024 components, links included.
 * @throws {SystemCallError} `SYSTEM` for an error that is not lasting, see {@link isLasting}.
 */
export function walk<D>(root: Fd, path: string, visitor: WalkVisitor<D>): WalkEnd<D> {
  const stack: Level<D>[] = [{ fd: undefined, shown: '', visited: visitor.directory(root, '/') }];
  const pop = (): void => stack.pop()?.fd?.[Symbol.dispose]();
  const pending = path.split('/').reverse();
  let symlinks = 0;
  let components = 0;
  try {
    for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
      if (name === '' || name === '.') continue;
      components += 1;
      if (components > MAX_COMPONENTS) {
        throw new RampartError(errorCodes.LIMIT, {
          what: `cannot follow ${fromByteString(path)}`,
          why: `including symbolic links it has more than ${MAX_COMPONENTS} components`,
        });
      }
      if (name === '..') {
        if (stack.length > 1) pop();
        continue;
      }
      const here = stack.at(-1)!;
      const shown = `${here.shown}/${fromByteString(name)}`;
      visitor.name(here.visited, name);
      const number = tryOpenat2(here.fd ?? root, Buffer.from(`${name}\0`, 'latin1'), {
        flags: openFlags.PATH | openFlags.NOFOLLOW,
      });
      if (number < 0) {
        if (!isLasting(-number)) throw new SystemCallError(`cannot inspect ${shown}`, -number);
        return { directory: undefined, shown, absent: number === -constants.errno.ENOENT };
      }
      const fd = new Fd(number);
      let kept = false;
      try {
        const type = fileTypeOf(number);
        if (type === fsConstants.S_IFLNK) {
          if (isOwnOfEach(name, number)) {
            return { directory: undefined, shown, absent: false, ownOfEach: true };
          }
          symlinks += 1;
          if (symlinks > MAX_SYMLINKS) return { directory: undefined, shown, absent: false };
          const target = readLink(fd).toString('latin1');
          pending.push(...target.split('/').reverse());
          if (target.startsWith('/')) while (stack.length > 1) pop();
        } else if (type === fsConstants.S_IFDIR) {
          const visited = visitor.directory(fd, shown);
          stack.push({ fd, shown, visited });
          kept = true;
        } else {
          return { directory: undefined, shown, absent: false };
        }
      } finally {
        if (!kept) fd[Symbol.dispose]();
      }
    }
    const end = stack.at(-1)!;
    return { directory: end.visited, shown: end.shown === '' ? '/' : end.shown, absent: false };
  } finally {
    while (stack.length > 1) pop();
  }
}

/**
 * Whether a name is procfs' `self` or `thread-self`. Followed here, it would lead to this process, or be dangling in a procfs
 * of another PID namespace (fs/proc/self.c).
 */
function isOwnOfEach(name: string, fd: number): boolean {
  return (
    (name === 'self' || name === 'thread-self') && statfsSync(`/proc/self/fd/${fd}`).type === PROC_SUPER_MAGIC
  );
}
