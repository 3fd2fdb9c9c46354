// When the history is compacted, and what becomes of a compaction that fails.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { InlineWriter } from './batch-writer.ts';
import { Compaction } from './compaction.ts';
import { History } from './history.ts';
import { Reader } from './reader.ts';
import { openDatabase } from './schema.ts';
import { openStore } from './store.ts';
import { key, pod } from './store.fixture.ts';

suite('compaction', () => {
  test('by number: at most a tenth more than the limit is kept', async () => {
    await using store = openStore({ path: ':memory:', historyLimit: 100 });
    for (let n = 0; n < 50; n++) {
      await Promise.all(Array.from({ length: 10 }, (_, m) => store.create(pod(`p${n}-${m}`))));
      assert.ok(store.version - store.compactedVersion <= 110n);
      if (n > 10) assert.ok(store.version - store.compactedVersion >= 100n);
    }
    assert.equal(store.list('pods').items.length, 500, 'objects are no history');
  });

  test('by age', async () => {
    await using store = openStore({ path: ':memory:', historyAgeMs: 20 });
    await store.create(pod('a'));
    await store.delete(key('a'));
    while (store.compactedVersion < 3n) await setImmediate();
    assert.equal(store.version, 3n);
  });

  test('in steps, never beyond what is there', async () => {
    await using store = openStore({ path: ':memory:' });
    await Promise.all(Array.from({ length: 2500 }, (_, n) => store.create(pod(`p${n}`))));
    await Promise.all([
      store.compact(1000n),
      store.compact(2100n),
      store.compact(10_000n),
      store.compact(5n),
    ]);
    assert.equal(store.compactedVersion, 2501n);
    assert.equal(store.list('pods').items.length, 2500);
  });

  test('memory keeps no change that nobody can ask for', async () => {
    using database = openDatabase(':memory:');
    const writer = new InlineWriter(database);
    const history = new History(new Reader(database, ':memory:'), { count: 100, size: 1_000_000 });
    const create = async (name: string): Promise<void> => {
      const write = { verb: 'create', ...key(name), uid: name, before: '"', after: '"' } as const;
      const [outcome] = await writer.apply([write]);
      assert.ok(outcome?.done);
      history.publish([{ ...key(name), object: undefined, ...outcome }]);
    };
    for (const name of ['a', 'b', 'c', 'd']) await create(name);
    assert.equal(history.recentCount, 4);
    const { version } = history;
    history.compactTo(version - 1n);
    assert.equal(history.recentCount, 1);
    // It has been compacted further.
    history.compactTo(version - 3n);
    assert.deepEqual([history.recentCount, history.compacted], [1, version - 1n]);
    history.compactTo(version);
    assert.equal(history.recentCount, 0);
    await create('e');
    assert.deepEqual([history.recentCount, history.version], [1, version + 1n]);
    assert.equal(
      history.changesAfter(version, { resource: 'nodes', namespace: undefined, withPrevious: false }).upTo,
      version + 1n,
    );
  });

  test('one that fails is counted, and made up for by the next', async () => {
    using database = openDatabase(':memory:');
    const writer = new InlineWriter(database);
    const history = new History(new Reader(database, ':memory:'), { count: 100, size: 1_000_000 });
    let full = true;
    const failing = {
      apply: writer.apply.bind(writer),
      close: writer.close.bind(writer),
      compact: (to: bigint): Promise<bigint> =>
        full
          ? Promise.reject(new RampartError(errorCodes.FULL, { what: 'cannot compact' }))
          : writer.compact(to),
    };
    await using compaction = new Compaction({ history, writer: failing, historyLimit: 1, historyAgeMs: 1e6 });
    const commit = async (name: string): Promise<void> => {
      const write = { verb: 'create', ...key(name), uid: name, before: '"', after: '"' } as const;
      const [outcome] = await writer.apply([write]);
      assert.ok(outcome?.done);
      history.publish([{ ...key(name), object: undefined, ...outcome }]);
      compaction.committed();
      await setImmediate();
    };
    const compactedRows = (): unknown => ({ ...database.prepare('SELECT compacted FROM store').get() });
    for (const name of ['a', 'b', 'c', 'd']) await commit(name);
    // It promises less of the history from then on, while no row has gone.
    assert.deepEqual([compaction.failures, history.compacted], [1, 3n]);
    assert.deepEqual(compactedRows(), { compacted: 1 });
    full = false;
    await commit('e');
    assert.deepEqual([compaction.failures, history.compacted], [1, 5n]);
    assert.deepEqual(compactedRows(), { compacted: 5 });
  });
});
