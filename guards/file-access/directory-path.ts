/** Trap paths that select the files of a directory. */

export interface DirectoryPath {
  /** Path of the directory. */
  readonly path: string;
  /** Whether all files below the directory are selected, or only those directly in it. */
  readonly recursive: boolean;
}

/**
 * The files that a path ending in `/*` or `/**` selects; undefined for the path of a single file, or with a `*`
 * anywhere else.
 */
export function directoryOf(path: string): DirectoryPath | undefined {
  const [, directory, stars] = /^([^*]*)\/(\*\*?)$/.exec(path) ?? [];
  return stars === undefined ? undefined : { path: directory || '/', recursive: stars === '**' };
}
