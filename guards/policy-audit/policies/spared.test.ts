import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { AnyKubewardenPolicy } from '../api.ts';
import { compileMatchConditions } from '../engine/cel/match-conditions.ts';
import { requestFor } from '../engine/requests.fixture.ts';
import type { Policy } from './policy.ts';
import { readKubewardenPolicy } from './read-policy.ts';
import { isSpared, type SparedTarget, sparingCondition } from './spared.ts';

/** `group/resource[/subresource]`, as in `apps/deployments/scale`. */
function ruleOf(...kinds: readonly string[]): object {
  const [group = '', ...resource] = kinds[0]?.split('/') ?? [];
  return { apiGroups: [group], apiVersions: ['*'], operations: ['*'], resources: [resource.join('/')] };
}

function policyOf(rules: readonly object[], spec: object = {}): Policy {
  return readKubewardenPolicy({
    apiVersion: 'policies.kubewarden.io/v1',
    kind: 'ClusterAdmissionPolicy',
    metadata: { name: 'all' },
    spec: { module: 'cel-policy', policyServer: 'default', rules, timeoutSeconds: 10, ...spec },
  } as unknown as AnyKubewardenPolicy);
}

const everything = ruleOf('*/*/*');

function targetOf(text: string, namespace = 'shop', operation = 'UPDATE'): SparedTarget {
  const [group = '', resource = '', subresource = ''] = text.split('/');
  return { group, resource, subresource, namespace, operation };
}

async function isAsked(policy: Policy, target: SparedTarget): Promise<boolean> {
  const condition = sparingCondition(policy);
  const { group, resource, subresource, namespace, operation } = target;
  const { matched, error } = await compileMatchConditions(condition ? [condition] : []).match(
    requestFor(null, {
      operation: operation as 'UPDATE',
      resource: { group, version: 'v1', resource },
      ...(subresource !== '' && { subResource: subresource }),
      ...(namespace !== '' && { namespace }),
    }),
  );
  assert.equal(error, undefined);
  assert.equal(
    isSpared(policy, target),
    !matched,
    `on one machine as in a cluster: ${JSON.stringify(target)}`,
  );
  return matched;
}

suite('objects that wildcards do not match', () => {
  const spared = [
    targetOf('policies.kubewarden.io/policyservers', ''),
    targetOf('policies.kubewarden.io/clusteradmissionpolicies/status', '', 'DELETE'),
    targetOf('wgpolicyk8s.io/policyreports'),
    targetOf('bpfman.io/xdpprograms', ''),
    targetOf('coordination.k8s.io/leases'),
    targetOf('/nodes/status', ''),
    targetOf('/events'),
    targetOf('authorization.k8s.io/subjectaccessreviews', '', 'CREATE'),
    targetOf('/pods', 'kube-system'),
  ];

  test('objects that the cluster needs, and those that repair it', async () => {
    for (const rule of [everything, ruleOf('*/*'), ruleOf('/*'), ruleOf('coordination.k8s.io/*')]) {
      for (const target of spared) assert.equal(await isAsked(policyOf([rule]), target), false);
      for (const text of ['/pods', 'apps/deployments/scale', '/configmaps', '/serviceaccounts/token'])
        assert.equal(await isAsked(policyOf([rule]), targetOf(text)), true, text);
    }
  });

  test('a policy applies to kinds that a rule names, and to no others of these', async () => {
    const policy = policyOf([
      everything,
      { ...ruleOf('policies.kubewarden.io/policyservers'), operations: ['CREATE'] },
      ruleOf('openreports.io/*'),
      ruleOf('/nodes'),
      ruleOf('/pods'),
    ]);
    const asked = [
      targetOf('policies.kubewarden.io/policyservers', '', 'CREATE'),
      targetOf('openreports.io/reports'),
      targetOf('/nodes', ''),
      targetOf('/pods', 'kube-system'),
    ];
    for (const target of asked) assert.equal(await isAsked(policy, target), true, JSON.stringify(target));
    const others = [
      targetOf('policies.kubewarden.io/policyservers', '', 'DELETE'),
      targetOf('policies.kubewarden.io/policyservers/status', '', 'CREATE'),
      targetOf('/nodes/status', ''),
      targetOf('/configmaps', 'kube-system'),
    ];
    for (const target of others) assert.equal(await isAsked(policy, target), false, JSON.stringify(target));
  });

  test('kube-system is asked about where a selector names it', async () => {
    const within = (operator: string): Policy =>
      policyOf([everything], {
        namespaceSelector: {
          matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator, values: ['kube-system'] }],
        },
      });
    assert.equal(await isAsked(within('In'), targetOf('/pods', 'kube-system')), true);
    assert.equal(await isAsked(within('NotIn'), targetOf('/pods', 'kube-system')), false);
  });

  test('without wildcards there is no condition', () => {
    assert.equal(sparingCondition(policyOf([ruleOf('/pods'), ruleOf('/nodes')])), undefined);
  });
});
