// Files of a store that change behind its back: this is reported, and nothing is lost silently.
import assert from 'node:assert/strict';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { suite, test } from 'node:test';

import { errorCodes } from '../../errors/errors.ts';
import { openStore } from './store.ts';
import { pod, refusal } from './store.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';

suite('a log without its database', () => {
  for (const [how, database] of [
    ['missing', undefined],
    ['empty', ''],
  ] as const) {
    test(`${how}: refused, and the log stays`, async () => {
      using directory = new TemporaryDirectory();
      const path = directory.at('db');
      {
        await using store = openStore({ path: directory.at('from'), writer: 'inline' });
        await store.create(pod('a'));
        copyFileSync(directory.at('from-wal'), `${path}-wal`);
      }
      if (database !== undefined) writeFileSync(path, database);
      const log = readFileSync(`${path}-wal`);
      assert.throws(
        () => openStore({ path }),
        refusal(errorCodes.CORRUPT, /missing or empty, but its log .*db-wal has \d+ bytes/),
      );
      assert.deepEqual(readFileSync(`${path}-wal`), log);
      assert.equal(existsSync(path), database !== undefined, 'nothing was made');

      rmSync(`${path}-wal`);
      await using store = openStore({ path });
      assert.equal(store.version, 1n, 'as the message says');
    });
  }
});

suite('files that go while the store is open', () => {
  for (const writer of ['thread', 'inline'] as const) {
    for (const file of ['db', 'db-wal']) {
      test(`${writer}: without ${file}, no write is acknowledged`, async () => {
        using directory = new TemporaryDirectory();
        await using store = openStore({ path: directory.at('db'), writer });
        await store.create(pod('before'));
        const version = store.version;
        renameSync(directory.at(file), directory.at('elsewhere'));
        const lost = refusal(
          errorCodes.SYSTEM,
          new RegExp(`/${file} was removed or replaced.*restore a backup`),
        );
        await assert.rejects(store.create(pod('a')), lost);
        // Another file under the name does not help: it does not have what was written.
        copyFileSync(directory.at('elsewhere'), directory.at(file));
        await assert.rejects(store.create(pod('b')), lost);
        rmSync(directory.at(file));
        renameSync(directory.at('elsewhere'), directory.at(file));
        await assert.rejects(store.create(pod('c')), lost);
        assert.equal(store.version, version, 'no watch is told of it');
      });
    }
  }
});

test('the lock writes nothing, so a full disk does not matter', async () => {
  using directory = new TemporaryDirectory();
  await using store = openStore({ path: directory.at('db') });
  await store.create(pod('a'));
  assert.deepEqual(readdirSync(directory.path).sort(), ['db', 'db-lock', 'db-shm', 'db-wal']);
  assert.equal(readFileSync(directory.at('db-lock')).length, 0);
});
