/** Paths of traps that are for the files of a directory. */

export interface DirectoryPath {
  /** Path of the directory. */
  readonly path: string;
  /** Whether it is for all files below it, or only for those in it. */
  readonly recursive: boolean;
}

/**
 * The files that a path ending in `/*` or `/**` covers; undefined for the path of a file, and with a `*`
 * anywhere else.
 */
export function directoryOf(path: string): DirectoryPath | undefined {
  const [, directory, stars] = /^([^*]*)\/(\*\*?)$/.exec(path) ?? [];
  return stars === undefined ? undefined : { path: directory || '/', recursive: stars === '**' };
}
