// Opening a store: formats, damage, other programs' files, permissions, and one process at a time.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { suite, test } from 'node:test';

import { errorCodes, type RampartError } from '../../errors/errors.ts';
import { connect, migrations, openDatabase } from './schema.ts';
import { openStore } from './store.ts';
import { pod, refusal } from './store.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';

/** A store with objects, closed. */
async function filled(path: string, count = 300): Promise<void> {
  await using store = openStore({ path, writer: 'inline' });
  await Promise.all(Array.from({ length: count }, (_, n) => store.create(pod(`p${n}`, 'x'.repeat(1000)))));
}

suite('databases that cannot be opened', () => {
  test('the format of a newer release', async () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('db');
    await filled(path, 1);
    const database = new DatabaseSync(path);
    database.exec(`PRAGMA user_version = ${migrations.length + 1}`);
    database.close();
    const words = new RegExp(`db: its format is ${migrations.length + 1}, written by a newer release`);
    assert.throws(() => openStore({ path }), refusal(errorCodes.UNSUPPORTED, words));
    assert.throws(() => openStore({ path }), refusal(errorCodes.UNSUPPORTED, words), 'the lock was let go');
  });

  test('the database of another program, which is not changed', () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('db');
    const database = new DatabaseSync(path);
    database.exec('CREATE TABLE theirs (a)');
    database.close();
    assert.throws(() => openStore({ path }), refusal(errorCodes.UNSUPPORTED, /belongs to another program/));
    using opened = new DatabaseSync(path);
    assert.deepEqual(
      opened
        .prepare('SELECT name FROM sqlite_schema')
        .all()
        .map((row) => row['name']),
      ['theirs'],
    );
  });

  test('files that are not databases', () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('db');
    writeFileSync(path, 'this is a text, and a long one. '.repeat(100));
    assert.throws(
      () => openStore({ path }),
      refusal(errorCodes.CORRUPT, /is not a database. Stop this server/),
    );
    assert.match(readFileSync(path, 'utf8'), /^this is a text/);
  });

  test('a directory that is not there, and a path that is one', () => {
    using directory = new TemporaryDirectory();
    assert.throws(() => openStore({ path: directory.at('none/db') }), refusal(errorCodes.SYSTEM, /none\/db/));
    mkdirSync(directory.at('folder'));
    assert.throws(
      () => openStore({ path: directory.at('folder') }),
      refusal(errorCodes.SYSTEM, /EISDIR|directory/),
    );
  });

  test('invalid options', () => {
    for (const options of [
      { historyLimit: 0 },
      { historyAgeMs: -1 },
      { recentLimit: 1.5 },
      { recentSize: NaN },
    ]) {
      assert.throws(
        () => openStore({ path: ':memory:', ...options }),
        refusal(errorCodes.INPUT, /an integer above 0/),
      );
    }
    assert.throws(
      () => openStore({ path: ':memory:', writer: 'thread' }),
      refusal(errorCodes.INPUT, /thread/),
    );
  });
});

suite('damage', () => {
  test('a database that was cut off', async () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('db');
    await filled(path);
    truncateSync(path, 4096 * 3);
    assert.throws(
      () => {
        const store = openStore({ path, writer: 'inline' });
        try {
          store.list('pods');
        } finally {
          void store[Symbol.asyncDispose]();
        }
      },
      refusal(errorCodes.CORRUPT, /malformed.*restore a backup/),
    );
  });

  test('pages that were overwritten: reading and writing say so, and the rest can be read', async () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('db');
    await filled(path);
    const size = statSync(path).size;
    const file = openSync(path, 'r+');
    for (let at = 20 * 4096; at < size - 4096; at += 4096)
      writeSync(file, Buffer.alloc(4096, 0x5a), 0, 4096, at);
    closeSync(file);
    for (const writer of ['inline', 'thread'] as const) {
      await using store = openStore({ path, writer });
      assert.throws(() => store.list('pods'), refusal(errorCodes.CORRUPT, /cannot read from the store .*db/));
      const names = Array.from({ length: 300 }, (_, n) => `p${n}`);
      const outcomes = await Promise.allSettled(names.map((name) => store.create(pod(name))));
      for (const outcome of outcomes) {
        assert.ok(outcome.status === 'rejected');
        assert.ok(
          [errorCodes.CORRUPT, errorCodes.EXISTS].includes((outcome.reason as RampartError).code as never),
          String(outcome.reason),
        );
      }
    }
  });
});

