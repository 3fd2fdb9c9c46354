import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isDeep } from '../../../lib/testing/depth.fixture.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { setOf } from '../model/attributes.ts';
import type { Batch } from '../model/batches.ts';
import type { Entry } from '../model/entry.ts';
import { anyEntries } from './any-entry.fixture.ts';
import {
  entryOf,
  few,
  hasFault,
  header,
  inBlocks,
  kept,
  pairKey,
  plain,
  secretKey,
  temporaryDirectory,
} from './baseline.fixture.ts';
import { BaselineError } from './baseline-error.ts';
import type { EntryBlock } from './entry-block.ts';
import { UnsortedEntries } from './entry-codec.ts';
import { type Baseline, openBaseline } from './read-baseline.ts';
import type { SigningKey, VerifyingKey } from './signature.ts';
import { writeBaseline } from './write-baseline.ts';

const isInput = (error: unknown): boolean => error instanceof RampartError && error.code === errorCodes.INPUT;

async function readAll(path: string, key: VerifyingKey = secretKey): Promise<Entry[]> {
  await using baseline = await openBaseline(path, key);
  const all: Entry[] = [];
  for await (const batch of baseline.entries()) all.push(...batch);
  assert.equal(all.length, baseline.counts.entries);
  return all;
}

test('reads 1,000 random baselines back unchanged', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  await fc.assert(
    fc.asyncProperty(
      anyEntries,
      fc.integer({ min: 1, max: 7 }),
      fc.boolean(),
      async (entries, size, pair) => {
        const key = pair ? pairKey : secretKey;
        const batches: Entry[][] = [[]];
        for (let at = 0; at < entries.length; at += size) batches.push(entries.slice(at, at + size));
        const written = await writeBaseline({ path, key, header, entries: batches });
        assert.equal(written.entries, entries.length);
        assert.equal(written.sizeBytes, statSync(path).size);
        const found = await readAll(path, key);
        assert.deepEqual(
          found.map((entry) => plain(entry)),
          entries.map((entry) => plain(kept(entry))),
        );
      },
    ),
    { numRuns: 1000 },
  );
});

test('reads many blocks back unchanged, with their descriptions', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  function* batches(): Generator<Entry[]> {
    for (let i = 0; i < 20; i++) {
      yield Array.from({ length: 1000 }, (_, j) => {
        const number = String(i * 1000 + j).padStart(6, '0');
        return entryOf({
          path: `/usr/lib/${number}`,
          attributes: setOf('sha256', 'I'),
          inode: 5n,
          sha256: Buffer.alloc(32, j),
        });
      });
    }
  }
  const about = { node: 'n1' };
  const written = await writeBaseline({
    path,
    key: pairKey,
    header: { ...header, about },
    entries: batches(),
  });
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(directory.path), ['baseline']);
  await using baseline = await openBaseline(path, pairKey);
  assert.equal(baseline.counts.entries, 20_000);
  assert.equal(baseline.counts.attributes, setOf('sha256', 'I'));
  assert.equal(baseline.digest, written.digest);
  assert.deepEqual(
    { ...baseline.header, scheme: '', keyId: '' },
    { ...header, about, scheme: '', keyId: '' },
  );
  for (let times = 0; times < 2; times++) {
    let count = 0;
    for await (const batch of baseline.entries()) {
      for (const entry of batch) {
        assert.equal(entry.path, `/usr/lib/${String(count).padStart(6, '0')}`);
        assert.equal(entry.sha256[0], (count % 1000) % 256);
        count++;
      }
    }
    assert.equal(count, 20_000);
  }
});

test('an entry that is too long to be read back is not written, and the old baseline stays', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  await writeBaseline({ path, key: secretKey, header, entries: [few] });
  const before = readFileSync(path);
  const long = entryOf({
    path: '/etc/long',
    attributes: setOf('xattrs'),
    xattrs: Array.from({ length: 80 }, (_, at) => [`user.${at}`, Buffer.alloc(65_536)]),
  });
  await assert.rejects(
    writeBaseline({ path, key: secretKey, header, entries: [[long]] }),
    (error) =>
      error instanceof RampartError && error.code === errorCodes.LIMIT && /etc\/long/.test(error.message),
  );
  assert.deepEqual(readFileSync(path), before);
  assert.deepEqual(readdirSync(directory.path), ['baseline']);
});

