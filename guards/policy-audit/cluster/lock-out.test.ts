/** What policies refuse when nobody can answer for them, and what they must not. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { configMaps, leases } from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { clusterAdmissionPolicyType, policyServerType } from '../api.ts';
import { Cluster } from './policy-servers.fixture.ts';
import { validatingType } from './webhooks.ts';

const everything = [{ apiGroups: ['*'], apiVersions: ['*'], resources: ['*/*'], operations: ['*'] }];
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
});
