// Random operations on the store and on a model of it: every result, every list, page and watch is the same.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';

import * as fc from '../../testing/fast-check.fixture.ts';
import { ExpiredError } from './errors.ts';
import { Model, type ModelChange, type ModelObject } from './model.fixture.ts';
import type { Change, ObjectKey, StoredObject } from './object.ts';
import type { StoreOptions } from './store-options.ts';
import { openStore, type Store } from './store.ts';
import { markOf, text, versionIn } from './store.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';

const resources = ['pods', 'nodes'];
const namespaces = ['', 'ns', 'ns-a'];
// In another order as UTF-16 than as UTF-8.
const objectNames = ['a', 'b', 'b-1', '\uffee', '😀'];

interface Operation {
  readonly verb: 'create' | 'update' | 'delete' | 'compact' | 'watch' | 'pages';
  readonly key: ObjectKey;
  readonly allNamespaces: boolean;
  /** Expect another version than the present one. */
  readonly stale: boolean;
  readonly mark: number;
}

const operation: fc.Arbitrary<Operation> = fc.record({
  verb: fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom('create' as const, 'update' as const, 'delete' as const) },
    { weight: 2, arbitrary: fc.constantFrom('watch' as const, 'pages' as const) },
    { weight: 1, arbitrary: fc.constant('compact' as const) },
  ),
  key: fc.record({
    resource: fc.constantFrom(...resources),
    namespace: fc.constantFrom(...namespaces),
    name: fc.constantFrom(...objectNames),
  }),
  allNamespaces: fc.boolean(),
  stale: fc.boolean().map((stale) => stale),
  mark: fc.nat(1000),
});

/** Turns of the event loop, each with the operations that begin in it. */
const turns = fc.array(fc.array(operation, { minLength: 1, maxLength: 6 }), { minLength: 5, maxLength: 30 });

function plain(object: StoredObject): ModelObject {
  assert.equal(versionIn(object.text), String(object.resourceVersion));
  const { resource, namespace, name, uid, resourceVersion, text: json } = object;
  return { resource, namespace, name, uid, version: resourceVersion, mark: markOf(json) };
}

function plainChange({ type, object, previous }: Change): ModelChange {
  const version = object.resourceVersion;
  return { type, version, object: plain(object), previous: previous && plain(previous) };
}

interface Following {
  readonly resource: string;
  readonly namespace: string | undefined;
  readonly fromVersion: bigint;
  readonly seen: ModelChange[];
  readonly done: Promise<void>;
}

interface Paging {
  readonly resource: string;
  readonly namespace: string | undefined;
  readonly version: bigint;
  readonly items: ModelObject[];
  token: string | undefined;
}

/** One run: a store, its model, and who reads meanwhile. */
class Run {
  readonly #store: Store;
  readonly #model = new Model();
  readonly #stop = new AbortController();
  readonly #following: Following[] = [];
  readonly #paging: Paging[] = [];

  constructor(store: Store) {
    this.#store = store;
  }

