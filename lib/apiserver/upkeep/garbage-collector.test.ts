// Garbage collection through the real store and the real verbs.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { crd, cronTab } from '../custom/crds.fixture.ts';
import type { JsonObject } from '../../json/json.ts';
import { configMap, kinds, ownerOf, startServer, type TestServer } from './server.fixture.ts';

const { configMaps, nodes, namespaces } = kinds;

const gone = (server: TestServer, name: string): Promise<true> =>
  server.until(`${name} is gone`, async () => (await server.get(configMaps, name)) === undefined);

async function metadataOf(server: TestServer, name: string): Promise<JsonObject> {
  return ((await server.get(configMaps, name)) ?? {})['metadata'] as JsonObject;
}

/** Waits until all work is done: a chain that was created last has been collected. */
async function idle(server: TestServer): Promise<void> {
  const name = `idle-${server.store.version}`;
  const uid = '00000000-0000-0000-0000-000000000000';
  const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'none', uid }];
  await server.create(configMaps, configMap(name, { ownerReferences }));
  await gone(server, name);
}

suite('garbage collection', { timeout: 300_000 }, () => {
  test('background: dependents go after their owner, and theirs after them', async () => {
    await using server = await startServer();
    const owner = await server.create(configMaps, configMap('owner'));
    const child = await server.create(configMaps, configMap('child', { ownerReferences: [ownerOf(owner)] }));
    await server.create(configMaps, configMap('grandchild', { ownerReferences: [ownerOf(child)] }));
    await server.create(configMaps, configMap('stranger'));
    await idle(server);
    assert.ok(await server.get(configMaps, 'grandchild'));
    await server.delete(configMaps, 'owner');
    await gone(server, 'child');
    await gone(server, 'grandchild');
    assert.ok(await server.get(configMaps, 'stranger'));
    assert.equal(server.upkeep.counts.dependents, 0);
  });

  test('an object goes when all of its owners are gone; references to gone owners are removed', async () => {
    await using server = await startServer();
    const [one, two] = await Promise.all(
      ['one', 'two'].map((name) => server.create(configMaps, configMap(name))),
    );
    assert.ok(one !== undefined && two !== undefined);
    await server.create(configMaps, configMap('child', { ownerReferences: [ownerOf(one), ownerOf(two)] }));
    await server.delete(configMaps, 'one');
    await server.until('the reference is removed', async () => {
      const { ownerReferences } = await metadataOf(server, 'child');
      return Array.isArray(ownerReferences) && ownerReferences.length === 1;
    });
    assert.deepEqual((await metadataOf(server, 'child'))['ownerReferences'], [ownerOf(two)]);
    await server.delete(configMaps, 'two');
    await gone(server, 'child');
  });

  test('an owner that never was, or is another object by now, counts as gone', async () => {
    await using server = await startServer();
    const owner = await server.create(configMaps, configMap('owner'));
    const uid = crypto.randomUUID();
    await server.create(
      configMaps,
      configMap('absent', { ownerReferences: [ownerOf(owner, { name: 'other' })] }),
    );
    await server.create(configMaps, configMap('another', { ownerReferences: [ownerOf(owner, { uid })] }));
    await gone(server, 'absent');
    await gone(server, 'another');
    assert.ok(await server.get(configMaps, 'owner'));
  });

  test('an owner is looked for in the namespace of the dependent, or in the cluster', async () => {
    await using server = await startServer();
    await server.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'other' } });
    const elsewhere = await server.create(configMaps, configMap('owner', { namespace: 'other' }));
    const node = await server.create(nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node' } });
    await server.create(configMaps, configMap('foreign', { ownerReferences: [ownerOf(elsewhere)] }));
    await server.create(configMaps, configMap('of-node', { ownerReferences: [ownerOf(node)] }));
    await server.create(nodes, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'lost', ownerReferences: [ownerOf(elsewhere)] },
    });
    await gone(server, 'foreign');
    await idle(server);
    assert.ok(await server.get(configMaps, 'of-node'));
    assert.ok(await server.get(nodes, 'lost'), 'a cluster-scoped object cannot have a namespaced owner');
    await server.delete(nodes, 'node');
    await gone(server, 'of-node');
  });

  test('an owner of a kind that is not served says nothing, until it is served', async () => {
    await using server = await startServer();
    const reference = {
      apiVersion: 'stable.example.com/v1',
      kind: 'CronTab',
      name: 'a',
      uid: crypto.randomUUID(),
    };
    await server.create(configMaps, configMap('child', { ownerReferences: [reference] }));
    await idle(server);
    assert.ok(await server.get(configMaps, 'child'));
    await server.define(crd());
    await gone(server, 'child');
  });

  test('dependents of custom resources go with them, those of a definition that is deleted too', async () => {
    await using server = await startServer();
    const resource = await server.define(crd());
    const owner = await server.create(resource, cronTab('a'));
    await server.create(configMaps, configMap('child', { ownerReferences: [ownerOf(owner)] }));
    await idle(server);
    await server.delete(kinds.crds, resource.storeName);
    await gone(server, 'child');
    assert.equal(await server.get(kinds.crds, resource.storeName), undefined);
  });

  test('foreground: the owner goes after the dependents that block it', async () => {
    await using server = await startServer();
    const owner = await server.create(configMaps, configMap('owner'));
    const blocks = ownerOf(owner, { blockOwnerDeletion: true });
    await server.create(configMaps, configMap('quick', { ownerReferences: [blocks] }));
    await server.create(
      configMaps,
      configMap('slow', { ownerReferences: [blocks], finalizers: ['example.com/hold'] }),
    );
    await server.create(
      configMaps,
      configMap('free', { ownerReferences: [ownerOf(owner)], finalizers: ['example.com/hold'] }),
    );
    await server.delete(configMaps, 'owner', 'Foreground');
    await gone(server, 'quick');
    await server.until(
      'slow is being deleted',
      async () => (await metadataOf(server, 'slow'))['deletionTimestamp'],
    );
    await idle(server);
    assert.deepEqual((await metadataOf(server, 'owner'))['finalizers'], ['foregroundDeletion']);
    const place = { namespace: 'default', name: 'slow' };
    await server.calls.patch(configMaps, place, { metadata: { finalizers: null } }, server.signal);
    await gone(server, 'owner');
    assert.ok(await server.get(configMaps, 'free'), 'it does not block its owner');
  });

  test('foreground: an owner without dependents goes at once', async () => {
    await using server = await startServer();
    await server.create(configMaps, configMap('owner'));
    await server.delete(configMaps, 'owner', 'Foreground');
    await gone(server, 'owner');
  });

  test('orphan: dependents stay, and lose the reference', async () => {
    await using server = await startServer();
    const owner = await server.create(configMaps, configMap('owner'));
    for (let index = 0; index < 20; index++) {
      await server.create(configMaps, configMap(`child-${index}`, { ownerReferences: [ownerOf(owner)] }));
    }
    await server.delete(configMaps, 'owner', 'Orphan');
    await gone(server, 'owner');
    await idle(server);
    for (let index = 0; index < 20; index++) {
      const metadata = await metadataOf(server, `child-${index}`);
      assert.equal(metadata['ownerReferences'], undefined);
      assert.equal(metadata['deletionTimestamp'], undefined);
    }
  });

  test('cycles go as a whole', async () => {
    await using server = await startServer();
    const first = await server.create(configMaps, configMap('first'));
    const second = await server.create(
      configMaps,
      configMap('second', { ownerReferences: [ownerOf(first, { blockOwnerDeletion: true })] }),
    );
    const third = await server.create(
      configMaps,
      configMap('third', { ownerReferences: [ownerOf(second, { blockOwnerDeletion: true })] }),
    );
    const patch = { metadata: { ownerReferences: [ownerOf(third, { blockOwnerDeletion: true })] } };
    await server.calls.patch(configMaps, { namespace: 'default', name: 'first' }, patch, server.signal);
    await server.delete(configMaps, 'first', 'Foreground');
    for (const name of ['first', 'second', 'third']) await gone(server, name);
  });

  test('deletions while the server was down are found at its start', async () => {
    await using server = await startServer({ upkeep: false });
    const owner = await server.create(configMaps, configMap('owner'));
    await server.create(configMaps, configMap('child', { ownerReferences: [ownerOf(owner)] }));
    await server.delete(configMaps, 'owner');
    assert.ok(await server.get(configMaps, 'child'));
    const running = server.upkeep.run(server.signal);
    await gone(server, 'child');
    await server[Symbol.asyncDispose]();
    await running;
  });

  test('deletes a thousand dependents', async () => {
    await using server = await startServer();
    const owner = await server.create(configMaps, configMap('owner'));
    const ownerReferences = [ownerOf(owner)];
    await Promise.all(
      Array.from({ length: 1_000 }, (_, index) =>
        server.create(configMaps, configMap(`child-${index}`, { ownerReferences })),
      ),
    );
    await server.until('all are followed', () => server.upkeep.counts.dependents === 1_000);
    await server.delete(configMaps, 'owner');
    await server.until(
      'all are gone',
      () => server.store.list('configmaps', { limit: 1 }).items.length === 0,
    );
    assert.equal(server.upkeep.counts.dependentsDeleted, 1_000);
    assert.equal(server.upkeep.counts.failures, 0);
  });
});
