/**
 * Which findings a request to accept is for.
 *
 * @module
 */
import { pathGlob } from '../../../shared/regex/glob.ts';
import type { ByteString } from '../entry.ts';
import { hostPath } from './findings.ts';

/**
 * Of these paths those that a glob over host paths fits, sorted by their bytes; an empty one fits all. A path fits itself, as it is
 * told, whatever characters it has. A glob that is none fits nothing else: who asks with it learns it from the command.
 */
export function pathsThatFit(glob: string, paths: Iterable<ByteString>, prefix: ByteString): ByteString[] {
  const fits = glob === '' ? () => true : globOf(glob);
  const isMeant = (path: string): boolean => path === glob || fits(path);
  return [...paths].filter((path) => isMeant(hostPath(path, prefix))).sort((a, b) => (a < b ? -1 : 1));
}

function globOf(glob: string): (path: string) => boolean {
  try {
    return pathGlob(glob, 'path');
  } catch {
    return () => false;
  }
}
