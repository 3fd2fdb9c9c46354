/** Policies' reads in `rampart policy run`: parameters, namespaces, other objects. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { Commands } from '../../../apps/commands.fixture.ts';
import { startTestApi, TestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { configMaps, namespaces } from '../../../lib/kube/object/object.ts';

const rules = `[{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]`;
const admissionPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: teams}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: ${rules}}
  validations:
    - expression: "namespaceObject.metadata.labels.team in params.data.teams.split(' ')"
      messageExpression: "'not of ' + params.data.teams"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: all}
spec:
  policyName: teams
  validationActions: [Deny]
  paramRef: {name: teams, namespace: rules, parameterNotFoundAction: Deny}
`;
const celPolicy = `
apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata: {name: teams}
spec:
  module: cel-policy
  mutating: false
  namespaceSelector: {matchExpressions: [{key: team, operator: Exists}]}
  matchConditions: [{name: some, expression: "namespaceObject.metadata.labels.team != 'free'"}]
  contextAwareResources: [{apiVersion: v1, kind: ConfigMap}, {apiVersion: v1, kind: Namespace}]
  rules: ${rules}
  settings:
    paramKind: {apiVersion: v1, kind: ConfigMap}
    paramRef: {selector: {matchLabels: {is: teams}}, parameterNotFoundAction: Deny, namespace: rules}
    validations: [{expression: "namespaceObject.metadata.labels.team in params.data.teams.split(' ')"}]
`;
const pod = 'apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n';
const space = (team: string): string =>
  `apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: ${team}}}\n`;
const params = (teams: string): string =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: teams, namespace: rules, labels: {is: teams}}\ndata: {teams: '${teams}'}\n`;

suite('reads of policies in rampart policy run', () => {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-policy-reads-'));
  const commands = new Commands(directory);
  let api: TestApi;
  before(async () => {
    api = new TestApi(await startTestApi({ name: 'policy-reads', memory: true }));
    await api.client.create(namespaces, { metadata: { name: 'shop', labels: { team: 'b' } } });
    await api.client.create(namespaces, { metadata: { name: 'rules' } });
    await api.client.create(configMaps, {
      metadata: { name: 'teams', namespace: 'rules', labels: { is: 'teams' } },
      data: { teams: 'b c' },
    });
  });
  after(async () => {
    await commands[Symbol.asyncDispose]();
    await api[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true, force: true });
  });

  /** `fail: why`, of the pod. */
  async function result(policy: string, objects: readonly string[], ...args: string[]): Promise<string> {
    writeFileSync(join(directory, 'policy.yaml'), policy);
    writeFileSync(join(directory, 'objects.yaml'), objects.join('---\n'));
    const words = ['policy', 'run', 'policy.yaml', '-r', 'objects.yaml', '-o', 'json', ...args];
    const { stdout, stderr } = await commands.run(words, { HOME: directory });
    const { results } = JSON.parse(stdout || stderr) as {
      results: readonly { object: string; result: string; message?: string }[];
    };
    const found = results.find(({ object }) => object === 'Pod shop/web');
    return [found?.result, found?.message].filter((text) => text !== undefined).join(': ');
  }
  const cluster = (): string[] => ['--kubeconfig', api.kubeconfig];

  test('from the manifests that are given, and from those beside the policy', async () => {
    assert.equal(await result(admissionPolicy, [pod, space('a'), params('a b')]), 'pass');
    assert.equal(await result(admissionPolicy, [pod, space('z'), params('a b')]), 'fail: not of a b');
    assert.equal(await result(`${admissionPolicy}---\n${params('z')}`, [pod, space('z')]), 'pass');
    assert.match(await result(celPolicy, [pod, space('a'), params('a b')]), /^pass/);
    assert.match(await result(celPolicy, [pod, space('z'), params('a b')]), /^fail/);
    assert.equal(
      await result(celPolicy, [pod, space('free'), params('a')]),
      'skip: not matched: matchConditions',
    );
  });

  test('objects that are neither in the manifests nor in a cluster are reported', async () => {
    assert.match(
      await result(admissionPolicy, [pod, params('a')]),
      /^error: .*the Namespace shop is not among the manifests: add it with --resource, or name a cluster with --kubeconfig/,
    );
    assert.match(await result(admissionPolicy, [pod, space('a')]), /^error: .*no params found/);
  });

  test('from the cluster, if the manifests do not have it', async () => {
    assert.equal(await result(admissionPolicy, [pod], ...cluster()), 'pass');
    assert.equal(await result(admissionPolicy, [pod, space('z')], ...cluster()), 'fail: not of b c');
    assert.equal(await result(admissionPolicy, [pod, params('a')], ...cluster()), 'fail: not of a');
    assert.match(await result(celPolicy, [pod], ...cluster()), /^pass/);
    assert.match(await result(celPolicy, [pod, params('a')], ...cluster()), /^fail/);
  });
});
