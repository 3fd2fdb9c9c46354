/** Writes that policies refuse while no server answers for them, and those that they must not refuse. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import {
  configMaps,
  deployments,
  leases,
  namespaces,
  type ResourceType,
} from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { clusterAdmissionPolicyType, type PolicyServer, policyServerType } from '../api.ts';
import { Cluster, system } from './policy-servers.fixture.ts';
import { validatingType } from './webhooks.ts';

const everything = [{ apiGroups: ['*'], apiVersions: ['*'], resources: ['*/*'], operations: ['*'] }];
const eventType: ResourceType = {
  group: 'events.k8s.io',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
  namespaced: true,
};
const configMap = (name: string, namespace: string) => ({ metadata: { name, namespace }, data: {} });

suite('a server that is away', () => {
  test('a policy for everything refuses what it has to, and can itself be deleted, with its server', async () => {
    await using cluster = await Cluster.start();
    const { client } = cluster;
    await cluster.setServer('default');
    await cluster.setPolicy('all', { rules: everything });
    cluster.startOperator();
    await cluster.afterRollOut(validatingType, 'clusterwide-all');
    await until(async () => (await cluster.statusOf('all'))?.policyStatus === 'active');
    cluster.webhooks.client = cluster.newClient();

    await assert.rejects(
      client.create(configMaps, configMap('a', 'shop')),
      /failed calling webhook "clusterwide-all.kubewarden.admission"/,
    );
    await client.create(configMaps, configMap('a', 'kube-system'));
    await client.create(leases, { metadata: { name: 'a', namespace: 'shop' }, spec: {} });
    // The operator goes on writing its objects, and the status of policies.
    await cluster.setPolicy('other');
    await until(async () => (await cluster.statusOf('other'))?.policyStatus === 'pending');
    await client.delete(clusterAdmissionPolicyType, { name: 'all' });
    await client.delete(policyServerType, { name: 'default' });
    await until(async () => (await cluster.webhook(validatingType, 'clusterwide-all')) === undefined);
    await client.create(configMaps, configMap('a', 'shop'));
  });

  test('without a ready pod, its condition, those of its policies and an Event report it', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default');
    await cluster.setPolicy('strict');
    await cluster.setPolicy('lax', { failurePolicy: 'Ignore' });
    cluster.startOperator();
    await cluster.afterRollOut(validatingType, 'clusterwide-strict');
    await cluster.afterRollOut(validatingType, 'clusterwide-lax');
    const said = async (policy: string): Promise<string> => {
      const { conditions = [] } = (await cluster.statusOf(policy)) ?? {};
      const found = conditions.find(({ type }) => type === 'PolicyUniquelyReachable');
      return `${found?.status} ${found?.reason}: ${found?.message}`;
    };
    const ready = async (): Promise<string> => {
      const { status } = await cluster.client.get<PolicyServer>(policyServerType, { name: 'default' });
      const found = status?.conditions?.find(({ type }) => type === 'Ready');
      return `${found?.status} ${found?.reason}`;
    };
    await until(async () => (await ready()) === 'True PodsReady');

    await cluster.rollOut('default', 0);
    await until(async () => (await ready()) === 'False NoReadyPods');
    const strict = await until(async () => (await said('strict')).startsWith('False') && said('strict'));
    assert.match(
      strict,
      /NoReadyPods: the webhook clusterwide-strict is not answered, .* no ready pod: .* refused$/,
    );
    await until(async () => (await said('lax')).endsWith('allowed unchecked'));
    // The user's word stays.
    assert.equal((await cluster.webhook(validatingType, 'clusterwide-strict'))?.['failurePolicy'], 'Fail');
    const events = async (): Promise<string[]> =>
      (await cluster.client.list(eventType, {})).items.map(
        (one) => (one as { reason?: string }).reason ?? '',
      );
    await until(async () => (await events()).includes('NoReadyPods'));

    await cluster.rollOut();
    await until(async () => (await said('strict')).startsWith('True'));
    await until(async () => (await ready()) === 'True PodsReady');
    await until(async () => (await events()).includes('PodsReady'));
  });

  test('no replicas, a namespace that goes, an operator that goes: webhooks go, and each policy says why', async () => {
    await using cluster = await Cluster.start();
    const { client } = cluster;
    const operator = {
      metadata: { name: 'rampart-operator', namespace: system },
      spec: {
        selector: { matchLabels: { app: 'operator' } },
        template: {
          metadata: { labels: { app: 'operator' } },
          spec: { containers: [{ name: 'operator', image: 'registry.example/rampart:1' }] },
        },
      },
    };
    const target = { name: 'rampart-operator', namespace: system };
    await client.create(deployments, operator);
    await cluster.setServer('default');
    await cluster.setPolicy('root');
    let stop = cluster.startOperator();
    const isAsked = async (): Promise<boolean> =>
      (await cluster.webhook(validatingType, 'clusterwide-root')) !== undefined;
    const why = async (): Promise<string | undefined> => {
      const { conditions = [] } = (await cluster.statusOf('root')) ?? {};
      return conditions.find(({ type }) => type === 'PolicyActive')?.message;
    };
    await cluster.afterRollOut(validatingType, 'clusterwide-root');

    await cluster.setServer('default', { replicas: 0 });
    await until(async () => !(await isAsked()));
    await until(async () => (await why()) === 'not enforced: the PolicyServer default has no replicas');
    await cluster.setServer('default');
    await cluster.afterRollOut(validatingType, 'clusterwide-root');

    await stop();
    assert.ok(await isAsked(), 'an operator that restarts takes nothing away');
    stop = cluster.startOperator();
    await cluster.setPolicy('other');
    await cluster.afterRollOut(validatingType, 'clusterwide-other');
    await client.delete(deployments, target);
    await stop();
    assert.ok(!(await isAsked()));
    assert.equal(await why(), 'not enforced: the operator is being deleted');

    await client.create(deployments, operator);
    cluster.startOperator();
    await cluster.afterRollOut(validatingType, 'clusterwide-root');
    await client.create(configMaps, {
      metadata: { name: 'holds', namespace: system, finalizers: ['test.example/holds'] },
    });
    await client.delete(namespaces, { name: system });
    await until(async () => !(await isAsked()));
    await until(async () => (await why()) === `not enforced: the namespace ${system} is being deleted`);
    const release = { type: 'merge', body: { metadata: { finalizers: null } } } as const;
    await client.patch(configMaps, { name: 'holds', namespace: system }, release);
  });
});
