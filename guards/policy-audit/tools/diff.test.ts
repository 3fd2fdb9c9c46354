/** `rampart policy diff`: which objects change their verdict. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { type CommandEnded, Commands } from '../../../apps/commands.fixture.ts';
import { startTestApi, TestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { configMaps, namespaces } from '../../../lib/kube/object/object.ts';
import { policyAudit } from '../guard.ts';
import { policyExceptionType } from '../api.ts';

const policy = (name: string, expression: string, more = ''): string => `
apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata: {name: ${name}}
spec:
  module: cel-policy
  mutating: false
  ${more}
  rules: [{apiGroups: [''], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  settings: {validations: [{expression: "${expression}", message: no ${name}}]}
`;
const is = (name: string): string => `object.metadata.name != '${name}'`;
const map = (name: string): string =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}, namespace: shop}\n`;

/** Allows the ConfigMap that its parameter names. */
const withParameter = (allowed: string): string => `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: one}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]}
  validations: [{expression: object.metadata.name == params.data.name}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: one}
spec:
  policyName: one
  validationActions: [Deny]
  paramRef: {name: allowed, namespace: settings, parameterNotFoundAction: Deny}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: allowed, namespace: settings}
data: {name: ${allowed}}
`;
const excepted = (name: string): string => `${policy('p', 'false')}---
apiVersion: rampart.dev/v1alpha1
kind: PolicyException
metadata: {name: ${name}, namespace: shop}
spec:
  policies: [{kind: ClusterAdmissionPolicy, name: p}]
  match: {kinds: [ConfigMap], names: [${name}]}
  reason: a test
`;

suite('rampart policy diff', () => {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-policy-diff-'));
  const commands = new Commands(directory);
  let api: TestApi;
  before(async () => {
    api = new TestApi(await startTestApi({ name: 'policy-diff', memory: true }));
    await api.createDefinitions(policyAudit.resources);
    const { client } = api;
    await client.create(namespaces, { metadata: { name: 'shop', labels: { tier: 'front' } } });
    for (const name of ['a', 'b', 'c', 'd'])
      await client.create(configMaps, { metadata: { name, namespace: 'shop' } });
    await client.create(policyExceptionType, {
      metadata: { name: 'd', namespace: 'shop' },
      spec: {
        policies: [{ kind: 'ClusterAdmissionPolicy', name: 'p' }],
        match: { kinds: ['ConfigMap'], names: ['d'] },
        reason: 'a test',
      },
    });
  });
  after(async () => {
    await commands[Symbol.asyncDispose]();
    await api[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true, force: true });
  });

  async function diff(old: string, next: string, ...args: string[]): Promise<CommandEnded> {
    writeFileSync(join(directory, 'old.yaml'), old);
    writeFileSync(join(directory, 'new.yaml'), next);
    return commands.run(['policy', 'diff', 'old.yaml', 'new.yaml', ...args], { HOME: directory });
  }

  test('diff of manifests', async () => {
    writeFileSync(join(directory, 'objects.yaml'), ['a', 'b', 'c'].map(map).join('---\n'));
    const { code, stdout, stderr } = await diff(
      policy('p', is('a')),
      policy('q', is('b')),
      '-r',
      'objects.yaml',
    );
    assert.deepEqual([code, stderr], [1, '']);
    assert.match(stdout, /^BEFORE +AFTER +POLICY +OBJECT +FILE\n/);
    assert.match(stdout, /\ndenied +allowed +clusterwide-q +ConfigMap shop\/a +objects\.yaml:2\n +no p\n/);
    assert.match(stdout, /\nallowed +denied +clusterwide-q +ConfigMap shop\/b +objects\.yaml:6\n +no q\n/);
    assert.match(stdout, /\n3 objects compared: 1 newly denied, 1 newly allowed\n$/);
    const same = await diff(policy('p', is('a')), policy('p', is('a')), '-r', 'objects.yaml');
    assert.deepEqual([same.code, same.stdout], [0, '3 objects compared: no verdict changes\n']);
    const failing = await diff(policy('p', is('a')), policy('p', 'object.none == 1'), '-r', 'objects.yaml');
    assert.equal(failing.code, 2, failing.stderr);
    assert.match(failing.stdout, /3 evaluations failed\n$/);
    const invalid = await diff(policy('p', is('a')), policy('p', 'object.'), '-r', 'objects.yaml');
    assert.deepEqual([invalid.code, invalid.stdout], [2, '']);
    assert.match(invalid.stderr, /^rampart: clusterwide-p cannot be evaluated: its settings are invalid/);
  });

  test('diff of a cluster: exceptions stay in effect, and rules that no longer apply allow', async () => {
    const some = 'namespaceSelector: {matchLabels: {tier: front}}';
    const json = async (old: string, next: string) => {
      const { stdout, code } = await diff(old, next, '--kubeconfig', api.kubeconfig, '-o', 'json');
      const { changes, problems } = JSON.parse(stdout) as {
        changes: readonly { object: string; policy: string; before: string; after: string }[];
        problems: readonly string[];
      };
      const said = changes.map(
        ({ object, policy: of, before: was, after: now }) => `${of} ${object}: ${was} ${now}`,
      );
      return { code, problems, said };
    };
    assert.deepEqual(await json(policy('p', is('a')), policy('p', 'false', some)), {
      ...{ code: 1, problems: [] },
      said: ['b', 'c'].map((name) => `clusterwide-p ConfigMap shop/${name}: allowed denied`),
    });
    // With several versions, one that goes, and one that comes.
    const [old, next] = [
      ['p', 'q'],
      ['q', 'r'],
    ].map((names) => names.map((name) => policy(name, is('c'))).join('---\n'));
    assert.deepEqual(await json(old ?? '', next ?? ''), {
      ...{ code: 1, problems: [] },
      said: [
        'clusterwide-p ConfigMap shop/c: denied allowed',
        'clusterwide-r ConfigMap shop/c: allowed denied',
      ],
    });
  });

  test('parameters and exceptions beside a version are of that one alone', async () => {
    writeFileSync(join(directory, 'objects.yaml'), ['a', 'b', 'c'].map(map).join('---\n'));
    const versions = [withParameter('a'), withParameter('b'), excepted('a'), excepted('b')] as const;
    for (const source of [
      ['-r', 'objects.yaml'],
      ['--kubeconfig', api.kubeconfig],
    ]) {
      for (const [old, next] of [versions.slice(0, 2), versions.slice(2)]) {
        const { code, stdout, stderr } = await diff(old ?? '', next ?? '', ...source);
        assert.equal(code, 1, stdout + stderr);
        assert.match(stdout, /\ndenied +allowed +\S+ +ConfigMap shop\/b/);
        assert.match(stdout, /\nallowed +denied +\S+ +ConfigMap shop\/a/);
        assert.match(stdout, /: 1 newly denied, 1 newly allowed\n$/);
      }
    }
  });
});
