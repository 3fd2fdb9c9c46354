import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { IndexedCache } from './indexed-cache.ts';
import type { KubeObject, ResourceType } from '../object/object.ts';

interface Thing extends KubeObject {
  readonly spec?: { readonly tags?: readonly string[]; readonly text?: string };
}
const things: ResourceType<Thing> = {
  group: 'example.org',
  version: 'v1',
  plural: 'things',
  kind: 'Thing',
  namespaced: true,
};

const thing = (name: string, version: number | string, spec: Thing['spec'] = {}): Thing => ({
  metadata: { namespace: 'default', name, resourceVersion: String(version) },
  spec,
});
const tag = ({ spec }: Thing): readonly string[] => spec?.tags ?? [];

function recorded(cache: IndexedCache<Thing>): string[] {
  const changes: string[] = [];
  cache.subscribe(({ type, key, object, previous }) => {
    const before = previous?.metadata.resourceVersion ?? '-';
    changes.push(`${type} ${key} ${before} ${object.metadata.resourceVersion}`);
  });
  return changes;
}

/** A full list. */
async function list(cache: IndexedCache<Thing>, version: number, ...objects: Thing[]): Promise<void> {
  cache.beginList();
  for (const object of objects) cache.put(object);
  await cache.endList(String(version));
}

