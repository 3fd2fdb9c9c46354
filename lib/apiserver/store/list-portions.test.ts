// Lists in portions: the same as lists of objects, of one version whatever happens between the portions.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ExpiredError, FutureVersionError } from './errors.ts';
import type { ListOptions } from './list.ts';
import type { StoredObject } from './object.ts';
import { openStore, type Store } from './store.ts';
import { key, pod } from './store.fixture.ts';

/** Objects of 10 bytes to 60 kB in three namespaces, not created in their order. */
async function filled(count = 700): Promise<Store> {
  const store = openStore({ path: ':memory:' });
  await Promise.all(
    Array.from({ length: count }, (_, n) =>
      store.create(pod(`p${(n * 389) % 1000}`, 'x'.repeat(n % 50 === 0 ? 60_000 : n % 7), `ns${n % 3}`)),
    ),
  );
  return store;
}

const whole = (store: Store, options: ListOptions = {}): readonly StoredObject[] =>
  store.list('pods', options).items;

suite('a list in portions', () => {
  test('is that of the objects, of all and of a namespace', async () => {
    await using store = await filled();
    for (const options of [{}, { namespace: 'ns1' }, { namespace: 'none' }]) {
      const list = store.listPortions('pods', options);
      assert.equal(list.version, store.version);
      const portions = [...list.portions];
      assert.deepEqual(portions.flat(), whole(store, options));
      assert.ok(portions.every((portion) => portion.length > 0));
      if (options.namespace === undefined) assert.ok(portions.length > 3, `${portions.length} portions`);
    }
  });

  test('ends right where a portion is just full', async () => {
    for (const count of [0, 1, 63, 64, 65, 314]) {
      await using store = openStore({ path: ':memory:' });
      await Promise.all(Array.from({ length: count }, (_, n) => store.create(pod(`p${n}`))));
      assert.deepEqual([...store.listPortions('pods').portions].flat(), whole(store), `${count}`);
    }
  });

  test('large objects come one by one', async () => {
    await using store = openStore({ path: ':memory:' });
    const large = 'x'.repeat(1024 * 1024);
    for (let n = 0; n < 70; n++) await store.create(pod(`p${n}`, large));
    const sizes = [...store.listPortions('pods').portions].map((portion) => portion.length);
    assert.deepEqual(sizes, [64, 1, 1, 1, 1, 1, 1]);
  });

  test('is of one version while everything changes between its portions', async () => {
    await using store = await filled();
    const before = whole(store);
    const { version, portions } = store.listPortions('pods');
    const read: StoredObject[] = [];
    let count = 0;
    for (const portion of portions) {
      read.push(...portion);
      const { namespace, name } = before.at(-1 - count++) as StoredObject;
      await store.delete({ ...key(name, namespace) });
      await store.create(pod(name, 'again', namespace));
      await store.create(pod(`new${count}`, 'new', 'ns2'));
    }
    assert.deepEqual(read, before);
    assert.deepEqual([...store.listPortions('pods', { version }).portions].flat(), before);
    assert.notDeepEqual(whole(store), before);
  });

  test('goes on after any of its items, at the same version', async () => {
    await using store = await filled();
    const before = whole(store);
    const { continueAfter } = store.listPortions('pods');
    await store.delete(key(before[100]?.name ?? '', before[100]?.namespace));
    for (const at of [0, 99, 699]) {
      const rest = store.listPortions('pods', { continue: continueAfter(before[at] as StoredObject) });
      assert.deepEqual([...rest.portions].flat(), before.slice(at + 1));
    }
  });

  test('ends with an error when its version is compacted', async () => {
    await using store = await filled();
    const { version } = store;
    const portions = store.listPortions('pods').portions[Symbol.iterator]();
    assert.equal(portions.next().done, false);
    await store.create(pod('another'));
    await store.compact();
    assert.throws(
      () => portions.next(),
      (error) => error instanceof ExpiredError && error.version === version,
    );
    assert.throws(() => store.listPortions('pods', { version }), ExpiredError);
    assert.throws(() => store.listPortions('pods', { version: store.version + 1n }), FutureVersionError);
  });
});
