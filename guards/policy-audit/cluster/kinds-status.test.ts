import assert from 'node:assert/strict';
import { test } from 'node:test';

import { runClusterGuards } from '../../../guard/part.fixture.ts';
import { clusterPolicyReports, policyReports } from '../../../guard/reports/policy-reports.ts';
import { startTestApi, TestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { findCondition } from '../../../lib/kube/object/conditions.ts';
import { namespaces } from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { clusterAdmissionPolicyType } from '../api.ts';
import { policyAudit } from '../guard.ts';
import { kindsServed } from '../policies/policy-status.ts';
import { clusterPolicy } from '../scanner/scan.fixture.ts';

class Cluster extends TestApi {
  startOperator(): void {
    const client = this.newClient();
    this.run((signal) => runClusterGuards([policyAudit], { client, logger: this.logger, signal }));
  }
}

test('a policy for kinds that nobody serves says so in its status, until one is served', async () => {
  await using cluster = new Cluster(await startTestApi({ name: 'kinds-status', memory: true }));
  const { client } = cluster;
  await cluster.createDefinitions([...policyAudit.resources, policyReports, clusterPolicyReports]);
  await client.create(namespaces, { metadata: { name: 'rampart-system' } });
  const rule = (resource: string): object => ({
    rules: [{ apiGroups: ['apps'], apiVersions: ['v1'], resources: [resource], operations: ['CREATE'] }],
  });
  for (const [name, resource] of [
    ['typo', 'deployment'],
    ['right', 'deployments'],
  ] as const)
    await client.create(clusterAdmissionPolicyType, clusterPolicy(name, { more: rule(resource) }));
  cluster.startOperator();
  const told = async (name: string): Promise<string | undefined> => {
    const { status } = await client.get(clusterAdmissionPolicyType, { name });
    const served = findCondition(status?.conditions, kindsServed);
    return served && `${served.status} ${served.reason} ${served.message}`;
  };
  await until(
    async () =>
      (await told('typo')) ===
      'False NoSuchKind it applies to nothing: the API does not serve deployment.apps/v1',
  );
  assert.equal(await told('right'), undefined);
  const body = { spec: rule('deployments') };
  await client.patch(clusterAdmissionPolicyType, { name: 'typo' }, { type: 'merge', body });
  await until(async () => (await told('typo'))?.startsWith('True'));
});
