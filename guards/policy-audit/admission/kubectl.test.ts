/**
 * Policies as a user of `kubectl` meets them, in the API that standalone brings.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, suite, test } from 'node:test';

import { parse } from 'yaml';

import { configMaps, type KubeObject, leases, namespaces } from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  admissionPolicyType,
  clusterAdmissionPolicyType,
  policyExceptionType,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../api.ts';
import { AdmittingApi } from './admitting-api.fixture.ts';

const noKubectl = spawnSync('kubectl', ['version', '--client']).status === 0 ? false : 'needs kubectl';
const labelsModule = join(import.meta.dirname, '../../../test/policies/labels.wapc.wasm');
const ownerModule = join(import.meta.dirname, '../../../test/policies/owner.wapc.wasm');

suite('kubectl, with policies', { skip: noKubectl }, () => {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-admission-test-'));
  let api: AdmittingApi;

  interface Said {
    readonly code: number | null;
    readonly out: string;
    readonly error: string;
  }
  // The server is in this process: a call that waits for kubectl would wait for ever.
  const kubectl = (...words: readonly string[]): Promise<Said> => api.kubectl(directory, words);
  const apply = async (text: string): Promise<Said> => {
    writeFileSync(join(directory, 'object.yaml'), text);
    return kubectl('apply', '-f', join(directory, 'object.yaml'));
  };
  /** By another client: where kubectl has nothing to say. */
  const create = (name: string, more: { labels?: Record<string, string>; namespace?: string } = {}) =>
    api.client.create(configMaps, { metadata: { namespace: 'shop', name, ...more }, data: { a: 'b' } });
  const policy = async (name: string, spec: string): Promise<void> => {
    await api.client.create(clusterAdmissionPolicyType, { metadata: { name }, spec: parse(spec) });
    await until(`${name} is active`, async () => {
      const { status } = await api.client.get(clusterAdmissionPolicyType, { name });
      return status?.policyStatus === 'active';
    });
  };
  const remove = async (name: string): Promise<void> => {
    await api.client.delete(clusterAdmissionPolicyType, { name });
    await until(() => !api.policies.enforced.some(({ policy: one }) => one.id === `clusterwide-${name}`));
  };
  const cel = (mode: string, operations: string, expression: string, more = ''): string => `
  module: cel-policy
  mutating: false
  mode: ${mode}
  rules: [{ apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [${operations}] }]
  settings: { validations: [{ expression: "${expression}", message: so it is }] }
${more}`;
  const denied = (name: string): RegExp =>
    new RegExp(`admission webhook "clusterwide-${name}.kubewarden.admission" denied the request: so it is`);

  before(async () => {
    api = await AdmittingApi.start();
    await api.client.create(namespaces, { metadata: { name: 'shop' } });
  });
  // Those of a test that has failed would spoil the next.
  afterEach(async () => {
    for (const type of [
      clusterAdmissionPolicyType,
      validatingAdmissionPolicies,
      validatingAdmissionPolicyBindings,
    ]) {
      for (const { metadata } of (await api.client.list<KubeObject>(type)).items)
        await api.client.delete(type, { name: metadata.name ?? '' });
    }
    await until(() => api.policies.enforced.length === 0);
  });
  after(async () => {
    await api[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true, force: true });
  });

  test('wildcards do not match what the cluster needs', async () => {
    await policy(
      'everything',
      `
  module: cel-policy
  mutating: false
  rules: [{ apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"], operations: [CREATE] }]
  settings: { validations: [{ expression: "false", message: so it is }] }`,
    );
    await assert.rejects(create('spared'), denied('everything'));
    await create('spared', { namespace: 'kube-system' });
    await api.client.create(leases, { metadata: { name: 'spared', namespace: 'shop' }, spec: {} });
    await remove('everything');
  });

  test('only a policy that opts in applies in rampart-system', async () => {
    const inside = { namespace: 'rampart-system' };
    await policy('outside', cel('protect', 'CREATE', 'false'));
    await create('free', inside);
    await remove('outside');
    await policy(
      'inside',
      cel('protect', 'CREATE', 'false', '  allowInsideAdmissionControllerNamespace: true'),
    );
    await assert.rejects(create('held', inside), denied('inside'));
    const { out } = await kubectl('get', 'cap', '-o', 'name');
    assert.equal(out, 'clusteradmissionpolicy.policies.kubewarden.io/inside');
  });

  test('a PolicyException admits its objects while it exists', async () => {
    await policy('excepting', cel('protect', 'CREATE, UPDATE', 'false'));
    await assert.rejects(create('excepted'), denied('excepting'));
    const { code, error } = await apply(`
apiVersion: rampart.dev/v1alpha1
kind: PolicyException
metadata: { name: one, namespace: shop }
spec:
  policies: [{ kind: ClusterAdmissionPolicy, name: excepting }]
  match: { kinds: [ConfigMap], names: ['excep*'] }
  until: '2100-01-01T00:00:00Z'
  reason: a test
`);
    assert.equal(code, 0, error);
    const kinds = { type: 'merge', body: { spec: { match: { kinds: ['[z-a]'] } } } } as const;
    await assert.rejects(
      api.client.patch(policyExceptionType, { namespace: 'shop', name: 'one' }, kinds),
      /spec\.match: Invalid value: .*spec\.match\.kinds/,
    );
    await until(async () => (await kubectl('get', 'policyexceptions', '-n', 'shop')).out.includes('True'));
    await create('excepted');
    await assert.rejects(create('other'), denied('excepting'));
    assert.ok(api.answers('clusterwide-excepting').includes('CREATE excepted'));
    await kubectl('delete', 'policyexception', 'one', '-n', 'shop');
    await until(async () => {
      const patch = { type: 'merge', body: { data: { a: `${Math.random()}` } } } as const;
      const target = { namespace: 'shop', name: 'excepted' };
      return api.client.patch(configMaps, target, patch).then(
        () => false,
        () => true,
      );
    });
    await remove('excepting');
  });

  test('create, update, apply, patch and dry runs are refused by a policy that protects', async () => {
    await create('old');
    await policy(
      'protects',
      cel('protect', 'CREATE, UPDATE', "!has(object.data) || !('bad' in object.data)"),
    );
    for (const words of [
      ['create', 'configmap', 'one', '-n', 'shop', '--from-literal', 'bad=1'],
      ['create', 'configmap', 'one', '-n', 'shop', '--from-literal', 'bad=1', '--dry-run=server'],
      ['patch', 'configmap', 'old', '-n', 'shop', '-p', '{"data":{"bad":"1"}}'],
      [
        'patch',
        'configmap',
        'old',
        '-n',
        'shop',
        '--type=json',
        '-p',
        '[{"op":"add","path":"/data/bad","value":"1"}]',
      ],
    ]) {
      const { code, error } = await kubectl(...words);
      assert.equal(code, 1, words.join(' '));
      assert.match(error, denied('protects'));
    }
    const object =
      'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: old, namespace: shop }\ndata: { bad: "1" }\n';
    assert.match((await apply(object)).error, denied('protects'));
    assert.match(
      (await kubectl('apply', '--server-side', '--force-conflicts', '-f', join(directory, 'object.yaml')))
        .error,
      denied('protects'),
    );
    assert.equal(
      (await kubectl('create', 'configmap', 'good', '-n', 'shop', '--from-literal', 'a=b')).code,
      0,
    );
    await remove('protects');
    assert.equal(
      (await kubectl('create', 'configmap', 'one', '-n', 'shop', '--from-literal', 'bad=1')).code,
      0,
    );
  });

  test('deletions, too', async () => {
    await create('keep');
    await policy('keeps', cel('protect', 'DELETE', "oldObject.metadata.name != 'keep'"));
    assert.match((await kubectl('delete', 'configmap', 'keep', '-n', 'shop')).error, denied('keeps'));
    await remove('keeps');
    assert.equal((await kubectl('delete', 'configmap', 'keep', '-n', 'shop')).code, 0);
  });

  test('one that monitors lets all through, and counts', async () => {
    await policy('monitors', cel('monitor', 'CREATE', 'false'));
    assert.equal((await kubectl('create', 'configmap', 'watched', '-n', 'shop')).code, 0);
    assert.deepEqual(api.answers('clusterwide-monitors'), ['CREATE wouldReject']);
    await remove('monitors');
  });

  test('the message of the policy is a cause if the user has set another message', async () => {
    await policy('says', cel('protect', 'CREATE', 'false', '  message: ask the platform team'));
    const { error } = await kubectl('create', 'configmap', 'x', '-n', 'shop', '-v', '8');
    assert.match(error, /denied the request: ask the platform team/);
    assert.match(error, /causes\\":\[\{.*message\\":\\"so it is/);
    await remove('says');
  });

  test('selectors and match conditions say whom it is about, and a namespace of its own whom it is not', async () => {
    const more = `
  objectSelector: { matchLabels: { strict: "yes" } }
  matchConditions: [{ name: not-mine, expression: "request.name != 'mine'" }]`;
    await policy('selects', cel('protect', 'CREATE, UPDATE', 'false', more));
    const strict = { labels: { strict: 'yes' } };
    const object =
      'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: a, namespace: shop, labels: { strict: "yes" } }\n';
    assert.match((await apply(object)).error, denied('selects'));
    await assert.rejects(create('a', strict), denied('selects'));
    await create('a', { labels: { strict: 'no' } });
    await create('mine', strict);
    await create('own', { ...strict, namespace: 'rampart-system' });
    await remove('selects');
  });

  test('modules of WebAssembly refuse with their code and warn, and mutating ones mutate', async () => {
    await policy(
      'labels',
      cel('protect', 'CREATE', 'true')
        .replace('module: cel-policy', `module: file://${labelsModule}`)
        .replace(/settings: .*/, 'settings: { required: [team] }'),
    );
    const { error } = await kubectl('create', 'configmap', 'unlabelled', '-n', 'shop');
    assert.match(
      error,
      /admission webhook "clusterwide-labels.kubewarden.admission" denied the request: label team is missing/,
    );
    await remove('labels');
    await policy(
      'owner',
      cel('protect', 'CREATE', 'true')
        .replace('module: cel-policy', `module: file://${ownerModule}`)
        .replace('mutating: false', 'mutating: true')
        .replace(/settings: .*/, 'settings: {}'),
    );
    await apply(
      'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: owned, namespace: shop, labels: { a: b } }\n',
    );
    const { metadata } = await api.client.get(configMaps, { namespace: 'shop', name: 'owned' });
    assert.match(JSON.stringify([metadata.labels, metadata.annotations]), /owner/);
    await remove('owner');
  });

  test('a ValidatingAdmissionPolicy refuses in its own words', async () => {
    const both = (action: string): string => `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: { name: few }
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{ apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE] }]
  validations: [{ expression: "!object.metadata.name.startsWith('x')" }]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: { name: few-everywhere }
spec: { policyName: few, validationActions: [${action}] }
`;
    await apply(both('Deny'));
    await until(() => api.policies.enforced.some(({ policy: one }) => one.id === 'few/few-everywhere'));
    const { error } = await kubectl('create', 'configmap', 'xyz', '-n', 'shop');
    assert.match(
      error,
      /configmaps "xyz" is forbidden: ValidatingAdmissionPolicy 'few' with binding 'few-everywhere' denied request: failed expression: !object.metadata.name.startsWith\('x'\)/,
    );
    await apply(both('Warn, Audit'));
    await until(() => api.policies.enforced.some(({ policy: one }) => one.mode === 'monitor'));
    const warned = await kubectl('create', 'configmap', 'xyz', '-n', 'shop');
    assert.equal(warned.code, 0);
    assert.match(
      warned.error,
      /Warning: Validation failed for ValidatingAdmissionPolicy 'few' with binding 'few-everywhere'/,
    );
  });

  test('a policy that cannot work is refused, or says why it is not active', async () => {
    const bad = cel('protect', 'CREATE', 'object.');
    const { code, error } = await apply(
      `apiVersion: policies.kubewarden.io/v1\nkind: ClusterAdmissionPolicy\nmetadata: { name: bad }\nspec:\n${bad}`,
    );
    assert.equal(code, 1);
    assert.match(
      error,
      /spec\.settings\.validations\[0\]\.expression: Invalid value: "object\.": compilation/,
    );
    const settings = (required: string): string =>
      cel('protect', 'CREATE', 'true')
        .replace('module: cel-policy', `module: file://${labelsModule}`)
        .replace(/settings: .*/, `settings: { required: ${required} }`);
    await policy('turns', settings('[team]'));
    // Its previous version decides while the new one cannot be evaluated.
    const body = { spec: { settings: { required: 'team' } } };
    await api.client.patch(clusterAdmissionPolicyType, { name: 'turns' }, { type: 'merge', body });
    await until(async () => {
      const { status } = await api.client.get(clusterAdmissionPolicyType, { name: 'turns' });
      return status?.conditions?.find(({ type }) => type === 'PolicyActive')?.reason === 'FormerPolicyActive';
    });
    assert.match((await kubectl('create', 'configmap', 'y', '-n', 'shop')).error, /label team is missing/);
    await remove('turns');
  });

  test('a policy of a namespace may not name a file of the process that runs it', async () => {
    const { code } = await apply(`apiVersion: policies.kubewarden.io/v1
kind: AdmissionPolicy
metadata: { name: reads-files, namespace: shop }
spec:
  module: file://${labelsModule}
  mutating: false
  rules: [{ apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE] }]
`);
    assert.equal(code, 0);
    const target = { namespace: 'shop', name: 'reads-files' };
    await until(async () => {
      const { status } = await api.client.get(admissionPolicyType, target);
      const active = status?.conditions?.find(({ type }) => type === 'PolicyActive');
      return /may not read files of the process/.test(active?.message ?? '');
    });
    await api.client.delete(admissionPolicyType, target);
  });
});
