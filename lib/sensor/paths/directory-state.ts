/** The requests to a directory tracker, and the states of a tracked directory. */
import type { RampartError } from '../../errors/errors.ts';
import { type FileIdentity, sameFile } from '../access.ts';
import type { DirectoryChanges, DirectoryFile, DirectoryNode, Unwatched } from './directory-tree.ts';
import type { Identify, PathState, TrackedPath } from './path-state.ts';

/** Default limit of files of one directory. */
export const MAX_FILES = 65_536;

export type DirectoryState = Exclude<PathState, { kind: 'file' }> | WatchedDirectoryState;

interface WatchedDirectoryState {
  readonly kind: 'directory';
  readonly identity: FileIdentity;
  /** Whether each directory has been read. */
  readonly isComplete: boolean;
  readonly unwatched: Unwatched;
}

export interface TrackedDirectoryOptions extends TrackedPath {
  /** Whether the directories in it are followed as well. */
  readonly recursive: boolean;
  /** Default: {@link MAX_FILES}. */
  readonly maxFiles?: number;
  /** Called with what was added and removed. Watch added files before you drop removed ones: a file may be in both. Must not throw. */
  readonly onFiles: (changes: DirectoryChanges) => void;
  /** Called when the state has changed; if only counts have, at most every 10 s. Must not throw. */
  readonly onState: (state: DirectoryState) => void;
}

export interface DirectoryTrackerOptions {
  /** See PathTrackerOptions. */
  readonly identify: Identify;
  /** See PathTrackerOptions; also reports directories without a watch, once until there is one. */
  readonly onProblem: (problem: RampartError) => void;
  /** Limit of directories, over all that are tracked. Default: a quarter of fs.inotify.max_user_watches. */
  readonly maxDirectories?: number;
}

/** A directory that is followed until it is disposed. */
export interface TrackedDirectory extends Disposable {
  readonly state: DirectoryState;
  /** The current files, as far as they were reported. */
  files(): Iterable<DirectoryFile>;
  /** The current directories, itself the first, as far as they were reported. */
  directories(): Iterable<DirectoryNode>;
}

/** The changing set of files of a directory. */
export interface DirectoryFiles {
  /** The files that exist now. */
  files(): Iterable<DirectoryFile>;
  /** The directories in which files may appear. */
  directories(): Iterable<DirectoryNode>;
  /** Gets all changes from now on, until it is disposed. */
  subscribe(listener: (changes: DirectoryChanges) => void): Disposable;
}

export function sameDirectoryState(a: DirectoryState, b: DirectoryState): boolean {
  if (a.kind === 'absent' && b.kind === 'absent') return a.missing === b.missing;
  if (a.kind === 'unusable' && b.kind === 'unusable') return a.error.message === b.error.message;
  if (a.kind !== 'directory' || b.kind !== 'directory') return false;
  const [before, now] = [a.unwatched, b.unwatched];
  return sameButCounts(a, b) && before.files === now.files && before.directories === now.directories;
}

/** Whether two states differ at most in how much is not watched, and something is not watched in both. */
export function onlyCountsDiffer(a: DirectoryState, b: DirectoryState): boolean {
  if (a.kind !== 'directory' || b.kind !== 'directory' || !sameButCounts(a, b)) return false;
  return [a, b].every(({ unwatched: { files, directories } }) => files + directories > 0);
}

function sameButCounts(a: WatchedDirectoryState, b: WatchedDirectoryState): boolean {
  return a.isComplete === b.isComplete && sameFile(a.identity, b.identity);
}
