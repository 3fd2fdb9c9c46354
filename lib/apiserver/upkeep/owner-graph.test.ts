import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { WorkQueue } from '../../kube/controller/workqueue.ts';
import { Registry } from '../resources/registry.ts';
import type { StoredObject } from '../store/object.ts';
import { openStore } from '../store/store.ts';
import { GarbageCollector } from './garbage-collector.ts';
import { OwnerGraph, ownershipOf } from './owner-graph.ts';
import { VerbCalls } from './verb-calls.ts';

interface Parts {
  readonly owners?: readonly string[];
  readonly blocks?: readonly string[];
  readonly finalizers?: readonly string[];
  readonly deleting?: boolean;
}

function stored(
  uid: string,
  { owners = [], blocks = [], finalizers = [], deleting = false }: Parts = {},
): StoredObject {
  const reference = (owner: string, blockOwnerDeletion: boolean) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    name: owner,
    uid: owner,
    blockOwnerDeletion,
  });
  const ownerReferences = [
    ...owners.map((owner) => reference(owner, false)),
    ...blocks.map((owner) => reference(owner, true)),
  ];
  const metadata = {
    name: uid,
    uid,
    ...(ownerReferences.length > 0 ? { ownerReferences } : {}),
    ...(finalizers.length > 0 ? { finalizers } : {}),
    ...(deleting ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {}),
  };
  return {
    resource: 'configmaps',
    namespace: 'default',
    name: uid,
    uid,
    resourceVersion: 2n,
    text: JSON.stringify({ metadata }),
    versionAt: 0,
  };
}

const put = (graph: OwnerGraph, object: StoredObject) => graph.put(object, ownershipOf(object));

suite('OwnerGraph', () => {
  test('keeps only what has owners or waits for dependents', () => {
    const graph = new OwnerGraph();
    assert.equal(put(graph, stored('plain')).node, undefined);
    assert.equal(put(graph, stored('held', { deleting: true, finalizers: ['x/y'] })).node, undefined);
    assert.equal(graph.size, 0);
    assert.equal(put(graph, stored('child', { owners: ['a'] })).ownersChanged, true);
    assert.equal(put(graph, stored('child', { owners: ['a'] })).ownersChanged, false);
    assert.deepEqual(
      [...graph.dependentsOf('a')].map(({ uid }) => uid),
      ['child'],
    );
    put(graph, stored('child', { owners: ['b'] }));
    assert.equal(graph.dependentsOf('a').size, 0);
    assert.equal(graph.dependentsOf('b').size, 1);
    put(graph, stored('child'));
    assert.equal(graph.size, 0);
    assert.equal(graph.dependentsOf('b').size, 0);
  });

  test('reports the beginning of a deletion once', () => {
    const graph = new OwnerGraph();
    const foreground = stored('a', { deleting: true, finalizers: ['foregroundDeletion'] });
    assert.equal(put(graph, foreground).foregroundBegins, true);
    assert.equal(put(graph, foreground).foregroundBegins, false);
    assert.equal(put(graph, stored('b', { deleting: true, finalizers: ['orphan'] })).orphaningBegins, true);
    assert.equal(graph.get('a')?.foreground, true);
  });

  test('reports which owners are no longer blocked', () => {
    const graph = new OwnerGraph();
    put(graph, stored('child', { blocks: ['a', 'b'] }));
    assert.deepEqual(put(graph, stored('child', { blocks: ['b'], owners: ['a'] })).released, ['a']);
    assert.deepEqual(graph.remove({ resource: 'configmaps', uid: 'child' }), ['b']);
    assert.deepEqual(graph.remove({ resource: 'configmaps', uid: 'child' }), []);
  });

  test('finds what is gone when a kind is listed again', () => {
    const graph = new OwnerGraph();
    put(graph, stored('a', { owners: ['x'] }));
    put(graph, stored('b', { owners: ['x'] }));
    graph.listBegins('configmaps');
    put(graph, stored('b', { owners: ['x'] }));
    assert.deepEqual(
      graph.listEnds('configmaps').map(({ uid }) => uid),
      ['a'],
    );
  });
});

test('a list that follows missed changes has all dependents looked at', async () => {
  await using store = openStore({ path: ':memory:' });
  using queue = new WorkQueue();
  const calls = new VerbCalls({ handle: () => Promise.reject(new Error('not called')) }, 'test');
  const registry = new Registry();
  const collector = new GarbageCollector({
    store,
    registry,
    calls,
    queue,
    caughtUp: () => Promise.resolve(),
  });
  const list = (): void => {
    collector.listBegins('configmaps');
    collector.object('ADDED', stored('child', { owners: ['x'] }));
    collector.listEnds('configmaps');
  };
  list();
  assert.equal(queue.tryGet(), 'child');
  queue.done('child');
  list();
  assert.equal(queue.tryGet(), 'child', 'its owner may be gone');
  queue.done('child');
});
