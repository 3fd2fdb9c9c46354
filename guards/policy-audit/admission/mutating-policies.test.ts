/**
 * MutatingAdmissionPolicies in the API that standalone brings: what Kubernetes' own integration tests of them cover, and the rules of
 * either type of patch. It is long because all of it uses one API, which takes longer to start than most of the cases.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, suite, test } from 'node:test';

import { parse } from 'yaml';

import { customResourceDefinitions, established } from '../../../lib/kube/crd/established.ts';
import {
  configMaps,
  deployments,
  type KubeObject,
  namespacedKind,
  namespaces,
  type ResourceType,
} from '../../../lib/kube/object/object.ts';
import { patience, until } from '../../../lib/testing/until.fixture.ts';
import {
  clusterAdmissionPolicyType,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  policyExceptionType,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../api.ts';
import { AdmittingApi } from './admitting-api.fixture.ts';

type Maps = Readonly<Record<string, string>>;

const apply = (expression: string): object => ({
  patchType: 'ApplyConfiguration',
  applyConfiguration: { expression },
});
const patch = (expression: string): object => ({ patchType: 'JSONPatch', jsonPatch: { expression } });
const annotate = (map: string): object => apply(`Object{metadata: Object.metadata{annotations: ${map}}}`);
const counting = (mark: string): object =>
  annotate(`{"n": string(int(object.metadata.annotations["n"]) + 1), "${mark}": "true"}`);
const configMap = 'configmaps';

suite('MutatingAdmissionPolicies', () => {
  let api: AdmittingApi;
  let made: { readonly type: ResourceType; readonly name: string }[] = [];

  const rules = (resource: string, group = '', operations = ['CREATE', 'UPDATE']): object => ({
    resourceRules: [{ apiGroups: [group], apiVersions: ['v1'], resources: [resource], operations }],
  });
  const create = async (type: ResourceType, name: string, spec: object): Promise<void> => {
    await api.client.create(type, { metadata: { name }, spec } as KubeObject);
    made.push({ type, name });
  };
  const policy = (name: string, mutations: readonly object[], more: object = {}): Promise<void> =>
    create(mutatingAdmissionPolicies, name, {
      ...{ matchConstraints: rules(configMap), reinvocationPolicy: 'Never', mutations },
      ...more,
    });
  const bind = async (name: string, more: object = {}, binding = name): Promise<void> => {
    await create(mutatingAdmissionPolicyBindings, binding, { policyName: name, ...more });
    const id = `mutating/${name}/${binding}`;
    await until(() => api.policies.enforced.some((one) => one.policy.id === id && !one.unavailable));
  };
  const bound = async (name: string, mutations: readonly object[], more: object = {}): Promise<void> => {
    await policy(name, mutations, more);
    await bind(name);
  };
  const map = (name: string, annotations: Maps = {}, labels: Maps = {}) =>
    api.client.create(
      configMaps,
      { metadata: { namespace: 'shop', name, annotations, labels }, data: { a: 'b' } },
      { dryRun: true },
    );
  const annotationsOf = async (...given: Parameters<typeof map>): Promise<Maps | undefined> =>
    (await map(...given)).metadata.annotations;
  const params = async (name: string, data: Maps, labels: Maps = {}): Promise<void> => {
    await api.client.create(configMaps, { metadata: { namespace: 'shop', name, labels }, data });
  };

  before(async () => {
    api = await AdmittingApi.start();
    await api.client.create(namespaces, { metadata: { name: 'shop' } });
  });
  afterEach(async () => {
    for (const { type, name } of made.toReversed()) await api.client.delete(type, { name });
    made = [];
    await until(() => api.policies.enforced.length === 0);
    for (const { metadata } of (await api.client.list(configMaps, { namespace: 'shop' })).items)
      await api.client.delete(configMaps, { namespace: 'shop', name: metadata.name ?? '' });
  });
  after(() => api[Symbol.asyncDispose]());

  test('a policy, of either version of the API; without a binding, it does nothing', async () => {
    await policy('alone', [annotate('{"alone": "true"}')]);
    const alpha = { ...mutatingAdmissionPolicies, version: 'v1alpha1' };
    await create(alpha, 'old', {
      ...{ matchConstraints: rules(configMap), reinvocationPolicy: 'Never' },
      mutations: [annotate('{"old": "true"}')],
    });
    await bind('old');
    await bound('new', [annotate('{"new": "true"}')]);
    assert.deepEqual(await annotationsOf('basic'), { new: 'true', old: 'true' });
    const shown = await api.client.get(alpha, { name: 'new' });
    assert.equal(shown.apiVersion, 'admissionregistration.k8s.io/v1alpha1');
    assert.equal((await api.client.get(mutatingAdmissionPolicies, { name: 'old' })).metadata.name, 'old');
  });

  test('variables, and mutations that see each other', async () => {
    await bound(
      'several',
      [
        annotate('{"one": variables.one}'),
        patch(`[JSONPatch{op: "test", path: "/metadata/annotations", value: {"one": variables.one}},
                JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("a.b/two"), value: variables.two}]`),
        annotate('{"three": object.metadata.annotations["a.b/two"]}'),
      ],
      {
        variables: [
          { name: 'one', expression: '"value" + "1"' },
          { name: 'two', expression: 'variables.one.replace("1", "2")' },
        ],
      },
    );
    assert.deepEqual(await annotationsOf('several'), { one: 'value1', 'a.b/two': 'value2', three: 'value2' });
  });

  test('parameters: one, several, of several bindings, and none', async () => {
    const paramKind = { apiVersion: 'v1', kind: 'ConfigMap' };
    await params('first', { key1: 'a' }, { params: 'yes' });
    await params('second', { key2: 'b' }, { params: 'yes' });
    await params('third', { key3: 'c' });
    await policy('given', [annotate('params.data')], { paramKind });
    const ref = (of: object, parameterNotFoundAction = 'Allow'): object => ({
      paramRef: { ...of, parameterNotFoundAction },
    });
    await bind('given', ref({ selector: { matchLabels: { params: 'yes' } } }), 'selected');
    await bind('given', ref({ name: 'third', namespace: 'shop' }), 'named');
    await bind('given', ref({ name: 'none' }), 'absent');
    assert.deepEqual(await annotationsOf('params'), { key1: 'a', key2: 'b', key3: 'c' });
    await bind('given', ref({ name: 'none' }, 'Deny'), 'needed');
    await assert.rejects(
      map('denied'),
      /policy 'given' with binding 'needed' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction/,
    );
  });

  test('match conditions, constraints of the binding, and exceptions', async () => {
    const condition = (value: string) => ({
      matchConditions: [
        { name: 'c', expression: `object.metadata.?labels["env"] == optional.of("${value}")` },
      ],
    });
    await bound('production', [annotate('{"production": "true"}')], condition('production'));
    await bound('testing', [annotate('{"testing": "true"}')], condition('test'));
    await policy('elsewhere', [annotate('{"elsewhere": "true"}')]);
    await bind('elsewhere', { matchResources: { namespaceSelector: { matchLabels: { a: 'b' } } } });
    await policy('excepted', [annotate('{"excepted": "true"}')]);
    await bind('excepted');
    await api.client.create(policyExceptionType, {
      metadata: { name: 'one', namespace: 'shop' },
      spec: {
        policies: [{ kind: 'MutatingAdmissionPolicy', name: 'excepted' }],
        match: { kinds: ['ConfigMap'], names: ['matched'] },
        reason: 'a test',
      },
    });
    await until(async () => (await annotationsOf('matched'))?.['excepted'] === undefined);
    assert.deepEqual(await annotationsOf('matched', {}, { env: 'test' }), { testing: 'true' });
    assert.deepEqual(await annotationsOf('other', {}, { env: 'test' }), {
      testing: 'true',
      excepted: 'true',
    });
    await api.client.delete(policyExceptionType, { name: 'one', namespace: 'shop' });
  });

  test('in the order of their names, and once more if others have changed the object since', async () => {
    for (const [name, reinvocationPolicy] of [
      ['policy', 'IfNeeded'],
      ['policy-b', 'IfNeeded'],
      ['policy-c', 'Never'],
    ] as const)
      await bound(name, [counting(name)], { reinvocationPolicy });
    // 0, 1, 2, 3, then the first two again.
    assert.deepEqual(await annotationsOf('order', { n: '0' }), {
      n: '5',
      policy: 'true',
      'policy-b': 'true',
      'policy-c': 'true',
    });
  });

  test('once more after a policy of Kubewarden, which is a webhook in a cluster', async () => {
    await bound('last', [counting('last')], { reinvocationPolicy: 'IfNeeded' });
    assert.equal((await annotationsOf('alone', { n: '0' }))?.['n'], '1');
    await create(clusterAdmissionPolicyType, 'owner', {
      module: `file://${import.meta.dirname}/../../../test/policies/owner.wapc.wasm`,
      mutating: true,
      rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: [configMap], operations: ['CREATE'] }],
      settings: {},
    });
    await until(
      async () =>
        (await api.client.get(clusterAdmissionPolicyType, { name: 'owner' })).status?.policyStatus ===
        'active',
    );
    const { metadata } = await map('changed', { n: '0' }, { a: 'b' });
    assert.equal(metadata.annotations?.['n'], '2');
  });

  test('an update, and a subresource', async () => {
    await params('stored', { a: 'b' });
    await bound('updates', [annotate('{"of": request.operation, "was": string(oldObject != null)}')]);
    const { metadata } = await api.client.patch(
      configMaps,
      { namespace: 'shop', name: 'stored' },
      { type: 'merge', body: { data: { a: 'c' } } },
    );
    assert.deepEqual(metadata.annotations, { of: 'UPDATE', was: 'true' });
    await bound(
      'status',
      [
        apply(
          'Object{status: Object.status{conditions: [Object.status.conditions{type: "Seen", message: "mutated"}]}}',
        ),
      ],
      { matchConstraints: rules('namespaces/status', '', ['*']) },
    );
    const space = await api.client.patch(
      namespaces,
      { name: 'shop', subresource: 'status' },
      {
        type: 'merge',
        body: { status: { conditions: [{ type: 'Seen', status: 'Unknown', reason: 'r', message: 'm' }] } },
      },
    );
    assert.equal(space.status?.conditions?.[0]?.message, 'mutated');
  });

  test('a failing mutation refuses or is ignored, by failurePolicy; the other mutations count then', async () => {
    const failing = [
      annotate('{"first": "true"}'),
      apply('Object{nothing: "x"}'),
      annotate('{"last": "true"}'),
    ];
    await bound('fails', failing, { failurePolicy: 'Ignore' });
    assert.deepEqual(await annotationsOf('ignored'), { first: 'true', last: 'true' });
    await bound('strict', failing);
    await bound('strict-b', [apply('Object{other: "x"}')]);
    await assert.rejects(map('refused'), (error: Error & { readonly status?: number; reason?: string }) => {
      assert.match(
        error.message,
        /policy 'strict' with binding 'strict' denied request: error applying patch: failed to convert patch object to typed object: \.nothing: field not declared in schema/,
      );
      return true;
    });
    assert.deepEqual(api.answers('mutating/strict-b/strict-b'), ['CREATE error']);
    assert.ok(api.lines.some((line) => line.includes('field not declared in schema')));
  });

  test('a policy that does not compile is refused when it is written', async () => {
    await assert.rejects(
      policy('bad', [apply('Object.spec{}')]),
      /spec\.mutations\[0\]\.applyConfiguration\.expression: Invalid value: .*must evaluate to Object but got Object\.spec/,
    );
    await assert.rejects(
      policy('bad', [annotate('variables.none')]),
      /mutations\[0\]\.applyConfiguration\.expression: Invalid value: .*compilation failed/,
    );
  });

  const volumes = (...of: readonly object[]) => ({ template: { spec: { volumes: of } } });
  const containers = (container: object) => ({ template: { spec: { containers: [container] } } });
  const part = (path: string, fields: string): string => {
    const names = path.split('.');
    return names.reduceRight((inner, name, index) => {
      const own = `Object.${names.slice(0, index + 1).join('.')}`;
      return `${name}: ${name === 'volumes' || name === 'containers' || name === 'env' || name === 'ports' ? `[${own}{${inner}}]` : `${own}{${inner}}`}`;
    }, fields);
  };
  const inPod = (path: string, fields: string): object =>
    apply(`Object{${part(`spec.template.spec.${path}`, fields)}}`);

  const cases: readonly {
    readonly name: string;
    readonly mutation: object;
    readonly spec?: object;
    /** Expected fields of the spec afterwards. */
    readonly has?: object;
    readonly error?: RegExp;
  }[] = [
    {
      name: 'adds to a list that is a map',
      mutation: inPod('volumes', 'name: "y"'),
      spec: volumes({ name: 'x', emptyDir: {} }),
      has: volumes({ name: 'x', emptyDir: {} }, { name: 'y' }),
    },
    {
      name: 'changes an item of it by its key',
      mutation: inPod(
        'volumes',
        'name: "y", hostPath: Object.spec.template.spec.volumes.hostPath{path: "/a"}',
      ),
      spec: volumes({ name: 'x', emptyDir: {} }, { name: 'y' }),
      has: volumes({ name: 'x', emptyDir: {} }, { name: 'y', hostPath: { path: '/a' } }),
    },
    {
      name: 'and one with several keys, of which one has a default',
      mutation: inPod(
        'containers',
        'name: "web", ports: [Object.spec.template.spec.containers.ports{containerPort: 80, name: "http"}]',
      ),
      spec: containers({ name: 'web', image: 'i', ports: [{ containerPort: 80 }, { containerPort: 81 }] }),
      has: containers({
        name: 'web',
        ports: [
          { containerPort: 80, name: 'http', protocol: 'TCP' },
          { containerPort: 81, protocol: 'TCP' },
        ],
      }),
    },
    {
      name: 'conditionals',
      mutation: apply(
        'Object{spec: Object.spec{replicas: object.spec.replicas % 2 == 0 ? object.spec.replicas + 1 : object.spec.replicas}}',
      ),
      spec: { replicas: 2 },
      has: { replicas: 3 },
    },
    {
      name: 'optional fields',
      mutation: apply('Object{spec: Object.spec{?replicas: optional.none(), ?paused: optional.of(true)}}'),
      spec: { replicas: 2 },
      has: { replicas: 2, paused: true },
    },
    {
      name: 'what is added gets defaults, which later mutations see',
      mutation: inPod('containers', 'name: "more", image: "registry.example/more:1"'),
      spec: containers({ name: 'web', image: 'i' }),
      has: {
        template: {
          spec: { containers: [{ name: 'web' }, { name: 'more', imagePullPolicy: 'IfNotPresent' }] },
        },
      },
    },
    {
      name: 'atomic parts may not be changed',
      mutation: apply('Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {"l": "v"}}}}'),
      error: /invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: \.spec\.selector/,
    },
    {
      name: 'atomic lists neither',
      mutation: inPod('containers', 'name: "web", args: ["a"]'),
      error: /may not mutate atomic arrays, maps or structs: \.spec\.template\.spec\.containers\[0\]\.args/,
    },
    {
      name: 'a type that is not at its path',
      mutation: apply('Object{spec: Object.specx{replicas: 1}}'),
      error:
        /type mismatch: unexpected type name "Object\.specx", expected "Object\.spec", which matches field name path from root Object type/,
    },
    {
      name: 'a field that there is not',
      mutation: apply('Object{spec: Object.spec{replicasx: 1}}'),
      error:
        /failed to convert patch object to typed object: \.spec\.replicasx: field not declared in schema/,
    },
    {
      name: 'a value of another type',
      mutation: apply('Object{spec: Object.spec{replicas: "many"}}'),
      error: /\.spec\.replicas: expected numeric \(int or float\), got "many"/,
    },
    {
      name: 'JSON patch: a test that does not hold',
      mutation: patch(
        '[JSONPatch{op: "test", path: "/spec/replicas", value: 100}, JSONPatch{op: "replace", path: "/spec/replicas", value: 3}]',
      ),
      spec: { replicas: 1 },
      has: { replicas: 1 },
    },
    {
      name: 'JSON patch: values by types of the object',
      mutation: patch(
        '[JSONPatch{op: "add", path: "/spec/template/spec/containers/-", value: Object.spec.template.spec.containers{name: "x", image: "i", ports: [Object.spec.template.spec.containers.ports{containerPort: 8080}]}}]',
      ),
      has: {
        template: {
          spec: { containers: [{ name: 'web' }, { name: 'x', ports: [{ containerPort: 8080 }] }] },
        },
      },
    },
    {
      name: 'JSON patch: copied and moved',
      mutation: patch(
        '[JSONPatch{op: "copy", from: "/spec/replicas", path: "/spec/minReadySeconds"}, JSONPatch{op: "remove", path: "/spec/replicas"}]',
      ),
      spec: { replicas: 7 },
      has: { replicas: 1, minReadySeconds: 7 },
    },
    {
      name: 'JSON patch: a field that there is not',
      mutation: patch('[JSONPatch{op: "add", path: "/spec/replicasx", value: 1}]'),
      error: /strict decoding error: unknown field "spec\.replicasx"/,
    },
    {
      name: 'JSON patch: a value of another type',
      mutation: patch('[JSONPatch{op: "add", path: "/spec/replicas", value: "many"}]'),
      error: /cannot unmarshal|json:/,
    },
    {
      name: 'JSON patch: a type that is not at its path',
      mutation: patch(
        '[JSONPatch{op: "add", path: "/spec/strategy", value: Object.spec.strategy{rollingUpdate: Object.spec.other{maxSurge: 1}}}]',
      ),
      error:
        /type mismatch: unexpected type name "Object\.spec\.other", expected "Object\.spec\.strategy\.rollingUpdate"/,
    },
    {
      name: 'the name stays',
      mutation: patch('[JSONPatch{op: "replace", path: "/metadata/name", value: "other"}]'),
      error: /changes metadata\.name, which no policy may change/,
    },
    {
      name: 'so does the kind',
      mutation: patch('[JSONPatch{op: "replace", path: "/kind", value: "Pod"}]'),
      error: /changes kind, which no policy may change/,
    },
  ];
  for (const { name, mutation, spec = {}, has, error } of cases) {
    test(name, async () => {
      await bound('case', [mutation], { matchConstraints: rules('deployments', 'apps') });
      const object = parse(`
        metadata: { name: web, namespace: shop }
        spec:
          selector: { matchLabels: { app: web } }
          template:
            metadata: { labels: { app: web } }
            spec: { containers: [{ name: web, image: i }] }`) as KubeObject & {
        spec: Record<string, object>;
      };
      const { template, ...more } = spec as { readonly template?: { readonly spec: object } };
      Object.assign(object.spec, more);
      Object.assign((object.spec['template'] as { spec: object }).spec, template?.spec);
      const created = api.client.create(deployments, object as never, { dryRun: true });
      if (error !== undefined) return assert.rejects(created, error);
      assert.partialDeepStrictEqual((await created).spec, has);
    });
  }

  test('custom resources: by their schema, and without one lists are atomic', async () => {
    const schema = {
      type: 'object',
      properties: {
        spec: {
          type: 'object',
          properties: {
            parts: {
              type: 'array',
              'x-kubernetes-list-type': 'map',
              'x-kubernetes-list-map-keys': ['name'],
              items: {
                type: 'object',
                required: ['name'],
                properties: { name: { type: 'string' }, size: { type: 'integer', default: 1 } },
              },
            },
            free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
          },
        },
      },
    };
    await api.client.create(customResourceDefinitions, {
      metadata: { name: 'pandas.bears.example' },
      spec: {
        group: 'bears.example',
        names: { plural: 'pandas', singular: 'panda', kind: 'Panda', listKind: 'PandaList' },
        scope: 'Namespaced',
        versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
      },
    });
    await established(api.client, 'pandas.bears.example', {
      timeoutMs: 30_000,
      signal: patience(),
    });
    const type = namespacedKind<KubeObject & { readonly spec?: object }>('bears.example', 'pandas', 'Panda');
    const matchConstraints = rules('pandas', 'bears.example');
    const panda = () =>
      api.client.create(
        type,
        { metadata: { name: 'a', namespace: 'shop' }, spec: { parts: [{ name: 'x' }], free: { a: 1 } } },
        { dryRun: true },
      );
    await bound(
      'parts',
      [
        apply(
          'Object{spec: Object.spec{parts: [Object.spec.parts{name: "y"}], free: Object.spec.free{b: {"c": 2}}}}',
        ),
        apply(
          'Object{spec: Object.spec{parts: [Object.spec.parts{name: "x", size: object.spec.parts[1].size + 1}]}}',
        ),
      ],
      { matchConstraints },
    );
    assert.deepEqual((await panda()).spec, {
      parts: [
        { name: 'x', size: 2 },
        { name: 'y', size: 1 },
      ],
      free: { a: 1, b: { c: 2 } },
    });
    await bound('z-list', [apply('Object{spec: Object.spec{free: Object.spec.free{list: [1]}}}')], {
      matchConstraints,
    });
    await assert.rejects(panda(), /may not mutate atomic arrays, maps or structs: \.spec\.free\.list/);
  });

  test('policies themselves are not mutated; what is validated is the outcome', async () => {
    await bound('all', [annotate('{"all": "true"}')], {
      matchConstraints: {
        resourceRules: [{ apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], operations: ['*'] }],
      },
    });
    await create(validatingAdmissionPolicies, 'annotated', {
      matchConstraints: rules(configMap),
      validations: [{ expression: '"all" in object.metadata.annotations' }],
    });
    await create(validatingAdmissionPolicyBindings, 'annotated', {
      policyName: 'annotated',
      validationActions: ['Deny'],
    });
    const stored = await api.client.get(validatingAdmissionPolicies, { name: 'annotated' });
    assert.equal(stored.metadata.annotations, undefined);
    await until(() => api.policies.enforced.length === 2);
    assert.deepEqual(await annotationsOf('validated'), { all: 'true' });
  });
});
