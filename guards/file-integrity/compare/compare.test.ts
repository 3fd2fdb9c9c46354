import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertReached, scaled } from '../../../lib/testing/depth.fixture.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { type AttributeName, setOf } from '../model/attributes.ts';
import { type Batch, BatchCursor, unpack } from '../model/batches.ts';
import { type CompareOptions, Comparison, type Difference } from './compare.ts';
import { anyEntries } from '../database/any-entry.fixture.ts';
import { entryOf, inBlocks } from '../database/baseline.fixture.ts';
import { EntryBlock } from '../database/entry-block.ts';
import type { Entry, ScanProblem } from '../model/entry.ts';
import { collect, inBatches } from '../real-aide.fixture.ts';

const all = setOf('ftype', 'p', 'n', 's', 'm', 'c', 'i', 'sha256');

function file(path: string, parts: Partial<Entry> = {}, ...more: AttributeName[]): Entry {
  const attributes = all | setOf(...more);
  return entryOf({
    path,
    attributes,
    permissions: 0o644,
    linkCount: 1,
    sha256: Buffer.alloc(32, 1),
    ...parts,
  });
}

function problem(path: string): ScanProblem {
  return { path, code: 'EACCES', message: 'permission denied' };
}

async function compare(
  old: readonly Entry[],
  now: readonly (Entry | ScanProblem)[],
  more: Partial<CompareOptions> = {},
): Promise<{ reported: string[]; differences: Difference[]; totals: Comparison['totals'] }> {
  const oldAttributes = old.reduce((set, { attributes }) => set | attributes, 0);
  const comparison = new Comparison({ old: [old], now: [now], oldAttributes, ...more });
  const differences = await collect(comparison);
  return {
    reported: differences.map(({ kind, path }) => `${kind} ${path}`),
    differences,
    totals: comparison.totals,
  };
}

test('reports added, removed and changed files in the order of paths, and no others', async () => {
  const old = ['/', '/a', '/a!', '/a/b', '/c'].map((path) => file(path));
  const now = [
    file('/'),
    file('/a', { permissions: 0o600, linkCount: 2 }),
    file('/a/0'),
    file('/a/b'),
    file('/d'),
  ];
  const { reported, differences, totals } = await compare(old, now);
  assert.deepEqual(reported, ['changed /a', 'removed /a!', 'added /a/0', 'removed /c', 'added /d']);
  assert.ok(differences[0]?.kind === 'changed');
  assert.equal(differences[0].changed, setOf('p', 'n'));
  assert.deepEqual(totals, { entries: 5, unread: 0 });
  assert.deepEqual((await compare(old, old)).reported, []);
  assert.equal((await compare([], old)).reported.length, 5);
  assert.equal((await compare(old, [])).reported.length, 5);
});

test('only attributes that both have are compared; a file of another type has other permissions', async () => {
  const [one] = (
    await compare(
      [file('/a')],
      [file('/a', { attributes: setOf('p', 'acl'), sha256: Buffer.alloc(32), acl: 'x' })],
    )
  ).differences;
  assert.equal(one?.kind, 'redefined');
  const [other] = (await compare([file('/a')], [file('/a', { type: 'd' })])).differences;
  assert.ok(other?.kind === 'changed');
  assert.equal(other.changed, setOf('ftype', 'p'));
});