  async turn(operations: readonly Operation[]): Promise<void> {
    const writes: Promise<void>[] = [];
    for (const next of operations) {
      if (next.verb === 'compact') writes.push(this.#compact(next));
      else if (next.verb === 'watch') this.#follow(next);
      else if (next.verb === 'pages') this.#page(next);
      else writes.push(this.#write(next, next.verb));
    }
    await Promise.all(writes);
    assert.equal(this.#store.version, this.#model.version);
    for (const paging of this.#paging) this.#nextPage(paging);
  }

  async end(): Promise<void> {
    await setImmediate();
    this.#stop.abort();
    for (const { resource, namespace, fromVersion, seen, done } of this.#following) {
      await done;
      assert.deepEqual(seen, this.#model.changesAfter(resource, namespace, fromVersion));
    }
    for (const resource of resources) {
      for (const namespace of [undefined, ...namespaces]) {
        for (let version = 1n; version <= this.#model.version; version++) {
          await this.#compare(resource, namespace, version);
        }
      }
    }
  }

  async #write({ key, stale, mark }: Operation, verb: 'create' | 'update' | 'delete'): Promise<void> {
    const found = this.#model.get(key);
    const expectedVersion = stale ? 1n : (found?.version ?? this.#model.version);
    const uid = `uid-${this.#model.version}`;
    const expected =
      verb === 'create'
        ? this.#model.create(key, uid, mark)
        : verb === 'update'
          ? this.#model.update(key, expectedVersion, mark)
          : this.#model.delete(key, stale ? 1n : undefined);
    const written =
      verb === 'create'
        ? this.#store.create({ ...key, uid, text: text(mark) })
        : verb === 'update'
          ? this.#store.update({ ...key, expectedVersion, text: text(mark) })
          : this.#store.delete({ ...key, expectedVersion: stale ? 1n : undefined });
    if (expected === undefined) await assert.rejects(written);
    else assert.deepEqual(plain(await written), expected);
  }

  async #compact({ mark }: Operation): Promise<void> {
    const { version, compactedVersion } = this.#store;
    await this.#store.compact(compactedVersion + ((version - compactedVersion) * BigInt(mark % 5)) / 4n);
  }

  #follow({ key: { resource, namespace: one }, allNamespaces }: Operation): void {
    const namespace = allNamespaces ? undefined : one;
    const fromVersion = this.#store.version;
    const seen: ModelChange[] = [];
    const options = { namespace, fromVersion, withPrevious: true, signal: this.#stop.signal };
    const watch = this.#store.watch(resource, options);
    const done = (async () => {
      for await (const changes of watch) seen.push(...changes.map(plainChange));
    })();
    this.#following.push({ resource, namespace, fromVersion, seen, done });
  }

  #page({ key: { resource, namespace: one }, allNamespaces }: Operation): void {
    const namespace = allNamespaces ? undefined : one;
    const { items, version, continue: token } = this.#store.list(resource, { namespace, limit: 1 });
    this.#paging.push({ resource, namespace, version, items: items.map(plain), token });
  }

  #nextPage(paging: Paging): void {
    const { resource, namespace, version, items, token } = paging;
    const all = this.#model.list(resource, namespace, version);
    if (token === undefined) {
      assert.deepEqual(items, all);
      return;
    }
    const read = (): ReturnType<Store['list']> =>
      this.#store.list(resource, { namespace, limit: 1, continue: token });
    if (version < this.#store.compactedVersion) {
      assert.throws(read, ExpiredError);
      return;
    }
    const page = read();
    assert.equal(page.version, version);
    items.push(...page.items.map(plain));
    assert.equal(page.remaining, all.length - items.length);
    paging.token = page.continue;
  }

  /** List at a version and watch from it, long after. */
  async #compare(resource: string, namespace: string | undefined, version: bigint): Promise<void> {
    const { signal } = this.#stop;
    const options = { namespace, fromVersion: version, withPrevious: true };
    if (version < this.#store.compactedVersion) {
      assert.throws(() => this.#store.list(resource, { namespace, version }), ExpiredError);
      assert.throws(() => this.#store.watch(resource, { ...options, signal }), ExpiredError);
      return;
    }
    const { items } = this.#store.list(resource, { namespace, version });
    assert.deepEqual(items.map(plain), this.#model.list(resource, namespace, version));

    const expected = this.#model.changesAfter(resource, namespace, version);
    const stop = new AbortController();
    using watch = this.#store.watch(resource, { ...options, signal: stop.signal });
    const seen: ModelChange[] = [];
    while (seen.length < expected.length) {
      const { value } = await watch.next();
      assert.ok(value && value.length > 0);
      seen.push(...value.map(plainChange));
    }
    assert.deepEqual(seen, expected);
    const more = watch.next();
    assert.equal(watch.version, this.#store.version);
    stop.abort();
    assert.equal((await more).done, true);

    // The earlier list, with the changes since, equals the present list.
    const state = new Map(items.map((item) => [`${item.namespace}/${item.name}`, plain(item)]));
    for (const { type, object } of seen) {
      if (type === 'DELETED') state.delete(`${object.namespace}/${object.name}`);
      else state.set(`${object.namespace}/${object.name}`, object);
    }
    const now = this.#store.list(resource, { namespace }).items.map(plain);
    assert.deepEqual(new Map(now.map((item) => [`${item.namespace}/${item.name}`, item])), state);
  }
}

const kinds: readonly { name: string; runs: number; options: Omit<StoreOptions, 'path'>; disk: boolean }[] = [
  { name: 'in memory', runs: 60, disk: false, options: {} },
  { name: 'in memory, few recent changes', runs: 60, disk: false, options: { recentLimit: 3 } },
  { name: 'in memory, a short history', runs: 60, disk: false, options: { historyLimit: 5, recentLimit: 3 } },
  { name: 'thread, few recent changes', runs: 20, disk: true, options: { recentLimit: 3 } },
];
suite('the store does as the model', () => {
  for (const { name, runs, options, disk } of kinds) {
    test(name, async () => {
      await fc.assert(
        fc.asyncProperty(turns, async (sequence) => {
          using directory = new TemporaryDirectory();
          await using store = openStore({ path: disk ? directory.at('db') : ':memory:', ...options });
          const run = new Run(store);
          for (const operations of sequence) await run.turn(operations);
          await run.end();
        }),
        { numRuns: runs },
      );
    });
  }
});
