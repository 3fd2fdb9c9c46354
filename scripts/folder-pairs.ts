/** Folders beside each other that import each other: neither can be read before the other. */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const imported = /(?:from|import\()\s*'(\.[^']+)'/g;

/** Two imports, each of which is against the other. */
export interface FolderPair {
  /** By their paths from the top of the repository; the lesser first. */
  readonly folders: readonly [string, string];
  /** `from -> to`, one in each direction. */
  readonly imports: readonly [string, string];
}

/**
 * Types count too. Tests and fixtures do not: they may import from where they like.
 *
 * @param top - The checkout.
 */
export function foldersThatImportEachOther(top: string): FolderPair[] {
  const files = globSync('{apps,guards,guard,lib}/**/*.ts', { cwd: top }).filter(
    (path) => !/\.(?:test|fixture)\.ts$/.test(path),
  );
  const found = new Map<string, string>();
  for (const file of files.toSorted()) {
    for (const [, specifier = ''] of readFileSync(join(top, file), 'utf8').matchAll(imported)) {
      const to = join(dirname(file), specifier);
      const [own, other] = whereTheyPart(file, to);
      if (own !== undefined && other !== undefined) found.set(`${own}\0${other}`, `${file} -> ${to}`);
    }
  }
  return [...found].flatMap(([key, there]): FolderPair[] => {
    const [one = '', other = ''] = key.split('\0');
    const back = found.get(`${other}\0${one}`);
    return back === undefined || one > other ? [] : [{ folders: [one, other], imports: [there, back] }];
  });
}

/**
 * The folders of both files just below their common part; undefined if one is in a folder above the other.
 */
function whereTheyPart(one: string, other: string): [string | undefined, string | undefined] {
  const [ours, theirs] = [dirname(one).split('/'), dirname(other).split('/')];
  const common = ours.findIndex((name, at) => name !== theirs[at]);
  if (common < 0 || theirs[common] === undefined) return [undefined, undefined];
  return [ours.slice(0, common + 1).join('/'), theirs.slice(0, common + 1).join('/')];
}
