// The writer, where a write fails for a reason of its own, and where the thread that writes ends.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes, type RampartError } from '../../errors/errors.ts';
import { ThreadWriter } from './batch-writer.ts';
import { openDatabase } from './schema.ts';
import { key, text } from './store.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { type Write, Writer } from './writer.ts';

const create = (name: string): Write => ({ verb: 'create', ...key(name), uid: name, ...text(name) });

suite('writer', () => {
  test('a write that fails, fails alone, wherever it stands', () => {
    const count = 7;
    for (let bad = 0; bad < count; bad++) {
      using database = openDatabase(':memory:');
      const writer = new Writer(database);
      const writes = Array.from({ length: count }, (_, n) => create(`p${n}`));
      // The object goes in, its revision then breaks the rules of the table: the object has to go again.
      const poisoned = { ...create(`p${bad}`), uid: null } as unknown as Write;
      const late = { ...create(`p${bad}`), before: { length: 'none' } } as unknown as Write;
      writes[bad] = bad % 2 === 0 ? poisoned : late;
      const outcomes = writer.apply(writes);
      assert.deepEqual(
        outcomes.map((outcome) => (outcome.done ? outcome.version : outcome.why)),
        writes.map((_, n) => (n === bad ? 'failed' : BigInt(n < bad ? n + 2 : n + 1))),
      );
      const tables = ['objects', 'revisions'].map((table) =>
        database
          .prepare(`SELECT name FROM ${table} ORDER BY name`)
          .all()
          .map((row) => row['name']),
      );
      const expected = writes.flatMap(({ name }, n) => (n === bad ? [] : [name]));
      assert.deepEqual(tables, [expected, expected]);
      assert.deepEqual({ ...database.prepare('SELECT version FROM store').get() }, { version: count });
    }
  });

  test('compaction leaves one row an object, and no deletion', () => {
    using database = openDatabase(':memory:');
    const writer = new Writer(database);
    const rows = (): unknown => ({ ...database.prepare('SELECT count(*) AS rows FROM revisions').get() });
    writer.apply(Array.from({ length: 10 }, (_, n) => create(`p${n}`)));
    for (let version = 2n; version < 42n; version++) {
      const name = `p${(version - 2n) % 10n}`;
      writer.apply([{ verb: 'update', ...key(name), expectedVersion: undefined, ...text(name) }]);
    }
    for (const name of ['p0', 'p1', 'p2'])
      writer.apply([{ verb: 'delete', ...key(name), expectedVersion: undefined }]);
    assert.deepEqual(rows(), { rows: 53 });
    assert.equal(writer.compact(51n), 51n);
    assert.deepEqual(rows(), { rows: 13 }, 'ten objects, and three deletions later on');
    assert.equal(writer.compact(54n), 54n);
    assert.deepEqual(rows(), { rows: 7 });
    assert.equal(writer.compact(20n), 20n, 'nothing to do');
    assert.deepEqual({ ...database.prepare('SELECT compacted FROM store').get() }, { compacted: 54 });
  });

  test('a thread that cannot write says so to all that waits, and to all that comes', async () => {
    using directory = new TemporaryDirectory();
    // No store was made there: the thread ends when it prepares its statements.
    const reported: RampartError[] = [];
    const writer = new ThreadWriter(directory.at('none'), (error) => reported.push(error));
    const waiting = [writer.apply([create('a')]), writer.apply([create('b')]), writer.compact(2n)];
    for (const result of await Promise.allSettled(waiting)) {
      assert.ok(result.status === 'rejected');
      assert.match(
        String(result.reason),
        /its writing thread has ended: no such table: objects.*may or may not/,
      );
    }
    await assert.rejects(writer.apply([create('c')]), /has ended/);
    assert.equal(reported[0]?.code, errorCodes.SYSTEM, 'whoever owns it is told');
    await writer.close();
  });
});
