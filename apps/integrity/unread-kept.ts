/**
 * What an update writes: the files as they are, and as they were where nobody could look.
 *
 * @module
 */
import { BatchCursor, type Batches } from '../../systems/file-integrity/batches.ts';
import type { ByteString, Entry, ScanProblem } from '../../systems/file-integrity/entry.ts';

/**
 * Both sorted by the bytes of their paths; a problem comes after the entry of its path.
 *
 * @throws what the streams throw
 */
export async function* withUnreadKept(
  old: Batches<Entry>,
  now: Batches<Entry | ScanProblem>,
): AsyncGenerator<readonly Entry[], void, undefined> {
  await using olds = new BatchCursor(old);
  await using nows = new BatchCursor(now);
  let unread: ByteString[] = [];
  let batch: Entry[] = [];
  const more = async <T>(cursor: BatchCursor<T>): Promise<boolean> =>
    cursor.advance() || (await cursor.fetch());
  const covered = (path: ByteString): boolean =>
    unread.some((other) => path === other || path.startsWith(other === '/' ? '/' : `${other}/`));
  /** Old entries before a path. */
  const catchUp = async (path: ByteString | undefined): Promise<void> => {
    for (;;) {
      const entry = olds.current;
      if (entry === undefined || (path !== undefined && entry.path >= path)) return;
      if (covered(entry.path)) batch.push(entry);
      await more(olds);
    }
  };
  await more(olds);
  await more(nows);
  while (nows.current !== undefined) {
    const { path } = nows.current;
    await catchUp(path);
    let seen: Entry | undefined;
    let isUnread = false;
    for (let item: Entry | ScanProblem | undefined = nows.current; item?.path === path; item = nows.current) {
      if ('code' in item) isUnread = true;
      else seen = item;
      await more(nows);
    }
    if (isUnread) {
      // What is in it comes before the path with the byte after the slash.
      unread = [...unread.filter((other) => other === '/' || path < `${other}0`), path];
    }
    const before = olds.current?.path === path ? olds.current : undefined;
    const kept = isUnread ? (before ?? seen) : seen;
    if (kept !== undefined) batch.push(kept);
    if (before !== undefined) await more(olds);
    if (batch.length < 512) continue;
    yield batch;
    batch = [];
  }
  await catchUp(undefined);
  if (batch.length > 0) yield batch;
}
