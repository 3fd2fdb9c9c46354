/** Replaces some entries of a baseline with the current ones. Batches without such entries are passed on unchanged. */
import { type Batch, type Batches, unpack } from '../model/batches.ts';
import type { ByteString, Entry } from '../model/entry.ts';
import { pathGlob } from '../../../lib/regex/glob.ts';
import { hostPath } from '../results/held-finding.ts';

/**
 * @param paths paths to accept, sorted by their bytes
 * @param now the current entries of these paths; a path that has none is dropped from the baseline
 * @throws the errors of the streams
 */
export async function* withAccepted(
  old: Batches<Entry>,
  paths: readonly ByteString[],
  now: ReadonlyMap<ByteString, Entry>,
): AsyncGenerator<Batch<Entry>, void, undefined> {
  let next = 0;
  const addUpTo = (path: ByteString | undefined, batch: Entry[]): void => {
    for (let accepted = paths[next]; accepted !== undefined; accepted = paths[next]) {
      if (path !== undefined && accepted > path) return;
      const entry = now.get(accepted);
      if (entry !== undefined) batch.push(entry);
      next++;
    }
  };
  for await (const batch of old) {
    const entries = unpack(batch);
    const accepted = paths[next];
    if (accepted === undefined || accepted > (entries.at(-1)?.path ?? '')) {
      yield batch;
      continue;
    }
    const merged: Entry[] = [];
    for (const entry of entries) {
      const before = next;
      addUpTo(entry.path, merged);
      // The entry just added may be the one that replaces this old entry.
      if (next === before || paths[next - 1] !== entry.path) merged.push(entry);
    }
    yield merged;
  }
  const rest: Entry[] = [];
  addUpTo(undefined, rest);
  yield rest;
}

/**
 * The paths that match a glob over host paths, sorted by their bytes; an empty glob matches all. A path also matches
 * the glob if both are the same text, whatever characters it contains. An invalid glob matches nothing else; the
 * command reports it.
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