test('every attribute is compared', async () => {
  const one = (attribute: AttributeName, parts: Partial<Entry>): [AttributeName, Partial<Entry>] => [
    attribute,
    parts,
  ];
  const changes = [
    ...[
      one('ftype', { type: 'd' }),
      one('l', { linkTarget: 'x' }),
      one('p', { permissions: 1 }),
      one('u', { uid: 1 }),
    ],
    ...[
      one('g', { gid: 1 }),
      one('s', { sizeBytes: 1 }),
      one('b', { blockCount: 1 }),
      one('a', { accessTimeS: 1 }),
    ],
    ...[
      one('m', { modifyTimeS: 1 }),
      one('c', { changeTimeS: 1 }),
      one('i', { inode: 1n }),
      one('n', { linkCount: 1 }),
    ],
    ...[one('acl', { acl: 'x' }), one('acl', { defaultAcl: 'x' }), one('selinux', { selinux: 'x' })],
    ...[one('e2fsattrs', { e2fsAttributes: 1 }), one('caps', { capabilities: 'x' })],
    one('xattrs', { xattrs: [['user.a', Buffer.from('x')]] }),
    ...[one('sha256', { sha256: Buffer.alloc(32) }), one('sha512', { sha512: Buffer.alloc(64) })],
  ];
  for (const [attribute, parts] of changes) {
    const before = entryOf({ path: '/a', attributes: setOf(attribute) });
    const [found, ...more] = (await compare([before], [{ ...before, ...parts }])).differences;
    assert.ok(found?.kind === 'changed' && more.length === 0, attribute);
    assert.equal(found.changed, setOf(attribute));
    assert.deepEqual(
      (await compare([{ ...before, attributes: 0 }], [{ ...before, ...parts, attributes: 0 }])).reported,
      [],
    );
  }
  const value = (byte: number): Entry =>
    entryOf({ path: '/a', attributes: setOf('xattrs'), xattrs: [['user.a', Buffer.from([byte])]] });
  assert.deepEqual((await compare([value(1)], [value(2)])).reported, ['changed /a']);
  assert.deepEqual((await compare([value(1)], [value(1)])).reported, []);
});

test('an unreadable file is neither removed nor unchanged', async () => {
  const old = ['/', '/a', '/a!', '/a/b', '/a/b/c', '/a0', '/b', '/c'].map((path) => file(path));
  const now = [
    file('/'),
    file('/a'),
    problem('/a'),
    file('/a!'),
    file('/a0'),
    problem('/b'),
    problem('/b'),
    file('/c'),
  ];
  const { reported, totals } = await compare(old, now);
  assert.deepEqual(reported, ['unread /a', 'unread /b', 'unread /b']);
  assert.deepEqual(totals, { entries: 5, unread: 3 });
  const nothing = await compare(old, [problem('/')]);
  assert.deepEqual(nothing.reported, ['unread /']);
  assert.equal(nothing.totals.unread, old.length);
  // The parts that were seen all the same are compared.
  const some = await compare(old, [problem('/a'), file('/a/b', { permissions: 0 }), problem('/x')]);
  assert.deepEqual(some.reported, [
    'removed /',
    'unread /a',
    'removed /a!',
    'changed /a/b',
    'removed /a0',
    'removed /b',
    'removed /c',
    'unread /x',
  ]);
});

test('a file that grows may grow, and its start stays what it was', async () => {
  const before = file('/log', { sizeBytes: 10, modifyTimeS: 5 }, 'growing');
  const grown = file('/log', { sizeBytes: 20, modifyTimeS: 6, sha256: Buffer.alloc(32, 2) }, 'growing');
  const asked: number[] = [];
  const digestStart =
    (byte: number): NonNullable<CompareOptions['digestStart']> =>
    (_, sizeBytes) => {
      asked.push(sizeBytes);
      return Promise.resolve({ sha256: Buffer.alloc(32, byte), sha512: Buffer.alloc(0) });
    };
  const reported = async (
    old: Entry,
    now: Entry,
    options: Partial<CompareOptions> = {},
  ): Promise<string[]> => {
    const { differences } = await compare([old], [now], options);
    return differences.map((one) => `${one.kind} ${one.kind === 'changed' ? one.changed : ''}`);
  };
  assert.deepEqual(await reported(before, grown, { digestStart: digestStart(1) }), []);
  assert.deepEqual(asked, [10]);
  assert.deepEqual(await reported(before, grown, { digestStart: digestStart(3) }), [
    `changed ${setOf('sha256')}`,
  ]);
  assert.deepEqual(await reported(before, grown), [`changed ${setOf('sha256')}`]);
  assert.deepEqual(await reported({ ...before, sizeBytes: 0 }, grown, { digestStart: digestStart(3) }), []);
  assert.deepEqual(await reported(grown, before, { digestStart: digestStart(1) }), [
    `changed ${setOf('s', 'm', 'sha256')}`,
  ]);
  assert.deepEqual(await reported(before, { ...grown, linkCount: 2 }, { digestStart: digestStart(1) }), [
    `changed ${setOf('n')}`,
  ]);
  const sizes = entryOf({ path: '/log', attributes: setOf('S'), sizeBytes: 10 });
  assert.deepEqual(await reported(sizes, { ...sizes, sizeBytes: 11 }), []);
  assert.deepEqual(await reported(sizes, { ...sizes, sizeBytes: 9 }), [`changed ${setOf('S')}`]);
});

