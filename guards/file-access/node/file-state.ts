/** The result of a request for a file in a container. */
import { constants as fsConstants } from 'node:fs';

import type { FileIdentity } from '../../../lib/sensor/access.ts';
import type { DirectoryFiles } from '../../../lib/sensor/paths/directory-state.ts';
import type { PathState } from '../../../lib/sensor/paths/path-state.ts';
import { sameFiles } from './moved-files.ts';

/** `moved`: files that the path led to before and that still exist, see MovedFiles. */
export type FileState = Seen & { readonly moved?: readonly FileIdentity[] };

/** Where the path leads. */
export type Seen =
  | {
      readonly kind: 'watched';
      /** Identity of the file, or of the directory if `directory` is set. */
      readonly identity: FileIdentity;
      /** The files of the directory, if the path selects these. */
      readonly directory?: DirectoryFiles;
      /** Describes the part of the directory that is not watched; absent if all of it is. */
      readonly partly?: string;
    }
  /** The file does not exist (yet), or could not be created. */
  | { readonly kind: 'waiting'; readonly why: string }
  /** The path leads to something that is not watched (a directory, a FIFO), or cannot be reached, or the container is gone. */
  | { readonly kind: 'refused'; readonly why: string };

const none: readonly FileIdentity[] = [];

/** The state before the first examination, which is not reported. */
export const unseen: FileState = { kind: 'waiting', why: 'it has not been examined yet' };

/** The state for a path that leads to a file. */
export function seenOf({ identity, type }: Extract<PathState, { kind: 'file' }>): Seen {
  if (type === fsConstants.S_IFIFO) return { kind: 'refused', why: 'it is a FIFO' };
  if (type === fsConstants.S_IFSOCK) return { kind: 'refused', why: 'it is a socket' };
  return { kind: 'watched', identity };
}

export function withMoved(seen: Seen, moved: readonly FileIdentity[] = none): FileState {
  if (moved.length === 0) return seen;
  return seen.kind === 'watched' ? { ...seen, moved } : { ...seen, why: andMoved(seen.why, moved), moved };
}

/** Adds to `why`, which explains why the path has no file, how many moved files are still watched. */
function andMoved(why: string, moved: readonly FileIdentity[]): string {
  if (moved.length === 0) return why;
  return moved.length === 1
    ? `${why}; the previous file was moved and is still watched`
    : `${why}; ${moved.length} previous files were moved and are still watched`;
}

/** What a KiveData says about its file. */
interface WatchedFile {
  readonly identity: FileIdentity;
  readonly moved: readonly FileIdentity[];
  readonly directory?: DirectoryFiles;
}

/**
 * The file of a KiveData and its moved files. If the path has no file, the first moved file takes its place; undefined
 * without moved files.
 */
export function watchedFile(state: FileState): WatchedFile | undefined {
  const { moved = none } = state;
  if (state.kind !== 'watched') return moved[0] && { identity: moved[0], moved };
  const { identity, directory } = state;
  return { identity, moved, ...(directory && { directory }) };
}

export function sameState(a: FileState, b: FileState): boolean {
  if (!sameFiles(a.moved ?? none, b.moved ?? none)) return false;
  if (a.kind !== 'watched' || b.kind !== 'watched')
    return a.kind === b.kind && 'why' in a && 'why' in b && a.why === b.why;
  if (a.directory !== b.directory || a.partly !== b.partly) return false;
  const { identity: x } = a;
  const { identity: y } = b;
  return x.inode === y.inode && x.device === y.device && x.generation === y.generation;
}
