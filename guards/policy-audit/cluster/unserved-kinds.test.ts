/** The operator in a cluster that does not serve all kinds: Kubewarden's, those of PolicyReports, those that policies name. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { runClusterGuards } from '../../../guard/part.fixture.ts';
import { clusterOpenReports, openReports } from '../../../guard/reports/open-reports.ts';
import { Health } from '../../../lib/telemetry/health.ts';
import { startTestApi, TestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { findCondition } from '../../../lib/kube/object/conditions.ts';
import { configMaps, namespaces } from '../../../lib/kube/object/object.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  clusterAdmissionPolicyType,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../api.ts';
import { policyAudit } from '../guard.ts';
import { kindsServed } from '../policies/policy-status.ts';
import { reportTypes } from '../reports/report.ts';
import { clusterPolicy } from '../scanner/scan.fixture.ts';

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

// The statuses themselves: status/section.test.ts.
deepTest(
  'a policy for kinds that the API does not serve says so in its status, until one is served',
  async () => {
    await using cluster = new Cluster(await startTestApi({ name: 'kinds-served', memory: true }));
    const { client } = cluster;
    await cluster.createDefinitions([...policyAudit.resources, openReports, clusterOpenReports]);
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
    const reported = async (name: string): Promise<string | undefined> => {
      const { status } = await client.get(clusterAdmissionPolicyType, { name });
      const served = findCondition(status?.conditions, kindsServed);
      return served && `${served.status} ${served.reason} ${served.message}`;
    };
    await until(
      async () =>
        (await reported('typo')) ===
        'False NoSuchKind it applies to nothing: the API does not serve deployment.apps/v1',
    );
    assert.equal(await reported('right'), undefined);
    const body = { spec: rule('deployments') };
    await client.patch(clusterAdmissionPolicyType, { name: 'typo' }, { type: 'merge', body });
    await until(async () => (await reported('typo'))?.startsWith('True'));
  },
);
