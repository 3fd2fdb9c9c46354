import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';

import { errorCodes } from '../../errors/errors.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { key, markOf, pod, refusal, versionIn } from './store.fixture.ts';
import { openStore } from './store.ts';
import { StoredObjects } from './stored-objects.ts';

test('reads what was committed, in portions, also beside a process that writes', async () => {
  using directory = new TemporaryDirectory();
  const path = directory.at('db');
  await using store = openStore({ path });
  const names = Array.from({ length: 1200 }, (_, at) => `p${String(at).padStart(4, '0')}`);
  for (const name of names) await store.create(pod(name));
  await store.create(pod('other', 'other', 'shop'));
  await store.delete(key('p0000'));
  using stored = new StoredObjects(path);
  assert.deepEqual([...stored.texts('pods', 'default')].map(markOf), names.slice(1));
  assert.equal([...stored.texts('pods')].length, 1200);
  assert.deepEqual([...stored.texts('services')], []);
  assert.equal(versionIn(stored.get('pods', 'shop', 'other') ?? ''), '1202');
  assert.equal(stored.get('pods', 'shop', 'p0001'), undefined);
  await store.create(pod('later'));
  assert.equal([...stored.texts('pods')].length, 1201);
});

test('refuses what is not there, and the format of another release', () => {
  using directory = new TemporaryDirectory();
  assert.throws(
    () => new StoredObjects(directory.at('none')),
    refusal(errorCodes.SYSTEM, /cannot read the store/),
  );
  const path = directory.at('db');
  new DatabaseSync(path).close();
  assert.throws(() => new StoredObjects(path), refusal(errorCodes.UNSUPPORTED, /its format is 0/));
});
