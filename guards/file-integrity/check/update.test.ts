/** The parts of an update: one scan for two readers, and entries that stay if they could not be read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { setOf } from '../model/attributes.ts';
import { type Batch, unpack } from '../model/batches.ts';
import { Comparison } from '../compare/compare.ts';
import { EntryBlock } from '../database/entry-block.ts';
import type { Entry, ScanProblem } from '../model/entry.ts';
import { entryOf, inBlocks } from '../database/baseline.fixture.ts';
import { Tee } from './tee.ts';
import { withUnreadKept } from './unread-kept.ts';

async function all<T>(batches: AsyncIterable<Batch<T>>): Promise<T[]> {
  const items: T[] = [];
  for await (const batch of batches) items.push(...batch);
  return items;
}

function* inBatches<T>(items: readonly T[], size: number): Generator<readonly T[]> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size);
}

test('both readers get everything, however slow one is', async () => {
  const numbers = Array.from({ length: 500 }, (_, at) => at);
  for (const slow of ['main', 'copy', 'none']) {
    const tee = new Tee(inBatches(numbers, 7));
    const read = async (source: AsyncIterable<Batch<number>>, isSlow: boolean): Promise<number[]> => {
      const items: number[] = [];
      for await (const batch of source) {
        if (isSlow) for (let at = 0; at < 20; at++) await turn();
        items.push(...batch);
      }
      return items;
    };
    const both = await Promise.all([read(tee.main(), slow === 'main'), read(tee.copy(), slow === 'copy')]);
    assert.deepEqual(both, [numbers, numbers]);
  }
});

test('who gives up does not hold up the other; a copy of half a scan is an error', async () => {
  const numbers = Array.from({ length: 500 }, (_, at) => at);
  const early = new Tee(inBatches(numbers, 7));
  const copy = early.copy();
  const main = all(early.main());
  await copy.next();
  await copy.return();
  assert.deepEqual(await main, numbers);

  const cut = new Tee(inBatches(numbers, 7));
  const cutMain = cut.main();
  const rest = all(cut.copy());
  await cutMain.next();
  await cutMain.return();
  await assert.rejects(rest, /aborted/);

  const failing = new Tee<number>(
    (async function* () {
      yield [1];
      throw new Error('the disk is gone');
    })(),
  );
  const results = await Promise.allSettled([all(failing.main()), all(failing.copy())]);
  assert.deepEqual(
    results.map((one) => one.status === 'rejected' && String(one.reason)),
    ['Error: the disk is gone', 'Error: the scan was aborted'],
  );
});

const attributes = setOf('u');
const names = ['/a', '/a!', '/a/b', '/a/b/c', '/a/b0', '/a0', '/b', '/b/c'].toSorted();

/** Entries in blocks, problems between them. */
function* asScanned(
  items: readonly (Entry | ScanProblem)[],
  size: number,
): Generator<Batch<Entry | ScanProblem>> {
  let entries: Entry[] = [];
  for (const item of items) {
    if (!('code' in item)) entries.push(item);
    else {
      yield* inBlocks(entries, size);
      entries = [];
      yield [item];
    }
  }
  yield* inBlocks(entries, size);
}

test('a block without unreadable files is passed on unchanged', async () => {
  const numbered = (from: number, to: number): Entry[] =>
    Array.from({ length: to - from }, (_, at) => entryOf({ path: `/${String(from + at).padStart(3, '0')}` }));
  const [one, two, three] = [
    [...inBlocks(numbered(0, 10), 10)],
    [...inBlocks(numbered(10, 20), 10)],
    [...inBlocks(numbered(20, 30), 10)],
  ] as const;
  const problem = { path: '/019', code: 'EACCES', message: '' };
  const batches: Batch<Entry>[] = [];
  for await (const batch of withUnreadKept([numbered(0, 30)], [...one, ...two, [problem], ...three])) {
    if (unpack(batch).length > 0) batches.push(batch);
  }
  assert.deepEqual(
    batches.map((batch) => batch instanceof EntryBlock),
    [true, false, true],
  );
});

test('an update has the present files, and the earlier ones where reading failed', async () => {
  const state = fc.record({
    old: fc.boolean(),
    now: fc.boolean(),
    unread: fc.oneof(
      { weight: 4, arbitrary: fc.constant(false) },
      { weight: 1, arbitrary: fc.constant(true) },
    ),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(...names.map(() => state)),
      fc.integer({ min: 1, max: 4 }),
      async (states, size) => {
        const old: Entry[] = [];
        const now: (Entry | ScanProblem)[] = [];
        const expected: string[] = [];
        const isBelowUnread = (path: string): boolean =>
          names.some((name, at) => states[at]?.unread === true && path.startsWith(`${name}/`));
        for (const [at, path] of names.entries()) {
          const one = states[at] ?? { old: false, now: false, unread: false };
          // The contents of an unreadable directory are not seen.
          const isSeen = one.now && !isBelowUnread(path);
          const isUnread = one.unread && !isBelowUnread(path);
          if (one.old) old.push(entryOf({ path, attributes, uid: 1 }));
          if (isSeen) now.push(entryOf({ path, attributes, uid: 2 }));
          if (isUnread) now.push({ path, code: 'EACCES', message: '' });
          const covered = isUnread || isBelowUnread(path);
          if (covered && one.old) expected.push(`${path} 1`);
          else if (isSeen) expected.push(`${path} 2`);
        }
        for (const seen of [inBatches(now, size), asScanned(now, size)]) {
          const kept = await all(withUnreadKept(inBatches(old, size), seen));
          assert.deepEqual(
            kept.map(({ path, uid }) => `${path} ${uid}`),
            expected,
          );
        }
      },
    ),
    { numRuns: 500 },
  );
});

test('a directory that can no longer be opened: entries read are updated, the others stay', async () => {
  const paths = ['/a', '/a!', '/a/1', '/a/2', '/a/2/x', '/a/3', '/a0', '/b'];
  const old = paths.map((path) => entryOf({ path, attributes, uid: 1 }));
  const problem = { path: '/a', code: 'EACCES', message: '' };
  for (let seen = 2; seen <= paths.indexOf('/a0'); seen++) {
    const isLeft = (path: string): boolean => path.startsWith('/a/') && paths.indexOf(path) >= seen;
    const nows = paths.filter((path) => !isLeft(path)).map((path) => entryOf({ path, attributes, uid: 2 }));
    const first = nows.filter(({ path }) => paths.indexOf(path) < seen);
    const now = [...first, problem, ...nows.slice(first.length)];
    for (let size = 1; size <= 4; size++) {
      const kept = await all(withUnreadKept(inBatches(old, size), asScanned(now, size)));
      assert.deepEqual(
        kept.map(({ path, uid }) => `${path} ${uid}`),
        paths.map((path) => `${path} ${isLeft(path) ? 1 : 2}`),
      );
      const comparison = new Comparison({
        ...{ old: inBatches(old, size), now: asScanned(now, size) },
        oldAttributes: attributes,
      });
      const reported = (await all(comparison)).map(({ kind, path }) => `${kind} ${path}`);
      assert.deepEqual(
        reported.toSorted(),
        ['unread /a', ...nows.map(({ path }) => `changed ${path}`)].toSorted(),
      );
    }
  }
});
