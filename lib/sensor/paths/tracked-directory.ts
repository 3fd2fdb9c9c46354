/** A directory tracker's knowledge of one directory. */
import { resolve } from 'node:path';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { DirectoryState, TrackedDirectory, TrackedDirectoryOptions } from './directory-state.ts';
import type { DirectoryFile, DirectoryNode, DirectoryTree } from './directory-tree.ts';
import type { PathState } from './path-state.ts';

export class Tracked implements TrackedDirectory {
  readonly options: TrackedDirectoryOptions;
  readonly root: string;
  readonly tree: DirectoryTree;
  readonly #end: (tracked: Tracked) => void;
  /** Where its path leads. */
  base: PathState | undefined;
  state: DirectoryState = { kind: 'absent', missing: '' };
  /** Number of directories that were not read yet. */
  unread = 0;

  constructor(options: TrackedDirectoryOptions, tree: DirectoryTree, end: (tracked: Tracked) => void) {
    this.options = options;
    this.root = resolve(options.root);
    this.tree = tree;
    this.#end = end;
  }

  files(): Iterable<DirectoryFile> {
    return this.tree.files.values();
  }

  directories(): Iterable<DirectoryNode> {
    return this.tree.nodes();
  }

  [Symbol.dispose](): void {
    this.#end(this);
  }

  /** The state to report; undefined before its path was resolved. */
  get now(): DirectoryState | undefined {
    const { base, tree, unread } = this;
    if (base?.kind !== 'file') return base;
    const { top, unwatched } = tree;
    return {
      kind: 'directory',
      identity: base.identity,
      isComplete: unread === 0,
      unwatched: top === undefined ? { files: 0, directories: 1 } : unwatched,
    };
  }
}

/** The state of the path of a directory in which there are no files, see isOfKernel. */
export function ofKernel(path: string): PathState {
  const error = new RampartError(errorCodes.INPUT, {
    what: `cannot follow the files in ${path}`,
    why: 'the kernel makes them up as they are read',
    next: 'Name a single file',
  });
  return { kind: 'unusable', error };
}
