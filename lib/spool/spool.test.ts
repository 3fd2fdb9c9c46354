import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { suite, test } from 'node:test';

import { errorCodes, RampartError } from '../errors/errors.ts';
import { SmallDisk, smallDiskSkip } from '../testing/small-disk.fixture.ts';
import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';
import { lineOf, TestSpool } from './spool.fixture.ts';

const numbered = (count: number): string[] => Array.from({ length: count }, (_, index) => `a${index}`);

suite('a spool', { timeout: 300_000 }, () => {
  test('heads: in order, bounded by number and bytes, the same until they are passed', async () => {
    using directory = new TemporaryDirectory();
    await using spool = new TestSpool(directory.path);
    const { queue } = spool;
    assert.deepEqual(queue.heads(10, 2 ** 20), []);
    for (const id of numbered(30)) spool.add(id);
    const lineBytes = lineOf('a0').length;
    const heads = (records: number, bytes: number): string[] =>
      queue.heads(records, bytes).map(({ id }) => id);
    assert.deepEqual(heads(4, 2 ** 20), ['a0', 'a1', 'a2', 'a3']);
    assert.deepEqual(heads(2, 2 ** 20), ['a0', 'a1']);
    assert.deepEqual(heads(10, 3 * lineBytes), ['a0', 'a1', 'a2']);
    assert.deepEqual(heads(10, 1), ['a0'], 'one that is too long by itself');
    assert.equal(queue.depth, 30);
    queue.pass(2);
    assert.deepEqual(heads(3, 2 ** 20), ['a2', 'a3', 'a4']);
    spool.add('later');
    assert.equal(heads(100, 2 ** 20).length, 29);
    queue.pass(29);
    assert.equal(queue.depth, 0);
    assert.deepEqual(heads(100, 2 ** 20), []);
  });

  test('records passed together are not read again, the others are, also over many files', async () => {
    using directory = new TemporaryDirectory();
    const ids = numbered(1000);
    {
      await using spool = new TestSpool(directory.path, { maxQueueBytes: 2 ** 21 });
      for (const id of ids) assert.ok(spool.add(id));
      assert.ok(readdirSync(directory.path).filter((file) => file.endsWith('.records')).length > 5);
    }
    const read: string[] = [];
    for (let round = 0; read.length < ids.length; round++) {
      await using spool = new TestSpool(directory.path, { maxQueueBytes: 2 ** 21 });
      assert.equal(spool.spool.found.records, ids.length - read.length);
      for (let batch = 0; batch < 3; batch++) {
        const records = spool.queue.heads(37, 2 ** 20);
        read.push(...records.map(({ id }) => id));
        spool.queue.pass(records.length);
      }
      // Read and not passed: the next one gets it, too.
      spool.queue.heads(37, 2 ** 20);
    }
    assert.deepEqual(read, ids);
    await using spool = new TestSpool(directory.path);
    assert.equal(spool.spool.found.records, 0);
  });

  test('full: what is new is refused, what is there stays, and there is room again', async () => {
    using directory = new TemporaryDirectory();
    await using spool = new TestSpool(directory.path, { maxQueueBytes: 300_000 });
    const taken = numbered(1000).filter((id) => spool.add(id));
    assert.ok(taken.length > 250 && taken.length < 300, String(taken.length));
    assert.ok(spool.spool.sizeBytes <= 300_000);
    assert.deepEqual(
      spool.take(50).map(({ id }) => id),
      numbered(taken.length),
    );
    assert.ok(spool.add('again'));
  });

  test('a second process fails because the directory is in use', async () => {
    using directory = new TemporaryDirectory();
    await using _spool = new TestSpool(directory.path);
    assert.throws(
      () => new TestSpool(directory.path),
      (error) => error instanceof RampartError && error.code === errorCodes.IN_USE,
    );
  });
});

test(
  'a full disk: refused, nothing half written, and the next process reads it',
  { skip: smallDiskSkip() },
  async () => {
    using disk = new SmallDisk(300);
    const taken: string[] = [];
    {
      await using spool = new TestSpool(disk.at('queue'));
      taken.push(...numbered(400).filter((id) => spool.add(id)));
      assert.ok(taken.length > 200 && taken.length < 400, `${taken.length} of 400 fit`);
      disk.fill();
      assert.equal(spool.add('more'), false);
    }
    await using spool = new TestSpool(disk.at('queue'));
    assert.equal(spool.spool.found.tornBytes, 0);
    assert.deepEqual(
      spool.take(16).map(({ id }) => id),
      taken,
    );
  },
);
