// Deletion: finalizers, preconditions, owners, namespaces, collections.
/* oxlint-disable typescript/no-misused-spread -- client-node's types are classes, its objects are plain */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { CoreV1Api, type V1OwnerReference } from '@kubernetes/client-node';

import { type Cluster, eventually, refusal } from './cluster.fixture.ts';

export function deletionCases(opened: () => Cluster): void {
  describe('deletion', () => {
    let cluster: Cluster;
    let core: CoreV1Api;
    let namespace: string;
    before(async () => {
      cluster = opened();
      core = cluster.config.makeApiClient(CoreV1Api);
      namespace = await cluster.namespace();
    });

    interface Extra {
      readonly finalizers?: string[];
      readonly ownerReferences?: V1OwnerReference[];
      readonly labels?: Record<string, string>;
    }

    const make = (name: string, extra: Extra = {}, where = namespace) =>
      core.createNamespacedConfigMap({ namespace: where, body: { metadata: { name, ...extra } } });
    const read = (name: string) => core.readNamespacedConfigMap({ namespace, name });
    const remove = (name: string, options: object = {}) =>
      core.deleteNamespacedConfigMap({ namespace, name, ...options });
    const path = (name: string): string => `/api/v1/namespaces/${namespace}/configmaps/${name}`;
    const merge = (name: string, body: object) =>
      cluster.raw(path(name), { method: 'PATCH', type: 'application/merge-patch+json', body });

    async function gone(name: string): Promise<void> {
      await eventually(`${name} is gone`, async () => (await cluster.raw(path(name))).status === 404);
    }

    async function owner(name: string): Promise<V1OwnerReference> {
      const made = await make(name);
      return { apiVersion: 'v1', kind: 'ConfigMap', name, uid: made.metadata?.uid ?? '' };
    }

    describe('finalizers', () => {
      test('hold an object until the last one is taken off', async () => {
        await make('held', { finalizers: ['suite.example/one', 'suite.example/two'] });
        await remove('held');
        const marked = await read('held');
        assert.ok(marked.metadata?.deletionTimestamp instanceof Date);
        assert.equal((await merge('held', { metadata: { finalizers: ['suite.example/two'] } })).status, 200);
        assert.equal((await cluster.raw(path('held'))).status, 200);
        await merge('held', { metadata: { finalizers: null } });
        await gone('held');
      });

      test('none can be added once the deletion was asked for', async () => {
        await make('late', { finalizers: ['suite.example/one'] });
        await remove('late');
        const answer = await merge('late', {
          metadata: { finalizers: ['suite.example/one', 'suite.example/new'] },
        });
        assert.equal(answer.status, 422, answer.text);
        await merge('late', { metadata: { finalizers: null } });
      });
    });

    describe('preconditions', () => {
      test('another uid or version is 409', async () => {
        const made = await make('exact');
        const uid = await refusal(remove('exact', { body: { preconditions: { uid: 'other' } } }));
        assert.equal(uid.code, 409);
        const version = await refusal(remove('exact', { body: { preconditions: { resourceVersion: '1' } } }));
        assert.equal(version.code, 409);
        await remove('exact', {
          body: {
            preconditions: {
              uid: made.metadata?.uid ?? '',
              resourceVersion: made.metadata?.resourceVersion ?? '',
            },
          },
        });
        await gone('exact');
      });

      test('dryRun deletes nothing', async () => {
        await make('dry');
        await remove('dry', { dryRun: 'All' });
        await read('dry');
      });
    });

    describe('owners', () => {
      test('Background: dependents go after their owner', async () => {
        const ref = await owner('parent-a');
        await make('child-a', { ownerReferences: [ref] });
        await remove('parent-a', { propagationPolicy: 'Background' });
        await gone('parent-a');
        await gone('child-a');
      });

      test('Foreground: the owner waits for those that block it', async () => {
        const ref = await owner('parent-b');
        await make('child-b', {
          ownerReferences: [{ ...ref, blockOwnerDeletion: true }],
          finalizers: ['suite.example/hold'],
        });
        await remove('parent-b', { propagationPolicy: 'Foreground' });
        await eventually(
          'the dependent is being deleted',
          async () => (await read('child-b')).metadata?.deletionTimestamp,
        );
        assert.deepEqual((await read('parent-b')).metadata?.finalizers, ['foregroundDeletion']);
        await merge('child-b', { metadata: { finalizers: null } });
        await gone('child-b');
        await gone('parent-b');
      });

      test('Orphan: dependents stay, without the reference', async () => {
        const ref = await owner('parent-c');
        await make('child-c', { ownerReferences: [ref] });
        await remove('parent-c', { propagationPolicy: 'Orphan' });
        await gone('parent-c');
        const child = await read('child-c');
        assert.deepEqual(child.metadata?.ownerReferences ?? [], []);
        assert.equal(child.metadata?.deletionTimestamp, undefined);
      });

      test('an object of two owners goes with the last', async () => {
        const refs = [await owner('parent-d'), await owner('parent-e')];
        await make('child-d', { ownerReferences: refs });
        await remove('parent-d');
        await gone('parent-d');
        await delay(1500);
        await read('child-d');
        await remove('parent-e');
        await gone('child-d');
      });

      test('an owner that never was: the object goes', async () => {
        const uid = '01234567-89ab-cdef-0123-456789abcdef';
        await make('child-f', {
          ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'never', uid }],
        });
        await gone('child-f');
      });

      test('a reference without a uid is 422', async () => {
        const { code } = await refusal(
          make('child-g', { ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'x', uid: '' }] }),
        );
        assert.equal(code, 422);
      });
    });

    describe('collections', () => {
      test('objects that a selector matches go, the others stay', async () => {
        await Promise.all([
          make('k1', { labels: { k: 'a' } }),
          make('k2', { labels: { k: 'a' } }),
          make('k3', { labels: { k: 'b' } }),
        ]);
        await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: 'k=a' });
        const left = await core.listNamespacedConfigMap({ namespace, labelSelector: 'k' });
        assert.deepEqual(
          left.items.map(({ metadata }) => metadata?.name),
          ['k3'],
        );
      });
    });

    describe('namespaces', () => {
      test('go with what is in them', async () => {
        const own = await cluster.namespace();
        const made = await core.readNamespace({ name: own });
        assert.equal(made.status?.phase, 'Active');
        assert.deepEqual(made.spec?.finalizers, ['kubernetes']);
        assert.equal(made.metadata?.labels?.['kubernetes.io/metadata.name'], own);
        await make('inside', {}, own);
        await core.deleteNamespace({ name: own });
        await eventually(
          'the namespace is gone',
          async () => (await cluster.raw(`/api/v1/namespaces/${own}`)).status === 404,
        );
        assert.equal((await cluster.raw(`/api/v1/namespaces/${own}/configmaps/inside`)).status, 404);
      });

      test('take nothing new while they go', async () => {
        const own = await cluster.namespace();
        await make('holds', { finalizers: ['suite.example/hold'] }, own);
        await core.deleteNamespace({ name: own });
        const { code, status } = await refusal(make('too-late', {}, own));
        assert.equal(code, 403);
        assert.match(status.message, /because it is being terminated/);
        assert.ok(status.details?.causes?.some(({ reason }) => reason === 'NamespaceTerminating'));
        await eventually('what holds it is being deleted', async () => {
          const held = await core.readNamespacedConfigMap({ namespace: own, name: 'holds' });
          return held.metadata?.deletionTimestamp;
        });
        await cluster.raw(`/api/v1/namespaces/${own}/configmaps/holds`, {
          method: 'PATCH',
          type: 'application/merge-patch+json',
          body: { metadata: { finalizers: null } },
        });
        await eventually(
          'the namespace is gone',
          async () => (await cluster.raw(`/api/v1/namespaces/${own}`)).status === 404,
        );
      });

      test('default cannot go', async () => {
        const { code } = await refusal(core.deleteNamespace({ name: 'default' }));
        assert.equal(code, 403);
      });
    });
  });
}
