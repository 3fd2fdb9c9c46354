/**
 * The entries of a baseline with some of them replaced by what is there now. Batches without these are handed on as they are.
 */
import { type Batch, type Batches, unpack } from '../model/batches.ts';
import type { ByteString, Entry } from '../model/entry.ts';
import { pathGlob } from '../../../lib/regex/glob.ts';
import { hostPath } from '../results/findings.ts';

/**
 * @param paths that are taken as they are now, sorted by their bytes
 * @param now what is there of these paths, sorted; a path that has none is dropped
 * @throws what the streams throw
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
      // The last that was taken may be this one.
      if (next === before || paths[next - 1] !== entry.path) merged.push(entry);
    }
    yield merged;
  }
  const rest: Entry[] = [];
  addUpTo(undefined, rest);
  yield rest;
}

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