suite('indexed cache', () => {
  test('lists: added, changed and removed objects; the same version is not a change', async () => {
    const cache = new IndexedCache({ type: things });
    const changes = recorded(cache);
    await list(cache, 5, thing('a', 1), thing('b', 2), thing('c', 3));
    await list(cache, 9, thing('a', 1), thing('b', 7), thing('d', 8));
    assert.deepEqual(changes, [
      'added default/a - 1',
      'added default/b - 2',
      'added default/c - 3',
      'modified default/b 2 7',
      'added default/d - 8',
      'deleted default/c 3 3',
    ]);
    assert.deepEqual([...cache.keys()].sort(), ['default/a', 'default/b', 'default/d']);
    assert.deepEqual(
      new Set([...cache.list()].map(({ metadata }) => metadata.name)),
      new Set(['a', 'b', 'd']),
    );
    assert.deepEqual([cache.size, cache.has('default/c'), cache.get('default/c')], [3, false, undefined]);
  });

  test('a list that is not completed takes nothing away', async () => {
    const cache = new IndexedCache({ type: things });
    await list(cache, 5, thing('a', 1), thing('b', 2));
    cache.beginList();
    cache.put(thing('a', 7));
    await list(cache, 9, thing('b', 2));
    assert.deepEqual([...cache.keys()], ['default/b']);
  });

  test('synced after the first whole list, not before', async () => {
    const cache = new IndexedCache({ type: things });
    cache.beginList();
    cache.put(thing('a', 1));
    assert.equal(cache.isSynced, false);
    await cache.endList('3');
    await cache.synced;
    assert.equal(cache.isSynced, true);
  });

  test('old events: of one that is there, that is gone, that was never there', async () => {
    const cache = new IndexedCache({ type: things });
    await list(cache, 100, thing('a', 50), thing('b', 60));
    const changes = recorded(cache);
    assert.equal(cache.put(thing('a', 9)), 'stale');
    assert.equal(cache.remove(thing('a', 49)), 'stale');
    assert.equal(cache.put(thing('never', 99)), 'stale');
    assert.equal(cache.remove(thing('b', 101)), 'deleted');
    assert.equal(cache.put(thing('b', 60)), 'stale');
    assert.equal(cache.put(thing('b', 101)), 'stale');
    assert.equal(cache.put(thing('b', 102)), 'added');
    assert.equal(cache.remove(thing('b', 101)), 'stale');
    assert.deepEqual(changes, ['deleted default/b 60 101', 'added default/b - 102']);
  });

  test('versions that cannot be compared are taken as they come', async () => {
    const cache = new IndexedCache({ type: things });
    await list(cache, 100, thing('a', 'zz'));
    assert.equal(cache.put(thing('a', 'aa')), 'modified');
    assert.equal(cache.put(thing('a', 'aa')), 'same');
    assert.equal(cache.put(thing('b', 'x')), 'added');
    assert.equal(cache.remove(thing('b', 'y')), 'deleted');
    assert.equal(cache.put(thing('b', 'x')), 'added');
  });

  test('force takes what is older, and the same version only when it is another state', async () => {
    const cache = new IndexedCache({ type: things });
    await list(cache, 100, thing('a', 50), thing('b', 60, { text: 'one' }));
    assert.equal(cache.put(thing('a', 5), { force: true }), 'modified');
    assert.equal(cache.put(thing('new', 7), { force: true }), 'added');
    assert.equal(cache.put(thing('b', 60, { text: 'one' }), { force: true }), 'same');
    assert.equal(cache.put(thing('b', 60, { text: 'two' }), { force: true }), 'modified');
    assert.equal(cache.get('default/b')?.spec?.text, 'two');
  });

  test('objects have kind and apiVersion, read from texts and in changes', async () => {
    const cache = new IndexedCache({ type: things, parsedLimit: 0 });
    const kinds: unknown[] = [];
    cache.subscribe(({ object }) => kinds.push(object.kind));
    await list(cache, 5, thing('a', 1, { text: 'ä€𝄞"\\' }));
    const read = cache.get('default/a');
    assert.deepEqual([read?.apiVersion, read?.kind, kinds], ['example.org/v1', 'Thing', ['Thing']]);
    assert.equal(read?.spec?.text, 'ä€𝄞"\\');
    cache.put({ ...thing('a', 9), kind: 'Other' });
    assert.equal(cache.get('default/a')?.kind, 'Other');
  });

  test('a second read returns the same instance while it is among the last ones', async () => {
    const cache = new IndexedCache({ type: things, parsedLimit: 2 });
    await list(cache, 5, thing('a', 1), thing('b', 2), thing('c', 3));
    const first = cache.get('default/a');
    assert.equal(cache.get('default/a'), first);
    for (const _ of cache.list()) assert.equal(cache.get('default/a'), first);
    cache.get('default/b');
    cache.get('default/c');
    assert.notEqual(cache.get('default/a'), first);
    assert.deepEqual(cache.get('default/a'), first);
  });

  test('a listener that throws, an index that throws: the others go on, and it is counted', async () => {
    const logged: string[] = [];
    const cache = new IndexedCache({
      type: things,
      indexes: {
        bad: () => {
          throw new Error('bad index');
        },
        tag,
      },
      logger: { error: (_: unknown, message: string) => logged.push(message) } as never,
    });
    cache.subscribe(() => {
      throw new Error('bad listener');
    });
    const changes = recorded(cache);
    await list(cache, 5, thing('a', 1, { tags: ['x'] }));
    assert.deepEqual(changes, ['added default/a - 1']);
    assert.deepEqual([cache.keysByIndex('tag', 'x'), cache.keysByIndex('bad', 'x')], [['default/a'], []]);
    assert.equal(cache.stats().faults, 2);
    assert.equal(logged.length, 2);
  });

  test('ends one subscription only, even if the same function has two', () => {
    const cache = new IndexedCache({ type: things });
    let calls = 0;
    const listener = (): void => void calls++;
    const one = cache.subscribe(listener);
    using _two = cache.subscribe(listener);
    cache.put(thing('a', 1));
    one[Symbol.dispose]();
    one[Symbol.dispose]();
    cache.put(thing('a', 2));
    assert.equal(calls, 3);
  });

  test('unknown indexes and invalid options are refused', () => {
    const cache = new IndexedCache({ type: things, indexes: { tag } });
    assert.throws(() => cache.byIndex('node', 'x'), /no index "node".*tag/s);
    assert.throws(() => new IndexedCache({ type: things, parsedLimit: -1 }), { code: 'RAMPART_INPUT' });
  });

  test('whatever comes, objects and indexes are those of a plain Map', async () => {
    const name = fc.constantFrom('a', 'b', 'c', 'd', 'e');
    const tags = fc.array(fc.constantFrom('x', 'y', 'z', 'constructor'), { maxLength: 4 });
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.record({ kind: fc.constant('put' as const), name, tags }) },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant('remove' as const), name, tags }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('list' as const), name, tags }) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const cache = new IndexedCache({ type: things, indexes: { tag }, parsedLimit: 2 });
        const model = new Map<string, Thing>();
        const seen = new Map<string, string>();
        cache.subscribe(({ type, key, object, previous }) => {
          assert.equal(previous?.metadata.resourceVersion, seen.get(key));
          assert.equal(type, type === 'deleted' ? type : seen.has(key) ? 'modified' : 'added');
          if (type === 'deleted') seen.delete(key);
          else seen.set(key, object.metadata.resourceVersion ?? '');
        });
        let version = 1;
        for (const { kind, name: of, tags: spec } of steps) {
          version++;
          if (kind === 'put') {
            cache.put(thing(of, version, { tags: spec }));
            model.set(of, thing(of, version, { tags: spec }));
          } else if (kind === 'remove') {
            cache.remove(thing(of, version));
            model.delete(of);
          } else {
            model.delete(of);
            await list(cache, version, ...[...model.values()].map((object) => structuredClone(object)));
          }
        }
        const keys = (names: Iterable<string>): string[] =>
          [...names].map((of) => `default/${of}`).toSorted();
        assert.deepEqual([...cache.keys()].toSorted(), keys(model.keys()));
        assert.deepEqual([...seen.keys()].toSorted(), keys(model.keys()));
        for (const [of, object] of model) assert.deepEqual(cache.get(`default/${of}`)?.spec, object.spec);
        const values = new Set([...model.values()].flatMap(tag));
        assert.deepEqual([...cache.indexValues('tag')].toSorted(), [...values].toSorted());
        for (const value of values) {
          const having = [...model].filter(([, object]) => tag(object).includes(value)).map(([of]) => of);
          assert.deepEqual(cache.keysByIndex('tag', value).toSorted(), keys(having));
          assert.equal(cache.byIndex('tag', value).length, having.length);
        }
      }),
      { numRuns: 500 },
    );
  });
});
