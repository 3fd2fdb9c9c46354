// Watches: what they give, from memory and from the database, how they end, and what a slow one costs.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { ExpiredError, FutureVersionError } from './errors.ts';
import type { Change } from './object.ts';
import type { StoreOptions } from './store-options.ts';
import { openStore, type Store } from './store.ts';
import { key, markOf, pod, text, versionIn } from './store.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';

const open = (options: Partial<StoreOptions> = {}): Store => openStore({ path: ':memory:', ...options });
const never = new AbortController().signal;
const shown = (changes: readonly Change[] | undefined): string[] =>
  (changes ?? []).map(
    ({ type, object, previous }) =>
      `${type} ${object.name} ${versionIn(object.text)}${previous ? ` was ${versionIn(previous.text)}` : ''}`,
  );

suite('watch', () => {
  test('a commit is one batch, with deletions in their last state', async () => {
    await using store = open();
    const watch = store.watch('pods', { fromVersion: 1n, withPrevious: true, signal: never });
    const first = watch.next();
    await Promise.all([
      store.create(pod('a', 1)),
      store.create(pod('b', 2)),
      store.update({ ...key('a'), expectedVersion: 2n, text: text(3) }),
      store.delete(key('a')),
      store.create({ ...pod('node'), resource: 'nodes' }),
    ]);
    const { value } = await first;
    assert.deepEqual(shown(value), ['ADDED a 2', 'ADDED b 3', 'MODIFIED a 4 was 2', 'DELETED a 5 was 4']);
    assert.deepEqual(
      value?.map(({ object }) => markOf(object.text)),
      [1, 2, 3, 3],
    );
  });

  test('previous is there only for who asked', async () => {
    await using store = open();
    await store.create(pod('a'));
    await store.update({ ...key('a'), expectedVersion: 2n, text: text(3) });
    await store.delete(key('a'));
    const { value } = await store.watch('pods', { fromVersion: 1n, signal: never }).next();
    assert.deepEqual(
      value?.map((change) => [change.type, change.previous]),
      [
        ['ADDED', undefined],
        ['MODIFIED', undefined],
        ['DELETED', undefined],
      ],
    );
  });

  test('all watchers get the same change, also those who come later', async () => {
    await using store = open();
    const options = { fromVersion: 1n, signal: never };
    const waiting = [store.watch('pods', options).next(), store.watch('pods', options).next()];
    await store.create(pod('a'));
    const [one, two] = await Promise.all(waiting);
    const late = await store.watch('pods', options).next();
    assert.ok(one?.value?.[0]);
    assert.equal(one.value[0], two?.value?.[0]);
    assert.equal(one.value[0], late.value?.[0]);
  });

  test('a namespace sees its own', async () => {
    await using store = open();
    const watch = store.watch('pods', { namespace: 'mine', fromVersion: 1n, signal: never });
    await store.create(pod('a', 0, 'other'));
    await store.create(pod('b', 0, 'mine'));
    assert.deepEqual(shown((await watch.next()).value), ['ADDED b 3']);
    const next = watch.next();
    await store.create(pod('c', 0, 'other'));
    await store.create(pod('d', 0, 'mine'));
    assert.deepEqual(shown((await next).value), ['ADDED d 5']);
  });

  test('it begins after its version, from memory or from the database', async () => {
    for (const recentLimit of [1, 4, 100]) {
      await using store = open({ recentLimit });
      for (let n = 0; n < 20; n++) await store.create(pod(`p${n}`));
      for (let fromVersion = 1n; fromVersion < 21n; fromVersion++) {
        const watch = store.watch('pods', { fromVersion, signal: never });
        const seen: string[] = [];
        while (seen.length < 21 - Number(fromVersion)) seen.push(...shown((await watch.next()).value));
        const expected = Array.from({ length: 20 }, (_, n) => `ADDED p${n} ${n + 2}`);
        assert.deepEqual(seen, expected.slice(Number(fromVersion) - 1));
      }
    }
  });

  test('the version for a bookmark is what the reader has had, and grows while nothing matches', async () => {
    await using store = open();
    const watch = store.watch('pods', { fromVersion: 1n, signal: never });
    assert.equal(watch.version, 1n);
    const first = watch.next();
    for (let n = 0; n < 3; n++) await store.create({ ...pod(`n${n}`), resource: 'nodes' });
    assert.equal(watch.version, 4n, 'waiting, and nothing was for it');
    await store.create(pod('a'));
    assert.equal(watch.version, 4n, 'handed out, but not known to be handled');
    await first;
    assert.equal(watch.version, 4n);
    const second = watch.next();
    assert.equal(watch.version, 5n);
    watch[Symbol.dispose]();
    assert.equal((await second).done, true);
  });

  test('a watch from a list does not repeat the changes that the list has seen', async () => {
    using directory = new TemporaryDirectory();
    await using store = openStore({ path: directory.at('db'), writer: 'thread' });
    await store.create(pod('a'));
    const created = store.create(pod('b'));
    await setImmediate();
    // The thread commits while this one never returns to its event loop, so does not hear of it.
    let list = store.list('pods');
    while (list.version === 2n) list = store.list('pods');
    assert.equal(store.version, 2n);
    const watch = store.watch('pods', { fromVersion: list.version, signal: never });
    const next = watch.next();
    await created;
    assert.equal(watch.version, 3n);
    await store.create(pod('c'));
    assert.deepEqual(shown((await next).value), ['ADDED c 4']);
  });

  test('a version that was never is refused', async () => {
    await using store = open();
    assert.throws(() => store.watch('pods', { fromVersion: 2n, signal: never }), FutureVersionError);
  });
});

