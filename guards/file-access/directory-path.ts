/** Paths of traps that are for the files of a directory. */

export interface DirectoryPath {
  /** Of the directory. */
  readonly path: string;
  /** Whether it is for all files below it, or only for those in it. */
  readonly recursive: boolean;
}

/** What a path that ends in `/*` or `/**` is for; undefined for the path of a file, and with a `*` anywhere else. */
export function directoryOf(path: string): DirectoryPath | undefined {
  const [, directory, stars] = /^([^*]*)\/(\*\*?)$/.exec(path) ?? [];
  return stars === undefined ? undefined : { path: directory || '/', recursive: stars === '**' };
}