suite('databases that can be opened', () => {
  test('is durable, and for its owner only', async () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('db');
    await using store = openStore({ path });
    await store.create(pod('a'));
    for (const file of [path, `${path}-wal`, `${path}-shm`, `${path}-lock`]) {
      assert.equal(statSync(file).mode & 0o777, 0o600, file);
    }
    using database = connect(path);
    assert.deepEqual({ ...database.prepare('PRAGMA synchronous').get() }, { synchronous: 2 });
    assert.deepEqual({ ...database.prepare('PRAGMA journal_mode').get() }, { journal_mode: 'wal' });
  });

  test('an older format is brought to the present one, all or nothing', () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('db');
    openDatabase(path).close();
    const next = 'ALTER TABLE store ADD COLUMN colour TEXT; UPDATE store SET colour = token_key IS NOT NULL';
    const broken = [...migrations, next, 'UPDATE nowhere SET a = 1'];
    assert.throws(() => openDatabase(path, broken), refusal(errorCodes.SYSTEM, /no such table: nowhere/));
    openDatabase(path).close();
    using migrated = openDatabase(path, [...migrations, next]);
    assert.deepEqual(
      { ...migrated.prepare('SELECT version, colour FROM store').get() },
      { version: 1, colour: '1' },
    );
    assert.throws(() => openDatabase(path), refusal(errorCodes.UNSUPPORTED, /newer release/));
  });

  test('tokens of lists in another order hold no longer', () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('db');
    const keyOf = (steps?: readonly string[]): unknown => {
      using database = openDatabase(path, steps);
      return database.prepare('SELECT token_key FROM store').get();
    };
    assert.notDeepEqual(keyOf(migrations.slice(0, 1)), keyOf());
    assert.deepEqual(keyOf(), keyOf());
  });

  test('lists of all namespaces are read by an index', () => {
    using database = openDatabase(':memory:');
    const plan = database
      .prepare(
        `EXPLAIN QUERY PLAN SELECT o.namespace || '/' || o.name AS key, o.version FROM objects o
         WHERE o.resource = 'pods' AND o.namespace || '/' || o.name > 'a' || '/' || 'b' ORDER BY 1 LIMIT 3`,
      )
      .all()
      .map((row) => String(row['detail']));
    assert.deepEqual(plan, ['SEARCH o USING INDEX objects_by_key (resource=? AND <expr>>?)']);
  });

  test('each store has its own key for tokens', () => {
    using one = openDatabase(':memory:');
    using two = openDatabase(':memory:');
    const key = (database: DatabaseSync): unknown => database.prepare('SELECT token_key FROM store').get();
    assert.notDeepEqual(key(one), key(two));
  });
});

suite('one process at a time', () => {
  test('a second opening in this process is refused, until the first is closed', async () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('db');
    {
      await using store = openStore({ path });
      assert.throws(() => openStore({ path }), refusal(errorCodes.IN_USE, /holds it/));
      await store.create(pod('a'));
    }
    await using store = openStore({ path });
    assert.equal(store.version, 2n);
  });

  test('another process is named, and what it held is free when it is killed', async () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('db');
    const script = `
      import { openStore } from ${JSON.stringify(new URL('./store.ts', import.meta.url).href)};
      openStore({ path: ${JSON.stringify(path)}, writer: 'inline' });
      process.stdout.write('open');
      setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      await once(child.stdout, 'data');
      assert.throws(
        () => openStore({ path }),
        refusal(errorCodes.IN_USE, new RegExp(`process ${child.pid} holds`)),
      );
    } finally {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    await using store = openStore({ path });
    assert.equal(store.version, 1n);
  });
});