test('ANF and ARF allow new and gone files', async () => {
  assert.deepEqual((await compare([], [file('/a', {}, 'ANF'), file('/b', {}, 'ARF')])).reported, [
    'added /b',
  ]);
  assert.deepEqual((await compare([file('/a', {}, 'ANF'), file('/b', {}, 'ARF')], [])).reported, [
    'removed /a',
  ]);
});

test('logs rotated within their directory are unchanged', async () => {
  const log = (path: string, inode: bigint, byte: number, ...more: AttributeName[]): Entry =>
    file(path, { inode, sha256: Buffer.alloc(32, byte), changeTimeS: byte }, 'I', ...more);
  const old = [log('/l', 1n, 1, 'ANF'), log('/l.1', 2n, 2), log('/l.2', 3n, 3, 'ARF')];
  const later = (entry: Entry): Entry => ({ ...entry, changeTimeS: 99 });
  const now = [log('/l', 9n, 9, 'ANF'), later(log('/l.1', 1n, 1)), later(log('/l.2', 2n, 2, 'ARF'))];
  assert.deepEqual((await compare(old, now)).reported, []);
  // Another content under the same inode is not a rotation.
  const bent = [log('/l', 9n, 9, 'ANF'), later(log('/l.1', 1n, 7)), later(log('/l.2', 2n, 2, 'ARF'))];
  assert.deepEqual((await compare(old, bent)).reported, ['changed /l', 'added /l.1']);
  // Neither is one in another directory; other changes of a directory are reported after its contents.
  const apart = await compare(
    [file('/d', { linkCount: 3 }, 'I'), log('/d/a', 1n, 1), file('/d/e/x'), log('/d/z', 5n, 5)],
    [file('/d', { linkCount: 4 }, 'I'), log('/d/e', 1n, 1), log('/d/e/a', 1n, 1), log('/d/z', 5n, 6)],
  );
  assert.deepEqual(apart.reported, ['added /d/e/a', 'removed /d/e/x', 'changed /d/z', 'changed /d']);
});

test('streams that are not sorted are refused', async () => {
  const refused = /is not sorted/;
  await assert.rejects(compare([file('/b'), file('/a')], []), refused);
  await assert.rejects(compare([file('/a'), file('/a')], []), refused);
  await assert.rejects(compare([], [file('/b'), file('/a')]), refused);
  await assert.rejects(compare([], [file('/a'), file('/a')]), refused);
  await assert.rejects(compare([], [problem('/b'), problem('/a')]), refused);
});

test('any two lists give what looking each path up gives, however they are cut', async () => {
  await fc.assert(
    fc.asyncProperty(anyEntries, anyEntries, fc.integer({ min: 1, max: 9 }), async (one, other, size) => {
      const plainly = setOf('p', 'ftype');
      const strip = (entry: Entry): Entry =>
        entryOf({ path: entry.path, attributes: plainly, permissions: entry.permissions });
      const old = one.map((entry) => strip(entry));
      const now = [...other, ...one.filter((_, at) => at % 2 === 0)]
        .filter((entry, at, list) => list.findIndex(({ path }) => path === entry.path) === at)
        .map((entry) => strip(entry))
        .toSorted((a, b) => (a.path < b.path ? -1 : 1));
      const comparison = new Comparison({
        old: inBatches(old, size),
        now: inBatches(now, size + 1),
        oldAttributes: plainly,
      });
      const found = new Set((await collect(comparison)).map(({ kind, path }) => `${kind} ${path}`));
      const before = new Map(old.map((entry) => [entry.path, entry]));
      const after = new Map(now.map((entry) => [entry.path, entry]));
      const expected = new Set<string>();
      for (const path of before.keys()) if (!after.has(path)) expected.add(`removed ${path}`);
      for (const [path, { permissions }] of after) {
        const was = before.get(path);
        if (was === undefined) expected.add(`added ${path}`);
        else if (was.permissions !== permissions) expected.add(`changed ${path}`);
      }
      assert.deepEqual(found, expected);
    }),
    { numRuns: 300 },
  );
});

