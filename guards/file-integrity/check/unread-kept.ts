/** The entries that an update writes: those of the current files, and the old ones of files that could not be read. */
import { type Batch, BatchCursor, type Batches, unpack } from '../model/batches.ts';
import { EntryBlock } from '../database/entry-block.ts';
import type { ByteString, Entry, ScanProblem } from '../model/entry.ts';
import { UnreadPaths } from '../compare/unread-paths.ts';

type Seen = Entry | ScanProblem;

/**
 * Both streams are sorted by the bytes of paths. The problem of a path follows its entry; for a directory, it may be
 * among the entries below it (see CompareOptions). Blocks without unreadable files are passed on unchanged.
 *
 * @throws the errors of the streams
 */
export async function* withUnreadKept(
  old: Batches<Entry>,
  now: Batches<Seen>,
): AsyncGenerator<Batch<Entry>, void, undefined> {
  await using olds = new BatchCursor(old);
  const unread = new UnreadPaths();
  let last = '';
  const next = async (): Promise<boolean> => olds.advance() || (await olds.fetch());
  /** Adds the old entries of unreadable files that sort before `path`; all of them if `path` is undefined. */
  const keepBefore = async (path: ByteString | undefined, batch: Entry[]): Promise<void> => {
    for (let entry = olds.current; entry !== undefined; entry = olds.current) {
      if (path !== undefined && entry.path >= path) return;
      if (unread.covers(entry.path)) batch.push(entry);
      await next();
    }
  };
  await next();
  for await (const group of withTheirProblems(now)) {
    if (group instanceof EntryBlock) {
      const { firstPath } = group;
      if (!unread.isEmpty) {
        const kept: Entry[] = [];
        await keepBefore(firstPath, kept);
        yield kept;
        unread.forgetBefore(firstPath);
      }
      if (unread.isEmpty) {
        yield group;
        last = group.facts.lastPath;
        continue;
      }
    }
    const batch: Entry[] = [];
    const items = unpack(group);
    for (let at = 0; at < items.length;) {
      const path = items[at]?.path ?? '';
      if (path < last) {
        // The contents of this directory were read up to `last`: keep the current entries for these.
        while (olds.current !== undefined && olds.current.path <= last) await next();
        unread.add(path);
        at++;
        continue;
      }
      await keepBefore(path, batch);
      last = path;
      let seen: Entry | undefined;
      let isUnread = false;
      for (let item = items[at]; item?.path === path; item = items[++at]) {
        if ('code' in item) isUnread = true;
        else seen = item;
      }
      if (isUnread) unread.add(path);
      const before = olds.current?.path === path ? olds.current : undefined;
      const kept = isUnread ? (before ?? seen) : seen;
      if (kept !== undefined) batch.push(kept);
      if (before !== undefined) await next();
    }
    yield batch;
  }
  const rest: Entry[] = [];
  await keepBefore(undefined, rest);
  yield rest;
}

/** Yields the same batches, except that the problems of a path are in the batch of its entry. */
async function* withTheirProblems(batches: Batches<Seen>): AsyncGenerator<Batch<Seen>, void, undefined> {
  let held: Batch<Seen> = [];
  for await (const batch of batches) {
    if (!(batch instanceof EntryBlock)) {
      const entries: readonly Seen[] = unpack(held);
      if (unpack(batch)[0]?.path === entries.at(-1)?.path) {
        held = [...entries, ...unpack(batch)];
        continue;
      }
    }
    yield held;
    held = batch;
  }
  yield held;
}