suite('the end of a watch', () => {
  test('by its signal, before, while and after it waits', async () => {
    await using store = open();
    const aborted = store.watch('pods', { fromVersion: 1n, signal: AbortSignal.abort() });
    assert.equal((await aborted.next()).done, true);

    const stop = new AbortController();
    const watch = store.watch('pods', { fromVersion: 1n, signal: stop.signal });
    const pending = watch.next();
    stop.abort();
    assert.equal((await pending).done, true);
    await store.create(pod('a'));
    assert.equal((await watch.next()).done, true, 'what comes later is not for it');
  });

  test('by leaving the loop', async () => {
    await using store = open();
    await store.create(pod('a'));
    const watch = store.watch('pods', { fromVersion: 1n, signal: never });
    for await (const changes of watch) {
      assert.equal(changes.length, 1);
      break;
    }
    assert.equal((await watch.next()).done, true);
  });

  test('by the store', async () => {
    const store = open();
    const waiting = store.watch('pods', { fromVersion: 1n, signal: never });
    const pending = waiting.next();
    const reading = store.watch('pods', { fromVersion: 1n, signal: never });
    const disposed = (error: unknown): boolean =>
      error instanceof RampartError && error.code === errorCodes.DISPOSED;
    const rejected = assert.rejects(pending, disposed);
    await store[Symbol.asyncDispose]();
    await rejected;
    await assert.rejects(reading.next(), disposed);
    assert.equal((await reading.next()).done, true);
  });

  test('allows one reader at a time', async () => {
    await using store = open();
    const watch = store.watch('pods', { fromVersion: 1n, signal: never });
    const first = watch.next();
    await assert.rejects(watch.next(), /it is already being read/);
    await store.create(pod('a'));
    assert.deepEqual(shown((await first).value), ['ADDED a 2']);
  });

  test('a slow reader goes on from the database, and ends when the history is compacted', async () => {
    await using store = open({ historyLimit: 50, recentLimit: 10 });
    const slow = store.watch('pods', { fromVersion: 1n, signal: never });
    const slower = store.watch('pods', { fromVersion: 1n, signal: never });
    for (let n = 0; n < 40; n++) await store.create(pod(`p${n}`));
    const { value } = await slow.next();
    assert.equal(value?.[0]?.object.name, 'p0');
    for (let n = 40; n < 80; n++) await store.create(pod(`p${n}`));
    assert.ok(store.compactedVersion > 1n);
    await assert.rejects(
      slower.next(),
      (error) => error instanceof ExpiredError && error.compactedVersion === store.compactedVersion,
    );
    assert.equal((await slower.next()).done, true);
    const seen = value.length;
    let rest = 0;
    while (seen + rest < 80) rest += (await slow.next()).value?.length ?? 0;
    assert.equal(seen + rest, 80);
  });

  test('one who waits is not behind, however long nothing was for it', async () => {
    await using store = open({ historyLimit: 5, recentLimit: 5 });
    const watch = store.watch('nodes', { fromVersion: 1n, signal: never });
    const pending = watch.next();
    for (let n = 0; n < 50; n++) await store.create(pod(`p${n}`));
    assert.ok(store.compactedVersion > 1n);
    await store.create({ ...pod('node'), resource: 'nodes' });
    assert.deepEqual(shown((await pending).value), ['ADDED node 52']);
    const next = watch.next();
    await store.delete({ ...key('node'), resource: 'nodes' });
    assert.deepEqual(shown((await next).value), ['DELETED node 53']);
  });

  test('a long history comes in parts', async () => {
    await using store = open({ recentLimit: 1 });
    await Promise.all(Array.from({ length: 1200 }, (_, n) => store.create(pod(`p${n}`))));
    const watch = store.watch('pods', { fromVersion: 1n, signal: never });
    const sizes: number[] = [];
    while (sizes.reduce((sum, size) => sum + size, 0) < 1200) {
      sizes.push((await watch.next()).value?.length ?? 0);
    }
    assert.deepEqual(sizes, [500, 500, 200]);
  });

  test('and in smaller ones where objects are large', async () => {
    await using store = open({ recentLimit: 1 });
    for (let n = 0; n < 5; n++) await store.create(pod(`p${n}`, 'x'.repeat(3 * 1024 * 1024)));
    const watch = store.watch('pods', { fromVersion: 1n, signal: never });
    assert.deepEqual(shown((await watch.next()).value), ['ADDED p0 2', 'ADDED p1 3']);
    assert.deepEqual(shown((await watch.next()).value), ['ADDED p2 4', 'ADDED p3 5']);
    assert.deepEqual(shown((await watch.next()).value), ['ADDED p4 6']);
  });
});
