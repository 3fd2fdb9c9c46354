// Namespaces that are deleted, through the real store and the real verbs.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { crd, cronTab } from '../custom/crds.fixture.ts';
import type { JsonObject } from '../../json/json.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { namespaceConditions } from './namespace-conditions.ts';
import { configMap, kinds, refusal, startServer, type TestServer } from './server.fixture.ts';

const { configMaps, namespaces } = kinds;

const create = (server: TestServer, name: string) =>
  server.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });

const gone = (server: TestServer, name: string): Promise<true> =>
  server.until(`${name} is gone`, async () => (await server.get(namespaces, name)) === undefined);

suite('namespaces', { timeout: 300_000 }, () => {
  test('the namespaces of every cluster exist, and are unchanged after the next start', async () => {
    using directory = new TemporaryDirectory();
    const store = { path: directory.at('api.db') };
    const names = (server: TestServer) =>
      server.store.list('namespaces').items.map(({ name, uid }) => [name, uid]);
    let before: unknown;
    {
      await using server = await startServer({ store });
      before = names(server);
      assert.deepEqual(
        server.store.list('namespaces').items.map(({ name }) => name),
        ['default', 'kube-node-lease', 'kube-public', 'kube-system'],
      );
    }
    await using server = await startServer({ store });
    assert.deepEqual(names(server), before);
  });

  test('all that is in one goes with it, of all kinds, and nothing of others', async () => {
    await using server = await startServer();
    const resource = await server.define(crd());
    await create(server, 'going');
    await server.create(resource, cronTab('a', {}, { namespace: 'going' }));
    for (let index = 0; index < 50; index++) {
      await server.create(configMaps, configMap(`map-${index}`, { namespace: 'going' }));
    }
    await server.create(configMaps, configMap('stays'));
    await server.delete(namespaces, 'going');
    await gone(server, 'going');
    assert.deepEqual(server.store.list('configmaps', { namespace: 'going' }).items, []);
    assert.deepEqual(server.store.list(resource.storeName).items, []);
    assert.ok(await server.get(configMaps, 'stays'));
    await server.until('it is counted', () => server.upkeep.counts.namespacesFinalized === 1);
    assert.equal(server.upkeep.counts.namespacesTerminating, 0);
  });

  test('finalizers hold a namespace, its status says so, and it goes as soon as they are removed', async () => {
    await using server = await startServer();
    await create(server, 'going');
    await server.create(
      configMaps,
      configMap('held', { namespace: 'going', finalizers: ['example.com/hold'] }),
    );
    await server.create(configMaps, configMap('free', { namespace: 'going' }));
    await server.delete(namespaces, 'going');
    const conditions = await server.until('it has conditions', async () => {
      const object = await server.get(namespaces, 'going');
      return (object?.['status'] as { conditions?: JsonObject[] } | undefined)?.conditions;
    });
    assert.deepEqual(
      conditions.map(({ type, status, reason, message }) => [type, status, reason, message]),
      [
        [
          'NamespaceDeletionDiscoveryFailure',
          'False',
          'ResourcesDiscovered',
          'All resources successfully discovered',
        ],
        [
          'NamespaceDeletionGroupVersionParsingFailure',
          'False',
          'ParsedGroupVersions',
          'All legacy kube types successfully parsed',
        ],
        [
          'NamespaceDeletionContentFailure',
          'False',
          'ContentDeleted',
          'All content successfully deleted, may be waiting on finalization',
        ],
        [
          'NamespaceContentRemaining',
          'True',
          'SomeResourcesRemain',
          'Some resources are remaining: configmaps. has 1 resource instances',
        ],
        [
          'NamespaceFinalizersRemaining',
          'True',
          'SomeFinalizersRemain',
          'Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances',
        ],
      ],
    );
    assert.equal(await server.get(configMaps, 'free', 'going'), undefined);
    const { message } = await refusal(server.create(configMaps, configMap('new', { namespace: 'going' })));
    assert.match(message, /because it is being terminated/);
    const place = { namespace: 'going', name: 'held' };
    await server.calls.patch(configMaps, place, { metadata: { finalizers: null } }, server.signal);
    await gone(server, 'going');
  });

  test('one without content goes at once; others’ finalizers in its spec are left alone', async () => {
    await using server = await startServer();
    const stored = await create(server, 'going');
    const finalizers = ['example.com/mine', 'kubernetes'];
    const place = { namespace: '', name: 'going' };
    const changed = { ...JSON.parse(stored.text), spec: { finalizers } } as JsonObject;
    await server.calls.update(namespaces, place, changed, server.signal, 'finalize');
    await server.delete(namespaces, 'going');
    const left = await server.until('the finalizer of the server is removed', async () => {
      const object = await server.get(namespaces, 'going');
      const spec = object?.['spec'] as { finalizers: string[] };
      return spec.finalizers.length === 1 && object;
    });
    assert.deepEqual(left['spec'], { finalizers: ['example.com/mine'] });
    await server.calls.update(namespaces, place, { ...left, spec: {} }, server.signal, 'finalize');
    await gone(server, 'going');
  });

  test('conditions change only when something does', () => {
    const [then, now] = ['2026-01-02T03:04:05Z', '2026-01-02T03:04:06Z'];
    const report = { remaining: new Map(), finalizers: new Map(), errors: ['one', 'an other'] };
    const first = namespaceConditions([], report, new Date(then));
    assert.equal(first?.[2]?.['message'], 'Failed to delete all resource types, 2 remaining: an other, one');
    assert.equal(namespaceConditions(first ?? [], report, new Date(now)), undefined);
    const second = namespaceConditions(first ?? [], { ...report, errors: ['one'] }, new Date(now));
    assert.equal(second?.[2]?.['lastTransitionTime'], then);
    const third = namespaceConditions(second ?? [], { ...report, errors: [] }, new Date(now));
    assert.deepEqual(
      third?.map(({ lastTransitionTime }) => lastTransitionTime),
      [then, then, now, then, then],
    );
  });
});
