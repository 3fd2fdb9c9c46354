/**
 * The entries of a baseline with some of them replaced by what is there now.
 *
 * @module
 */
import { BatchCursor } from '../batches.ts';
import type { Batches } from '../batches.ts';
import type { ByteString, Entry } from '../entry.ts';

/**
 * @param paths that are taken as they are now, sorted by their bytes
 * @param now what is there of these paths, sorted; a path that has none is dropped
 * @throws what the streams throw
 */
export async function* withAccepted(
  old: Batches<Entry>,
  paths: readonly ByteString[],
  now: ReadonlyMap<ByteString, Entry>,
): AsyncGenerator<readonly Entry[], void, undefined> {
  let next = 0;
  let batch: Entry[] = [];
  const addUpTo = (path: ByteString | undefined): void => {
    for (let accepted = paths[next]; accepted !== undefined; accepted = paths[next]) {
      if (path !== undefined && accepted > path) return;
      const entry = now.get(accepted);
      if (entry !== undefined) batch.push(entry);
      next++;
    }
  };
  await using olds = new BatchCursor(old);
  while (olds.advance() || (await olds.fetch())) {
    const entry = olds.current as Entry;
    const before = next;
    addUpTo(entry.path);
    // The last that was taken may be this one.
    if (next === before || paths[next - 1] !== entry.path) batch.push(entry);
    if (batch.length < 512) continue;
    yield batch;
    batch = [];
  }
  addUpTo(undefined);
  if (batch.length > 0) yield batch;
}
