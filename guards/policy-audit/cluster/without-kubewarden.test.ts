/** The operator in a cluster where nobody has installed Kubewarden's definitions, or those of PolicyReports. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { runClusterGuards } from '../../../guard/part.fixture.ts';
import { clusterOpenReports, openReports } from '../../../guard/reports/open-reports.ts';
import { Health } from '../../../lib/telemetry/health.ts';
import { startTestApi, TestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { configMaps, namespaces } from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  clusterAdmissionPolicyType,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../api.ts';
import { policyAudit } from '../guard.ts';
import { reportTypes } from '../reports/report.ts';

class Cluster extends TestApi {
  readonly health = new Health();

  startOperator(): () => Promise<void> {
    const { logger, health } = this;
    const client = this.newClient();
    return this.run((signal) => runClusterGuards([policyAudit], { client, logger, health, signal }));
  }

  async resultsOf(name: string): Promise<readonly string[]> {
    const { items } = await this.client.list(reportTypes.openreports.namespaced, { namespace: 'default' });
    return items
      .filter(({ scope }) => scope?.name === name)
      .flatMap(({ results }) => results.map(({ policy, result }) => `${policy} ${result}`));
  }
}

test('ValidatingAdmissionPolicies are audited without the definitions of Kubewarden; policies once they come', async () => {
  await using cluster = new Cluster(await startTestApi({ name: 'without-kubewarden', memory: true }));
  const { client } = cluster;
  await cluster.createDefinitions([openReports, clusterOpenReports]);
  await client.create(namespaces, { metadata: { name: 'rampart-system' } });
  const rule = { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] };
  await client.create(validatingAdmissionPolicies, {
    metadata: { name: 'carts' },
    spec: {
      matchConstraints: { resourceRules: [rule as never] },
      validations: [{ expression: "object.metadata.name != 'cart'" }],
    },
  });
  await client.create(validatingAdmissionPolicyBindings, {
    metadata: { name: 'all' },
    spec: { policyName: 'carts', validationActions: ['Deny'] },
  });
  await client.create(configMaps, { metadata: { name: 'cart', namespace: 'default' } });
  cluster.startOperator();
  await until(async () => (await cluster.resultsOf('cart')).includes('carts/all fail'));
  await until(() => cluster.health.readiness().ok);

  await cluster.createDefinitions(policyAudit.resources);
  await client.create(clusterAdmissionPolicyType, {
    metadata: { name: 'none' },
    spec: {
      module: 'cel-policy',
      mutating: false,
      rules: [rule],
      settings: { validations: [{ expression: 'false' }] },
    } as never,
  });
  const both = await until('the policy is audited', async () => {
    const results = await cluster.resultsOf('cart');
    return results.length === 2 && results;
  });
  assert.deepEqual(both.toSorted(), ['carts/all fail', 'clusterwide-none fail']);
});
