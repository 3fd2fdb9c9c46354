// A file system without space: writes say so, nothing is half written, and it goes on when there is space.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { SmallDisk, smallDiskSkip } from '../../testing/small-disk.fixture.ts';
import { openStore, type Store } from './store.ts';
import { key, markOf, pod, text } from './store.fixture.ts';

const skip = smallDiskSkip();
const names = (store: Store): string[] =>
  store
    .list('pods')
    .items.map(({ name }) => name)
    .sort();
const isFull = (error: unknown): boolean => error instanceof RampartError && error.code === errorCodes.FULL;

/** Creates in batches until none succeeds any longer; returns the names of those that did. */
async function createUntilFull(store: Store, prefix: string): Promise<string[]> {
  const done: string[] = [];
  for (let batch = 0; batch < 1000; batch++) {
    const batchNames = Array.from({ length: 20 }, (_, n) => `${prefix}${batch}-${n}`);
    const results = await Promise.allSettled(
      batchNames.map((name) => store.create(pod(name, 'x'.repeat(2000)))),
    );
    const through = batchNames.filter((_, n) => results[n]?.status === 'fulfilled');
    for (const result of results) {
      if (result.status === 'rejected') assert.ok(isFull(result.reason), String(result.reason));
    }
    done.push(...through);
    if (through.length === 0) return done;
  }
  throw new Error('the disk does not get full');
}

suite('a full disk', { skip }, () => {
  for (const writer of ['thread', 'inline'] as const) {
    test(`${writer}: refused with FULL, nothing half done, and on it goes when there is space`, async (t) => {
      using disk = new SmallDisk(8 * 1024);
      const path = disk.at('db');
      let present: string[];
      let version: bigint;
      {
        await using store = openStore({ path, writer });
        await store.create(pod('small', 'before'));
        disk.fill(1500);
        const stop = new AbortController();
        const watch = store.watch('pods', { fromVersion: store.version, signal: stop.signal });
        const done = await createUntilFull(store, 'a');
        assert.ok(done.length > 20, 'there was some space');
        present = ['small', ...done].sort();
        assert.deepEqual(names(store), present, 'what was refused is not there, what was acknowledged is');
        assert.equal(store.version, BigInt(present.length + 1), 'and has not cost a version');
        const seen: string[] = [];
        while (seen.length < done.length) {
          seen.push(...((await watch.next()).value ?? []).map(({ object }) => object.name));
        }
        assert.deepEqual(seen, done);
        stop.abort();
        await assert.rejects(store.create(pod('one', 'x'.repeat(100_000))), isFull);

        disk.free();
        await store.create(pod('after'));
        await store.update({ ...key('small'), expectedVersion: 2n, text: text('changed') });
        await store.delete(key(done[0] ?? ''));
        present = ['after', ...present.filter((name) => name !== done[0])].sort();
        version = store.version;
        assert.deepEqual(names(store), present);
        t.diagnostic(`full after ${done.length} objects`);
      }
      await using store = openStore({ path, writer });
      assert.equal(store.version, version);
      assert.deepEqual(names(store), present);
      assert.equal(markOf(store.get('pods', 'default', 'small')?.text ?? ''), 'changed');
    });
  }

  test('where the log takes all the space, it is emptied into free pages of the database', async () => {
    using disk = new SmallDisk(24 * 1024);
    const path = disk.at('db');
    {
      await using store = openStore({ path });
      const many = Array.from({ length: 1000 }, (_, n) => pod(`p${n}`, 'x'.repeat(2000)));
      await Promise.all(many.map((object) => store.create(object)));
    }
    {
      await using store = openStore({ path });
      await Promise.all(Array.from({ length: 1000 }, (_, n) => store.delete(key(`p${n}`))));
      await store.compact();
    }
    await using store = openStore({ path });
    disk.fill(600);
    const done = await createUntilFull(store, 'a');
    assert.ok(done.length > 500, `${done.length} objects of 2 kB where 600 KiB are free`);
    assert.deepEqual(names(store), done.toSorted());
  });

  test('the disk is full when the store is closed and opened again', async () => {
    using disk = new SmallDisk(4 * 1024);
    const path = disk.at('db');
    let done: string[];
    {
      await using store = openStore({ path });
      done = await createUntilFull(store, 'a');
    }
    {
      // SQLite needs this much to open it: the wal-index.
      disk.fill(64);
      await using store = openStore({ path });
      assert.deepEqual(names(store), done.toSorted());
      await createUntilFull(store, 'b').then((more) => (done = [...done, ...more]));
    }
    disk.free();
    await using store = openStore({ path });
    assert.deepEqual(names(store), done.toSorted());
  });

  test('a full disk prevents opening it', async () => {
    using disk = new SmallDisk(1024);
    await openStore({ path: disk.at('db') })[Symbol.asyncDispose]();
    disk.fill(0);
    assert.throws(() => openStore({ path: disk.at('db') }), isFull);
    disk.free();
    await openStore({ path: disk.at('db') })[Symbol.asyncDispose]();
  });

  test('a full disk has no space for a new database', () => {
    using disk = new SmallDisk(16);
    disk.fill(0);
    assert.throws(
      () => openStore({ path: disk.at('db') }),
      (error) =>
        error instanceof RampartError &&
        ([errorCodes.FULL, errorCodes.SYSTEM] as string[]).includes(error.code) &&
        /cannot (open|lock)/.test(error.message),
    );
  });
});
