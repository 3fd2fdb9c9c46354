// Lists as texts: the same as lists of objects, in parts, of one version whatever happens between the parts.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { ExpiredError, FutureVersionError } from './errors.ts';
import type { ObjectKey } from './object.ts';
import { openStore, type Store } from './store.ts';
import { key, pod } from './store.fixture.ts';

/** Objects of 10 bytes to 60 kB in three namespaces, not created in their order. */
async function filled(count = 700): Promise<Store> {
  const store = openStore({ path: ':memory:' });
  await Promise.all(
    Array.from({ length: count }, (_, n) => {
      const size = n % 50 === 0 ? 60_000 : n % 7;
      return store.create(pod(`p${(n * 389) % 1000}`, `ä€😀${'x'.repeat(size)}`, `ns${n % 3}`));
    }),
  );
  return store;
}

const joined = (parts: Iterable<Uint8Array>): string => Buffer.concat([...parts]).toString();
const texts = (store: Store, options: { namespace?: string; version?: bigint } = {}): string =>
  store
    .list('pods', options)
    .items.map(({ text }) => text)
    .join(',');

suite('a list as texts', () => {
  test('is that of the objects, of all and of a namespace', async () => {
    await using store = await filled();
    for (const options of [{}, { namespace: 'ns1' }, { namespace: 'none' }]) {
      const list = store.listTexts('pods', options);
      assert.equal(list.version, store.version);
      const parts = [...list.parts];
      assert.equal(joined(parts), texts(store, options));
      if (options.namespace === undefined) assert.ok(parts.length > 3, `${parts.length} parts`);
    }
    assert.equal((JSON.parse(`[${joined(store.listTexts('pods').parts)}]`) as unknown[]).length, 700);
    assert.deepEqual([...store.listTexts('nothing').parts], []);
  });

  test('ends right where a part is just full', async () => {
    for (const count of [1, 63, 64, 65, 314]) {
      await using store = openStore({ path: ':memory:' });
      await Promise.all(Array.from({ length: count }, (_, n) => store.create(pod(`p${n}`))));
      assert.equal(joined(store.listTexts('pods').parts), texts(store), `${count}`);
    }
  });

  test('is of one version while everything changes between its parts', async () => {
    await using store = await filled();
    const before = texts(store);
    const { version, parts } = store.listTexts('pods');
    const keys: ObjectKey[] = [...store.list('pods').items];
    const read: Uint8Array[] = [];
    for (const part of parts) {
      read.push(part);
      const { namespace = '', name = '' } = keys.pop() ?? {};
      await store.delete({ ...key(name, namespace) });
      await store.create(pod(name, 'again', namespace));
      await store.create(pod(`new${read.length}`, 'new', 'ns2'));
    }
    assert.equal(joined(read), before);
    assert.equal(joined(store.listTexts('pods', { version }).parts), before, 'and later on, by its version');
    assert.notEqual(texts(store), before);
  });

  test('is given without its head where it begins with it', async () => {
    await using store = openStore({ path: ':memory:' });
    const bodies = ['{"kind":"Ä","mark":1,"v":"', '{"mark":2,"kind":"Ä","v":"'];
    for (const [index, before] of bodies.entries())
      await store.create({ ...key(`p${index}`), uid: `${index}`, text: { before, after: '"}' } });
    const { parts } = store.listTexts('pods', { head: '{"kind":"Ä",' });
    assert.equal(joined(parts), '{"mark":1,"v":"2"},{"mark":2,"kind":"Ä","v":"3"}');
  });

  test('ends with an error when its version is compacted, or the store is closed', async () => {
    const store = await filled();
    const { version } = store;
    const lists = [store.listTexts('pods').parts, store.listTexts('pods', { version }).parts];
    const iterators = lists.map((parts) => parts[Symbol.iterator]());
    for (const iterator of iterators) assert.equal(iterator.next().done, false);
    await store.create(pod('another'));
    await store.compact();
    for (const iterator of iterators) {
      assert.throws(
        () => iterator.next(),
        (error) => error instanceof ExpiredError && error.version === version,
      );
    }
    assert.throws(() => store.listTexts('pods', { version }), ExpiredError);
    assert.throws(() => store.listTexts('pods', { version: store.version + 1n }), FutureVersionError);
    const open = store.listTexts('pods').parts[Symbol.iterator]();
    open.next();
    await store[Symbol.asyncDispose]();
    const disposed = (error: unknown): boolean =>
      error instanceof RampartError && error.code === errorCodes.DISPOSED;
    assert.throws(() => open.next(), disposed);
    assert.throws(() => store.listTexts('pods'), disposed);
  });
});
