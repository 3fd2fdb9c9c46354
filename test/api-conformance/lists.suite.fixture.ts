// Lists: pages of one snapshot, selectors, versions.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';

import { CoreV1Api } from '@kubernetes/client-node';

import { type Cluster, refusal } from './cluster.fixture.ts';

export function listCases(opened: () => Cluster): void {
  describe('lists', () => {
    let cluster: Cluster;
    let core: CoreV1Api;
    let namespace: string;
    const count = 25;

    before(async () => {
      cluster = opened();
      core = cluster.config.makeApiClient(CoreV1Api);
      namespace = await cluster.namespace();
      for (let index = 0; index < count; index++) {
        await core.createNamespacedConfigMap({
          namespace,
          body: {
            metadata: {
              name: `c${String(index).padStart(2, '0')}`,
              labels: { parity: index % 2 === 0 ? 'even' : 'odd', ...(index < 5 && { low: 'yes' }) },
            },
          },
        });
      }
    });

    const names = (items: readonly { metadata?: { name?: string } }[]): string[] =>
      items.map(({ metadata }) => metadata?.name ?? '');
    /** Real clusters put one into each namespace. */
    const ours = (items: readonly { metadata?: { name?: string } }[]): string[] =>
      names(items).filter((name) => name !== 'kube-root-ca.crt');

    describe('pages', () => {
      test('are of one version, whatever is written meanwhile', async () => {
        const seen: string[] = [];
        const versions = new Set<string | undefined>();
        let token: string | undefined;
        let page = 0;
        do {
          const list = await core.listNamespacedConfigMap({
            namespace,
            limit: 7,
            ...(token !== undefined && { _continue: token }),
          });
          seen.push(...ours(list.items));
          versions.add(list.metadata?.resourceVersion);
          token = list.metadata?._continue;
          if (token === '') token = undefined;
          if (page++ === 0) {
            assert.ok((list.metadata?.remainingItemCount ?? 0) >= count - 7);
            await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'c99' } } });
            await core.deleteNamespacedConfigMap({ namespace, name: 'c24' });
          }
        } while (token !== undefined);
        assert.equal(versions.size, 1);
        assert.deepEqual(
          seen,
          Array.from({ length: count }, (_, index) => `c${String(index).padStart(2, '0')}`),
        );
        await core.deleteNamespacedConfigMap({ namespace, name: 'c99' });
        await core.createNamespacedConfigMap({
          namespace,
          body: { metadata: { name: 'c24', labels: { parity: 'even' } } },
        });
      });

      test('an invalid token is 400', async () => {
        const { code, status } = await refusal(
          core.listNamespacedConfigMap({ namespace, _continue: 'nonsense' }),
        );
        assert.equal(code, 400);
        assert.match(status.message, /continue/);
      });
    });

    describe('label selectors', () => {
      const cases: readonly (readonly [string, number])[] = [
        ['parity=even', 13],
        ['parity!=even', 12],
        ['parity in (odd),low', 2],
        ['!low,parity=odd', 10],
        ['parity notin (odd, even)', 0],
        ['low', 5],
      ];
      for (const [labelSelector, expected] of cases) {
        test(labelSelector, async () => {
          const list = await core.listNamespacedConfigMap({ namespace, labelSelector });
          assert.equal(ours(list.items).length, expected);
        });
      }

      test('pages are full also with a selector', async () => {
        const list = await core.listNamespacedConfigMap({ namespace, labelSelector: 'parity=odd', limit: 5 });
        assert.equal(list.items.length, 5);
        assert.ok(list.metadata?._continue);
        assert.equal(list.metadata?.remainingItemCount, undefined);
      });

      test('one that cannot be read is 400', async () => {
        const { code, status } = await refusal(
          core.listNamespacedConfigMap({ namespace, labelSelector: 'a in (b' }),
        );
        assert.equal(code, 400);
        assert.equal(status.reason, 'BadRequest');
      });
    });

    describe('field selectors', () => {
      test('by name', async () => {
        const list = await core.listNamespacedConfigMap({ namespace, fieldSelector: 'metadata.name=c03' });
        assert.deepEqual(names(list.items), ['c03']);
      });

      test('pods by node and phase', async () => {
        for (const [name, nodeName] of [
          ['one', 'node-a'],
          ['two', 'node-b'],
        ] as const) {
          await core.createNamespacedPod({
            namespace,
            body: { metadata: { name }, spec: { nodeName, containers: [{ name: 'c', image: 'i' }] } },
          });
        }
        const on = (fieldSelector: string) => core.listPodForAllNamespaces({ fieldSelector });
        assert.deepEqual(names((await on(`spec.nodeName=node-b,metadata.namespace=${namespace}`)).items), [
          'two',
        ]);
        const pending = await on(`status.phase=Pending,metadata.namespace=${namespace}`);
        assert.deepEqual(names(pending.items), ['one', 'two']);
        for (const name of ['one', 'two'])
          await core.deleteNamespacedPod({ namespace, name, gracePeriodSeconds: 0 });
      });

      test('by a field that is not supported is 400', async () => {
        const { code, status } = await refusal(
          core.listNamespacedConfigMap({ namespace, fieldSelector: 'data.a=1' }),
        );
        assert.equal(code, 400);
        assert.match(
          status.message,
          /field label not supported: data\.a|"data\.a" is not a known field selector/,
        );
      });
    });

    describe('resourceVersion', () => {
      test('Exact returns the earlier list', async () => {
        const then = (await core.listNamespacedConfigMap({ namespace })).metadata?.resourceVersion ?? '';
        await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'later' } } });
        const list = await core.listNamespacedConfigMap({
          namespace,
          resourceVersion: then,
          resourceVersionMatch: 'Exact',
          limit: 500,
        });
        assert.ok(!names(list.items).includes('later'));
        assert.equal(list.metadata?.resourceVersion, then);
        await core.deleteNamespacedConfigMap({ namespace, name: 'later' });
      });

      test('NotOlderThan gives at least that', async () => {
        const made = await core.createNamespacedConfigMap({
          namespace,
          body: { metadata: { name: 'newest' } },
        });
        const list = await core.listNamespacedConfigMap({
          namespace,
          resourceVersion: made.metadata?.resourceVersion ?? '',
          resourceVersionMatch: 'NotOlderThan',
        });
        assert.ok(names(list.items).includes('newest'));
        await core.deleteNamespacedConfigMap({ namespace, name: 'newest' });
      });

      test('resourceVersionMatch without a version is refused', async () => {
        const answer = await cluster.raw(
          `/api/v1/namespaces/${namespace}/configmaps?resourceVersionMatch=Exact`,
        );
        assert.equal(answer.status, 422);
        assert.equal(answer.json().kind, 'Status');
      });

      test('an invalid version is refused', async () => {
        const answer = await cluster.raw(`/api/v1/namespaces/${namespace}/configmaps?resourceVersion=abc`);
        assert.ok(answer.status === 400 || answer.status === 422, answer.text);
        assert.equal(answer.json().kind, 'Status');
      });
    });
  });
}