test('writes blocks unchanged and in order, small ones together', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  const entries = Array.from({ length: 3000 }, (_, at) =>
    entryOf({
      path: `/usr/lib/${String(at).padStart(6, '0')}`,
      attributes: setOf('s', 'sha256'),
      sizeBytes: at,
      sha256: createHash('sha256').update(String(at)).digest(),
    }),
  );
  // Sizes in entries of some 40 bytes: 20 kB, 40 bytes twice, 20 kB, 200 crumbs, 70 kB.
  const cuts = [0, 500, 501, 502, 1002, ...Array.from({ length: 200 }, (_, at) => 1003 + at), 3000];
  const blocks = cuts.slice(1).flatMap((end, at) => [...inBlocks(entries.slice(cuts[at], end), 5000)]);
  const written = await writeBaseline({ path, key: secretKey, header, entries: blocks });
  assert.equal(written.entries, 3000);
  await using baseline = await openBaseline(path, secretKey);
  const found = await collectBlocks(baseline);
  assert.deepEqual(
    found.map(({ length }) => length),
    [500, 2, 500, 200, 1798],
  );
  assert.ok(found[0]?.bytes.equals(blocks[0]?.bytes ?? Buffer.alloc(0)));
  assert.deepEqual(
    found.flatMap((block) => [...block]).map(({ sizeBytes }) => sizeBytes),
    entries.map(({ sizeBytes }) => sizeBytes),
  );
  assert.equal(baseline.counts.contentBytes, (2999 * 3000) / 2);
  const [first, , , last] = [blocks[0], blocks[1], blocks[2], blocks[3]];
  for (const wrong of [
    [last, first],
    [first, first],
    [first, [entries[499]]],
    [[entries[2]], first],
  ]) {
    const batches = wrong as Batch<Entry>[];
    await assert.rejects(writeBaseline({ path, key: secretKey, header, entries: batches }), isInput);
  }
  assert.throws(() => [...inBlocks(entries.toReversed(), 5)], UnsortedEntries);
});

async function collectBlocks(baseline: Baseline): Promise<EntryBlock[]> {
  const blocks: EntryBlock[] = [];
  for await (const block of baseline.entries()) blocks.push(block);
  return blocks;
}

test('every flipped bit and every truncation of a baseline is found', async () => {
  // Odd: of bits each place in a byte.
  const stride = isDeep ? 1 : 25;
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  for (const key of [secretKey, pairKey]) {
    await writeBaseline({ path, key, header, entries: [few.slice(0, 2)] });
    const whole = readFileSync(path);
    assert.equal((await readAll(path, key)).length, 2);
    for (let length = 0; length < whole.length; length += stride) {
      writeFileSync(path, whole.subarray(0, length));
      await assert.rejects(openBaseline(path, key), (error: unknown) => {
        assert.ok(error instanceof BaselineError);
        assert.ok(error.fault === 'truncated' || error.fault === 'unsigned', error.message);
        return true;
      });
    }
    // Ed25519 takes its time: of each byte one bit.
    for (let bit = 0; bit < whole.length * 8; bit += stride * (key === secretKey ? 1 : 7)) {
      const bent = Buffer.from(whole);
      bent[bit >> 3] = (bent[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      writeFileSync(path, bent);
      await assert.rejects(openBaseline(path, key), BaselineError, `bit ${bit}`);
    }
    writeFileSync(path, Buffer.concat([whole, Buffer.from([0])]));
    await assert.rejects(openBaseline(path, key), hasFault('damaged', /data after its signature/));
  }
});

test('a missing, foreign or newer baseline is reported as such', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  await assert.rejects(openBaseline(path, secretKey), (error: unknown) => {
    assert.ok(error instanceof RampartError);
    assert.equal(error.code, errorCodes.NOT_FOUND);
    return hasFault('missing')(error);
  });
  writeFileSync(path, '');
  await assert.rejects(openBaseline(path, secretKey), hasFault('truncated', /is empty/));
  writeFileSync(path, '@@begin_db\n@@db_spec name attr\n@@end_db\n');
  await assert.rejects(openBaseline(path, secretKey), hasFault('foreign'));
  await writeBaseline({ path, key: secretKey, header, entries: [few] });
  const file = readFileSync(path);
  file[7] = 2;
  writeFileSync(path, file);
  await assert.rejects(openBaseline(path, secretKey), (error: unknown) => {
    assert.ok(error instanceof RampartError);
    assert.equal(error.code, errorCodes.UNSUPPORTED);
    return hasFault('newer', /format 2/)(error);
  });
  await assert.rejects(openBaseline(directory.path, secretKey), hasFault('foreign', /not a regular file/));
  const fifo = join(directory.path, 'fifo');
  execFileSync('mkfifo', [fifo]);
  await assert.rejects(openBaseline(fifo, secretKey), hasFault('foreign', /not a regular file/));
});

test('short keys, unsorted entries and an aborted write leave what was there', async () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'baseline');
  await writeBaseline({ path, key: secretKey, header, entries: [few] });
  const before = readFileSync(path);
  const short: SigningKey = { scheme: 'hmac-sha256', secret: Buffer.alloc(31) };
  await assert.rejects(writeBaseline({ path, key: short, header, entries: [few] }), isInput);
  await assert.rejects(writeBaseline({ path, key: secretKey, header, entries: [few.toReversed()] }), isInput);
  await assert.rejects(writeBaseline({ path, key: secretKey, header, entries: [few, few] }), isInput);
  const signal = AbortSignal.abort(new Error('enough'));
  await assert.rejects(writeBaseline({ path, key: secretKey, header, entries: [few], signal }), /enough/);
  assert.deepEqual(readFileSync(path), before);
  assert.deepEqual(readdirSync(directory.path), ['baseline']);
  chmodSync(path, 0o644);
  await writeBaseline({ path, key: secretKey, header, entries: [] });
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.deepEqual(await readAll(path), []);
});