test('blocks of bytes give what their entries give, wherever they are cut', async () => {
  let same = 0;
  await fc.assert(
    fc.asyncProperty(
      anyEntries,
      fc.array(fc.nat(29), { maxLength: 4 }),
      fc.array(fc.nat(29), { maxLength: 3 }),
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 1, max: 6 }),
      fc.array(fc.nat(29), { maxLength: 2 }),
      async (entries, changed, gone, oldSize, nowSize, unread) => {
        // As a baseline has them: without what their attributes do not ask for.
        const old = await collect(inBlocks(entries, 7));
        const now = old
          .map((entry, at) => (changed.includes(at) ? { ...entry, uid: entry.uid === 1 ? 2 : 1 } : entry))
          .filter((_, at) => !gone.includes(at));
        const seen = (batches: Iterable<Iterable<Entry>>): Iterable<Batch<Entry | ScanProblem>> =>
          withProblems(batches as Iterable<Batch<Entry>>, new Set(unread.map((at) => old[at]?.path ?? '')));
        const oldAttributes = old.reduce((set, { attributes }) => set | attributes, 0);
        const plain = new Comparison({ old: [old], now: seen([now]), oldAttributes });
        const packed = new Comparison({
          old: inBlocks(old, oldSize),
          now: seen(inBlocks(now, nowSize)),
          oldAttributes,
        });
        assert.deepEqual(await collect(packed), await collect(plain));
        assert.deepEqual(packed.totals, plain.totals);
        if (oldSize === nowSize && old.length > oldSize && changed.length + gone.length > 0) same++;
      },
    ),
    { numRuns: 500, min: 200 },
  );
  assertReached(same > scaled(20), `${same} had blocks in common`);
});

/** Each path's problem behind its entry, which ends the batch. */
function* withProblems(
  batches: Iterable<Batch<Entry>>,
  paths: ReadonlySet<string>,
): Generator<Batch<Entry | ScanProblem>> {
  for (const batch of batches) {
    const entries = unpack(batch);
    if (!entries.some(({ path }) => paths.has(path))) {
      yield batch;
      continue;
    }
    for (const entry of entries) {
      yield* inBlocks([entry], 1);
      if (paths.has(entry.path)) yield [problem(entry.path)];
    }
  }
}

test('an unchanged block is never unpacked', async () => {
  const entries = Array.from({ length: 40 }, (_, at) => file(`/${String(at).padStart(2, '0')}`));
  const now = entries.map((entry) => (entry.path === '/25' ? file('/25', { permissions: 0o600 }) : entry));
  const unpacked: string[] = [];
  const noting = (batches: Iterable<EntryBlock>): EntryBlock[] =>
    [...batches].map(
      (block) =>
        new EntryBlock(block.bytes, {
          facts: block.facts,
          decode: () => {
            unpacked.push(block.firstPath);
            return block.unpack();
          },
        }),
    );
  const { reported, totals } = await compare([], [], {
    old: noting(inBlocks(entries, 10)),
    now: noting(inBlocks(now, 10)),
    oldAttributes: all,
  });
  assert.deepEqual(reported, ['changed /25']);
  assert.deepEqual(totals, { entries: 40, unread: 0 });
  assert.deepEqual(unpacked, ['/20', '/20']);
});

test('both streams are released when the reader stops', async () => {
  let closed = 0;
  async function* endless(): AsyncGenerator<readonly Entry[], void, undefined> {
    try {
      for (let i = 0; ; i++) {
        await Promise.resolve();
        yield Array.from({ length: 100 }, (_, j) => file(`/${String(i * 100 + j).padStart(9, '0')}`));
      }
    } finally {
      closed++;
    }
  }
  for await (const _ of new Comparison({ old: endless(), now: [], oldAttributes: 0 })) break;
  assert.equal(closed, 1);
  await using cursor = new BatchCursor([[], [1], [], [2, 3], []]);
  const seen = [];
  while (cursor.advance() || (await cursor.fetch())) seen.push(cursor.current);
  assert.deepEqual(seen, [1, 2, 3]);
});
