// The content of a store that is opened again, and the end of a process that has one.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { suite, test } from 'node:test';

import { openStore, type Store } from './store.ts';
import { key, markOf, pod, versionIn } from './store.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';

const names = (store: Store): string[] => store.list('pods').items.map(({ name }) => name);

for (const writer of ['thread', 'inline'] as const) {
  suite(`store, opened again: ${writer}`, () => {
    test('holds what was written, and its tokens', async () => {
      using directory = new TemporaryDirectory();
      const path = directory.at('db');
      let token: string | undefined;
      {
        await using store = openStore({ path, writer });
        for (const name of ['a', 'b', 'c']) await store.create(pod(name));
        token = store.list('pods', { limit: 1 }).continue;
        await store.delete(key('b'));
      }
      await using store = openStore({ path, writer });
      assert.equal(store.version, 5n);
      assert.deepEqual(names(store), ['a', 'c']);
      assert.deepEqual(
        store.list('pods', { continue: token }).items.map(({ name }) => name),
        ['b', 'c'],
      );
      const { value } = await store
        .watch('pods', { fromVersion: 4n, signal: new AbortController().signal })
        .next();
      assert.deepEqual(
        value?.map(({ type, object }) => [type, object.name, versionIn(object.text), markOf(object.text)]),
        [['DELETED', 'b', '5', 'b']],
      );
    });

    test('a process that does nothing else writes, closes, and ends', async () => {
      using directory = new TemporaryDirectory();
      const script = `
        import { openStore } from ${JSON.stringify(new URL('./store.ts', import.meta.url).href)};
        const store = openStore(${JSON.stringify({ path: directory.at('db'), writer })});
        const text = { before: '"', after: '"' };
        await store.create({ resource: 'pods', namespace: '', name: 'a', uid: 'a', text });
        await store[Symbol.asyncDispose]();
        process.stdout.write('closed');`;
      const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
        encoding: 'utf8',
      });
      assert.deepEqual([stdout, status], ['closed', 0], stderr);
    });

    test('versions go on after everything was deleted and compacted', async () => {
      using directory = new TemporaryDirectory();
      const path = directory.at('db');
      {
        await using store = openStore({ path, writer });
        for (const name of ['a', 'b', 'c']) await store.create(pod(name));
        for (const name of ['a', 'b', 'c']) await store.delete(key(name));
        await store.compact();
      }
      await using store = openStore({ path, writer });
      assert.deepEqual([store.version, store.compactedVersion], [7n, 7n]);
      assert.equal((await store.create(pod('a'))).resourceVersion, 8n);
    });
  });
}
