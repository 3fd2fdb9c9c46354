// The store as its users see it: writes, conflicts, lists, tokens, in memory and on disk, whoever writes.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import {
  AlreadyExistsError,
  ConflictError,
  ExpiredError,
  FutureVersionError,
  MalformedTokenError,
  NotFoundError,
} from './errors.ts';
import type { StoreOptions } from './store-options.ts';
import { openStore, type Store } from './store.ts';
import { key, markOf, pod, text, versionIn } from './store.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';

/** All ways to keep and to write it. */
const backends: readonly { name: string; options: Omit<StoreOptions, 'path'>; memory: boolean }[] = [
  { name: 'memory', memory: true, options: {} },
  { name: 'disk, thread', memory: false, options: { writer: 'thread' } },
  { name: 'disk, inline', memory: false, options: { writer: 'inline' } },
];

const hasCode = (code: string) => (error: unknown) => error instanceof RampartError && error.code === code;
const names = (store: Store, namespace?: string): string[] =>
  store.list('pods', { namespace }).items.map(({ name }) => name);

for (const backend of backends) {
  suite(`store: ${backend.name}`, () => {
    const open = (directory: TemporaryDirectory, options: Partial<StoreOptions> = {}): Store =>
      openStore({ path: backend.memory ? ':memory:' : directory.at('db'), ...backend.options, ...options });

    test('an object is created, read, updated and deleted, each with the next version in its text', async () => {
      using directory = new TemporaryDirectory();
      await using store = open(directory);
      assert.equal(store.version, 1n);
      assert.equal(store.get('pods', 'default', 'a'), undefined);

      const created = await store.create(pod('a', 'first'));
      assert.equal(created.resourceVersion, 2n);
      assert.equal(versionIn(created.text), '2');
      assert.equal(created.text.slice(created.versionAt, created.versionAt + 1), '2');
      assert.deepEqual(store.get('pods', 'default', 'a'), created);

      const updated = await store.update({ ...key('a'), expectedVersion: 2n, text: text('second') });
      assert.equal(versionIn(updated.text), '3');
      assert.equal(updated.uid, created.uid);
      assert.deepEqual(store.get('pods', 'default', 'a'), updated);

      const deleted = await store.delete(key('a'));
      assert.equal(versionIn(deleted.text), '4');
      assert.equal(markOf(deleted.text), 'second');
      assert.equal(store.get('pods', 'default', 'a'), undefined);
      assert.equal(store.version, 4n);
    });

    test('the same name elsewhere is another object', async () => {
      using directory = new TemporaryDirectory();
      await using store = open(directory);
      await store.create(pod('a', 1));
      await store.create(pod('a', 2, 'other'));
      await store.create({ ...pod('a', 3, ''), resource: 'nodes' });
      assert.equal(markOf(store.get('pods', 'other', 'a')?.text ?? ''), 2);
      assert.equal(markOf(store.get('nodes', '', 'a')?.text ?? ''), 3);
      assert.deepEqual(names(store), ['a', 'a']);
      assert.deepEqual(names(store, 'other'), ['a']);
      assert.deepEqual(names(store, 'none'), []);
    });

    test('refusals say why and change nothing', async () => {
      using directory = new TemporaryDirectory();
      await using store = open(directory);
      await store.create(pod('a'));
      await assert.rejects(store.create(pod('a')), (error) => {
        assert.ok(error instanceof AlreadyExistsError && error.code === errorCodes.EXISTS);
        assert.match(error.message, /cannot create pods default\/a: it already exists/);
        return true;
      });
      await assert.rejects(store.update({ ...key('a'), expectedVersion: 7n, text: text(0) }), (error) => {
        assert.ok(error instanceof ConflictError && error.code === errorCodes.CONFLICT);
        assert.match(error.message, /pods default\/a: it is at version 2, not 7/);
        return true;
      });
      await assert.rejects(store.delete({ ...key('a'), expectedVersion: 1n }), ConflictError);
      await assert.rejects(
        store.update({ ...key('b'), expectedVersion: 2n, text: text(0) }),
        (error) => error instanceof NotFoundError && error.code === errorCodes.NOT_FOUND,
      );
      await assert.rejects(store.delete(key('b')), NotFoundError);
      assert.equal(store.version, 2n);
      await store.delete({ ...key('a'), expectedVersion: 2n });
    });

    test('writes of one turn see those before them', async () => {
      using directory = new TemporaryDirectory();
      await using store = open(directory);
      const results = await Promise.allSettled([
        store.create(pod('a', 1)),
        store.create(pod('a', 2)),
        store.update({ ...key('a'), expectedVersion: 2n, text: text(3) }),
        store.update({ ...key('a'), expectedVersion: 2n, text: text(4) }),
        store.delete({ ...key('a'), expectedVersion: 3n }),
        store.create(pod('a', 5)),
      ]);
      assert.deepEqual(
        results.map((result) =>
          result.status === 'fulfilled' ? versionIn(result.value.text) : (result.reason as Error).name,
        ),
        ['2', 'AlreadyExistsError', '3', 'ConflictError', '4', '5'],
      );
      assert.equal(store.counters.commits, 1);
      assert.equal(store.counters.writes, 4);
    });

    test('only one of many who update the same version gets through', async () => {
      using directory = new TemporaryDirectory();
      await using store = open(directory);
      const { resourceVersion } = await store.create(pod('a', 0));
      const results = await Promise.allSettled(
        Array.from({ length: 50 }, (_, n) =>
          store.update({ ...key('a'), expectedVersion: resourceVersion, text: text(n) }),
        ),
      );
      assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
      assert.equal(markOf(store.get('pods', 'default', 'a')?.text ?? ''), 0);
    });

    test('pages are of one version while writes go on', async () => {
      using directory = new TemporaryDirectory();
      await using store = open(directory);
      for (const name of ['b', 'd', 'f', 'h', 'j']) await store.create(pod(name));
      const first = store.list('pods', { limit: 2 });
      assert.deepEqual([first.version, first.remaining], [6n, 3]);
      await store.create(pod('e'));
      await store.delete(key('f'));
      await store.create(pod('f', 'another'));
      await store.update({ ...key('h'), expectedVersion: 5n, text: text('changed') });
      await store.delete(key('b'));
      const second = store.list('pods', { limit: 2, continue: first.continue });
      assert.deepEqual([second.version, second.remaining], [6n, 1]);
      const third = store.list('pods', { limit: 2, continue: second.continue });
      assert.deepEqual([third.version, third.remaining, third.continue], [6n, 0, undefined]);
      assert.deepEqual(
        [first, second, third].map(({ items }) => items.map((item) => markOf(item.text))),
        [['b', 'd'], ['f', 'h'], ['j']],
      );
      assert.deepEqual(names(store), ['d', 'e', 'f', 'h', 'j']);
      assert.deepEqual(
        store.list('pods', { version: 6n }).items.map(({ name }) => name),
        ['b', 'd', 'f', 'h', 'j'],
      );
      assert.equal(
        store.list('pods', { limit: 5 }).continue,
        undefined,
        'a page that is just full is the last',
      );
    });

    test('a list may go on after any item', async () => {
      using directory = new TemporaryDirectory();
      await using store = open(directory);
      for (const namespace of ['x', 'y']) {
        for (const name of ['a', 'b', 'c']) await store.create(pod(name, 0, namespace));
      }
      const page = store.list('pods', { limit: 5 });
      const [, second] = page.items;
      assert.ok(second);
      const rest = store.list('pods', { continue: page.continueAfter(second) });
      assert.deepEqual(
        rest.items.map(({ namespace, name }) => namespace + name),
        ['xc', 'ya', 'yb', 'yc'],
      );
      const inY = store.list('pods', { namespace: 'y', limit: 1 });
      assert.deepEqual(inY.remaining, 2);
      assert.deepEqual(
        store.list('pods', { namespace: 'y', continue: inY.continue }).items.map(({ name }) => name),
        ['b', 'c'],
      );
    });

    test('a namespace whose name begins like another one comes where its keys do', async () => {
      using directory = new TemporaryDirectory();
      await using store = open(directory);
      for (const namespace of ['a', 'a-b', 'a0', 'a.b', 'b']) {
        for (const name of ['x', 'y']) await store.create(pod(name, 0, namespace));
      }
      const expected = ['a-b/x', 'a-b/y', 'a.b/x', 'a.b/y', 'a/x', 'a/y', 'a0/x', 'a0/y', 'b/x', 'b/y'];
      const { version } = store.list('pods');
      await store.delete({ resource: 'pods', namespace: 'a', name: 'x', expectedVersion: undefined });
      for (const limit of [0, 1, 3]) {
        const listed: string[] = [];
        let page = store.list('pods', { version, limit });
        for (;;) {
          listed.push(...page.items.map(({ namespace, name }) => `${namespace}/${name}`));
          assert.equal(listed.length + page.remaining, expected.length);
          if (page.continue === undefined) break;
          page = store.list('pods', { limit, continue: page.continue });
        }
        assert.deepEqual(listed, expected, `in pages of ${limit}`);
      }
      const newest = Buffer.concat([...store.listTexts('pods', {}).parts]).toString();
      assert.equal(JSON.parse(`[${newest}]`).length, expected.length - 1);
    });

    test('tokens and versions that cannot be served', async () => {
      using directory = new TemporaryDirectory();
      await using store = open(directory);
      for (const name of ['a', 'b', 'c']) await store.create(pod(name));
      const page = store.list('pods', { limit: 1 });
      const token = page.continue ?? '';
      assert.throws(() => store.list('nodes', { continue: token }), MalformedTokenError);
      assert.throws(() => store.list('pods', { continue: token, namespace: 'default' }), MalformedTokenError);
      assert.throws(() => store.list('pods', { continue: `${token}A` }), MalformedTokenError);
      assert.throws(() => store.list('pods', { continue: '' }), MalformedTokenError);
      assert.throws(() => store.list('pods', { continue: token, version: 2n }), hasCode(errorCodes.INPUT));
      assert.throws(() => store.list('pods', { version: 9n }), FutureVersionError);
      for (const limit of [-1, 0.5, NaN]) {
        assert.throws(() => store.list('pods', { limit }), hasCode(errorCodes.INPUT));
      }
      await store.delete(key('b'));
      await store.compact();
      assert.throws(
        () => store.list('pods', { continue: token, limit: 1 }),
        (error) => {
          assert.ok(error instanceof ExpiredError && error.code === errorCodes.EXPIRED);
          assert.deepEqual([error.version, error.compactedVersion], [4n, 5n]);
          const newest = store.list('pods', { continue: error.newestToken, limit: 1 });
          assert.deepEqual([newest.version, newest.items[0]?.name], [5n, 'c']);
          return true;
        },
      );
      assert.throws(() => store.list('pods', { version: 4n }), ExpiredError);
      assert.deepEqual(
        store.list('pods', { version: 5n }).items.map(({ name }) => name),
        ['a', 'c'],
      );
    });

    test('keys and texts that would not survive a round trip are refused', async () => {
      using directory = new TemporaryDirectory();
      await using store = open(directory);
      const bad = [pod(''), pod('\ud800'), pod('a\0b'), { ...pod('a'), resource: '' }];
      for (const input of bad) await assert.rejects(store.create(input), hasCode(errorCodes.INPUT));
      const half = { before: '"\ud83d', after: '\ude00"' };
      await assert.rejects(store.create({ ...pod('a'), text: half }), hasCode(errorCodes.INPUT));
      const odd = await store.create({ ...pod('ä😀'), text: { before: '"ä😀', after: '\u2028"' } });
      assert.equal(store.get('pods', 'default', 'ä😀')?.text, odd.text);
      assert.equal(odd.text, '"ä😀2\u2028"');
    });

    test('too much that waits is refused at once, and what was taken is written', async () => {
      using directory = new TemporaryDirectory();
      await using store = open(directory, { maxWaitingSize: 5000 });
      const flood = (namespace: string): Promise<PromiseSettledResult<unknown>[]> =>
        Promise.allSettled(
          Array.from({ length: 10 }, (_, n) => store.create(pod(`p${n}`, 'x'.repeat(1000), namespace))),
        );
      const results = await flood('default');
      const refused = results.filter((result) => result.status === 'rejected');
      assert.ok(refused.length > 0 && refused.length < 10);
      for (const { reason } of refused) assert.ok(hasCode(errorCodes.LIMIT)(reason));
      assert.equal(store.list('pods').items.length, 10 - refused.length);
      await store.create(pod('large', 'x'.repeat(10_000)));
      const again = await flood('later');
      assert.equal(again.filter(({ status }) => status === 'rejected').length, refused.length);
    });

    test('closing waits for writes, then everything says it is closed', async () => {
      using directory = new TemporaryDirectory();
      const store = open(directory);
      const writes = Array.from({ length: 20 }, (_, n) => store.create(pod(`p${n}`)));
      await Promise.all([store[Symbol.asyncDispose](), store[Symbol.asyncDispose]()]);
      assert.equal((await Promise.all(writes)).length, 20);
      const disposed = hasCode(errorCodes.DISPOSED);
      assert.throws(() => store.get('pods', '', 'a'), disposed);
      assert.throws(() => store.list('pods'), disposed);
      await assert.rejects(store.create(pod('z')), disposed);
      await assert.rejects(store.compact(), disposed);
      assert.throws(() => store.watch('pods', { fromVersion: 1n, signal: AbortSignal.abort() }), disposed);
    });
  });
}
