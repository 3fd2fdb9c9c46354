// Queue files that are torn, corrupted, cut or strange: never a crash, what is whole is read, the rest counted.
import assert from 'node:assert/strict';
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { suite, test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';
import { RECORD_HEADER_BYTES, RecordEncoder } from './record.ts';
import { headerBytes } from './segment-header.ts';
import { lineOf, name, TestSpool } from './spool.fixture.ts';

const COUNT = 40;
const ids = Array.from({ length: COUNT }, (_, index) => `a${String(index).padStart(2, '0')}`);
const recordBytes = RECORD_HEADER_BYTES + 3 + lineOf('a00').length;
const start = headerBytes(name);

/** A queue file with all of `ids`, as a process left it. Killed means: without a seal, as after kill -9. */
async function leave(directory: TemporaryDirectory, killed: boolean): Promise<string> {
  {
    await using spool = new TestSpool(directory.path);
    for (const id of ids) assert.ok(spool.add(id));
  }
  const [file] = readdirSync(directory.path).filter((found) => found.endsWith('.records'));
  assert.ok(file);
  const path = directory.at(file);
  if (killed) patch(path, 28, Buffer.alloc(12));
  return path;
}

function patch(path: string, at: number, bytes: Uint8Array): void {
  const content = readFileSync(path);
  content.set(bytes, at);
  writeFileSync(path, content);
}

interface Rest {
  readonly got: readonly string[];
  readonly damagedFiles: number;
  readonly tornBytes: number;
  readonly lostRecords: number;
}

/** The records that the next process reads, some at a time. */
async function readRest(directory: TemporaryDirectory, atOnce = 1): Promise<Rest> {
  await using spool = new TestSpool(directory.path);
  const { found } = spool.spool;
  const records = spool.take(atOnce);
  for (const { id, line } of records) assert.equal(line.toString(), lineOf(id), 'nothing damaged is read');
  assert.equal(found.records, records.length + spool.lostRecords, 'the counts add up');
  return {
    got: records.map(({ id }) => id),
    damagedFiles: found.unreadable + spool.damagedFiles,
    tornBytes: found.tornBytes,
    lostRecords: spool.lostRecords,
  };
}

const corruptFiles = (directory: TemporaryDirectory): number =>
  readdirSync(directory.path).filter((file) => file.endsWith('.corrupt')).length;

suite('damaged queue files', { timeout: 300_000 }, () => {
  for (const killed of [true, false]) {
    const how = killed ? 'after a kill' : 'after a clean end';

    test(`${how}: the queue is read as it was left`, async () => {
      using directory = new TemporaryDirectory();
      await leave(directory, killed);
      const { got, damagedFiles, tornBytes } = await readRest(directory);
      assert.deepEqual(got, ids);
      assert.equal(damagedFiles + tornBytes, 0);
    });

    for (const atOnce of [1, 16]) {
      test(`${how}: a damaged byte costs one record, and the file is kept, ${atOnce} at a time`, async () => {
        using directory = new TemporaryDirectory();
        const path = await leave(directory, killed);
        patch(path, start + 7 * recordBytes + 100, Buffer.from('?'));
        const { got, damagedFiles, lostRecords } = await readRest(directory, atOnce);
        assert.deepEqual(
          got,
          ids.filter((id) => id !== 'a07'),
        );
        assert.equal(damagedFiles, 1);
        // How many there were is known where the file was complete.
        assert.equal(lostRecords, killed ? 0 : 1);
        assert.equal(corruptFiles(directory), 1);
      });
    }

    test(`${how}: a cursor that cannot be read reads again and loses nothing`, async () => {
      using directory = new TemporaryDirectory();
      const path = await leave(directory, killed);
      patch(path, 16, Buffer.from([1, 2, 3, 4, 5]));
      assert.deepEqual((await readRest(directory)).got, ids);
    });
  }

  test('a torn end is cut off, wherever it is', async () => {
    for (const cutBytes of [1, 500, recordBytes - 1]) {
      using directory = new TemporaryDirectory();
      const path = await leave(directory, true);
      truncateSync(path, start + COUNT * recordBytes - cutBytes);
      const { got, tornBytes, damagedFiles } = await readRest(directory);
      assert.deepEqual(got, ids.slice(0, -1));
      assert.equal(tornBytes, recordBytes - cutBytes);
      assert.equal(damagedFiles, 0);
    }
  });

  test('a sealed file that the disk has cut is counted', async () => {
    using directory = new TemporaryDirectory();
    const path = await leave(directory, false);
    truncateSync(path, start + 10 * recordBytes);
    const { got, lostRecords } = await readRest(directory);
    assert.deepEqual(got, ids.slice(0, 10));
    assert.equal(lostRecords, COUNT - 10);
  });

  test('zeros at the end, as some file systems leave them', async () => {
    using directory = new TemporaryDirectory();
    const path = await leave(directory, true);
    appendFileSync(path, Buffer.alloc(100_000));
    const { got, tornBytes } = await readRest(directory);
    assert.deepEqual(got, ids);
    assert.equal(tornBytes, 100_000);
  });

  test('strange files are left or set aside', async () => {
    using directory = new TemporaryDirectory();
    const path = await leave(directory, true);
    const nameOf = (key: string, sequence: number): string =>
      directory.at(`${key.repeat(32)}-${String(sequence).padStart(12, '0')}.records`);
    writeFileSync(nameOf('0', 1), '');
    writeFileSync(nameOf('1', 1), 'x');
    writeFileSync(nameOf('2', 1), Buffer.alloc(5000));
    // Another queue's file under this name.
    writeFileSync(nameOf('3', 1), readFileSync(path));
    symlinkSync('/etc/passwd', nameOf('4', 1));
    symlinkSync('/nowhere', nameOf('6', 1));
    mkdirSync(nameOf('5', 1));
    writeFileSync(directory.at('README'), 'not ours');
    const { got, damagedFiles } = await readRest(directory);
    assert.deepEqual(got, ids);
    assert.equal(damagedFiles, 6);
    assert.equal(corruptFiles(directory), 6);
  });

  test('damaged files are kept in a bounded number', async () => {
    using directory = new TemporaryDirectory();
    for (let index = 0; index < 30; index++) {
      writeFileSync(directory.at(`${'a'.repeat(32)}-${String(index).padStart(12, '0')}.records`), 'x');
    }
    await using spool = new TestSpool(directory.path);
    assert.equal(spool.spool.found.unreadable, 30);
    assert.equal(corruptFiles(directory), 8);
  });

  test('files removed by another process while it runs', async () => {
    using directory = new TemporaryDirectory();
    await leave(directory, true);
    await using spool = new TestSpool(directory.path);
    for (let index = 0; index < 300; index++) assert.ok(spool.add(`b${index}`));
    for (const file of readdirSync(directory.path)) {
      if (file.endsWith('.records')) rmSync(directory.at(file));
    }
    const before = spool.queue.depth;
    const read = spool.take().length;
    assert.equal(read + spool.lostRecords, before);
    assert.equal(spool.queue.depth, 0);
    assert.ok(spool.add('after'));
    assert.equal(spool.take().length, 1);
  });

  test('any damage: no crash, nothing wrong is read, what is whole comes in order', async () => {
    const end = start + COUNT * recordBytes;
    const damage = fc.record({
      killed: fc.boolean(),
      atOnce: fc.constantFrom(1, 3, 16),
      patches: fc.array(
        fc.record({ at: fc.nat(end - 1), bytes: fc.uint8Array({ minLength: 1, maxLength: 3000 }) }),
        { maxLength: 5 },
      ),
      cutAt: fc.option(fc.nat(end)),
    });
    await fc.assert(
      fc.asyncProperty(damage, async ({ killed, atOnce, patches, cutAt }) => {
        using directory = new TemporaryDirectory();
        const path = await leave(directory, killed);
        const before = readFileSync(path);
        for (const { at, bytes } of patches) patch(path, at, bytes.subarray(0, end - at));
        if (cutAt !== null) truncateSync(path, cutAt);
        const after = readFileSync(path);
        const { got } = await readRest(directory, atOnce);
        const headerWhole = after.subarray(0, start).equals(before.subarray(0, start));
        const whole = ids.filter((_, index) => {
          const at = start + index * recordBytes;
          return after.subarray(at, at + recordBytes).equals(before.subarray(at, at + recordBytes));
        });
        if (headerWhole) assert.deepEqual(got, whole);
        else assert.deepEqual(got, got.toSorted(), 'in order');
      }),
      { numRuns: 60 },
    );
  });
});

test('a record that a process wrote into its arguments is not taken for one', () => {
  const { buffer, sizeBytes } = new RecordEncoder().encode('forged', '{}', 0) ?? assert.fail();
  const line = JSON.stringify({ arguments: buffer.subarray(0, sizeBytes).toString('latin1') });
  assert.equal(line.includes('\0'), false, 'the mark begins with a byte that JSON escapes');
});
