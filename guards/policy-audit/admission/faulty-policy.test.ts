/** Policies that cannot work are refused when they are written, naming the field. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { findClusterAccess } from '../../../lib/kube/access/cluster-access.ts';
import { KubeClient } from '../../../lib/kube/client/client.ts';
import { KubeError } from '../../../lib/kube/client/client-errors.ts';
import type { KubeObject, ResourceType } from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  admissionPolicyType,
  clusterAdmissionPolicyGroupType,
  clusterAdmissionPolicyType,
  validatingAdmissionPolicies,
} from '../api.ts';
import { AdmittingApi } from './admitting-api.fixture.ts';

type Spec = Readonly<Record<string, unknown>>;

const rules = [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] }];
const cel = (expression: string): Spec => ({ validations: [{ expression, message: 'no' }] });
const single: Spec = { module: 'cel-policy', mutating: false, rules, settings: cel('true') };
const group: Spec = {
  rules,
  message: 'no',
  expression: 'a() && b()',
  policies: {
    a: { module: 'cel-policy', settings: cel('true') },
    b: { module: 'cel-policy', settings: cel('true') },
  },
};
const native: Spec = { matchConstraints: { resourceRules: rules }, validations: [{ expression: 'true' }] };
const conditions = (...expressions: string[]): Spec => ({
  matchConditions: expressions.map((expression, index) => ({ name: `c${index}`, expression })),
});

interface Case {
  readonly title: string;
  readonly type: ResourceType;
  readonly spec: Spec;
  /** Each with its field. */
  readonly causes: readonly RegExp[];
}

const cluster = clusterAdmissionPolicyType as ResourceType;
const groups = clusterAdmissionPolicyGroupType as ResourceType;
const vap = validatingAdmissionPolicies as unknown as ResourceType;

const cases: readonly Case[] = [
  {
    title: 'a match condition that does not compile',
    type: cluster,
    spec: { ...single, ...conditions('true', 'object.') },
    causes: [/^spec\.matchConditions\[1\]\.expression Invalid value: "object\.": compilation failed: /],
  },
  {
    title: 'a match condition that is no condition',
    type: cluster,
    spec: { ...single, ...conditions("'yes'") },
    causes: [/^spec\.matchConditions\[0\]\.expression .*must evaluate to bool but got string/],
  },
  {
    title: 'over 64 match conditions',
    type: cluster,
    spec: { ...single, ...conditions(...Array.from({ length: 65 }, () => 'true')) },
    causes: [/^spec\.matchConditions Too many: 65: must have at most 64 items/],
  },
  {
    title: 'a match condition whose name webhooks do not take',
    type: cluster,
    spec: { ...single, matchConditions: [{ name: 'not qualified', expression: 'true' }] },
    causes: [/^spec\.matchConditions\[0\]\.name .*should match/],
  },
  {
    title: 'a rule about no version and no resource',
    type: cluster,
    spec: { ...single, rules: [{ ...rules[0], apiVersions: [], resources: [] }] },
    causes: [
      /^spec\.rules\[0\]\.apiVersions .*should have at least 1 items/,
      /^spec\.rules\[0\]\.resources .*should have at least 1 items/,
    ],
  },
  {
    title: 'expressions of a CEL policy that do not compile, all of them',
    type: cluster,
    spec: {
      ...single,
      settings: {
        variables: [{ name: 'v', expression: 'object.+' }],
        validations: [{ expression: 'true' }, { expression: 'request.nothing(' }],
      },
    },
    causes: [
      /^spec\.settings\.variables\[0\]\.expression .*compilation failed/,
      /^spec\.settings\.validations\[1\]\.expression .*compilation failed/,
    ],
  },
  {
    title: 'a member of a group whose expression does not compile',
    type: groups,
    spec: {
      ...group,
      policies: {
        a: { module: 'cel-policy', settings: cel('true') },
        b: { module: 'cel-policy', settings: cel('1 +') },
      },
    },
    causes: [/^spec\.policies\.b\.settings\.validations\[0\]\.expression .*compilation failed/],
  },
  {
    title: 'a group expression that names nobody',
    type: groups,
    spec: { ...group, expression: 'a() || c()' },
    causes: [/^spec\.expression Invalid value: "a\(\) \|\| c\(\)": column 8: there is no policy "c"/],
  },
  {
    title: 'a group expression that asks nobody',
    type: groups,
    spec: { ...group, expression: 'true' },
    causes: [/^spec\.expression .*it calls none of the policies/],
  },
  {
    title: 'a group expression that is none',
    type: groups,
    spec: { ...group, expression: 'a() &&' },
    causes: [/^spec\.expression .*expected a member call, found the end/],
  },
  {
    title: 'a mutating group',
    type: groups,
    spec: { ...group, mutating: true },
    causes: [/^spec\.mutating .*a group cannot be mutating/],
  },
  ...[1, 31].map((timeoutSeconds) => ({
    title: `a timeout of ${timeoutSeconds} s`,
    type: cluster,
    spec: { ...single, timeoutSeconds },
    causes: [/^spec\.timeoutSeconds .*should be (?:greater than or equal to 2|less than or equal to 30)/],
  })),
  ...[1, 31].map((timeoutEvalSeconds) => ({
    title: `an evaluation of ${timeoutEvalSeconds} s`,
    type: cluster,
    spec: { ...single, timeoutSeconds: 30, timeoutEvalSeconds },
    causes: [
      /^spec\.timeoutEvalSeconds .*should be (?:greater than or equal to 2|less than or equal to 30)/,
      ...(timeoutEvalSeconds > 30 ? [/cannot be greater than timeoutSeconds/] : []),
    ],
  })),
  {
    title: 'an evaluation that takes longer than its request may',
    type: cluster,
    spec: { ...single, timeoutSeconds: 5, timeoutEvalSeconds: 6 },
    causes: [/^spec\.timeoutEvalSeconds .*timeoutEvalSeconds cannot be greater than timeoutSeconds/],
  },
  ...[7, 3].map((seconds) => ({
    title: `a group whose members may take ${seconds} s and 3 s, in a request of 5 s`,
    type: groups,
    spec: {
      ...group,
      timeoutSeconds: 5,
      policies: {
        a: { module: 'cel-policy', settings: cel('true'), timeoutEvalSeconds: seconds },
        b: { module: 'cel-policy', settings: cel('true'), timeoutEvalSeconds: 3 },
      },
    },
    causes: [/^spec\.policies .*the sum of all members' timeoutEvalSeconds/],
  })),
  {
    title: 'a policy of a namespace for the reports of all groups',
    type: admissionPolicyType,
    spec: { ...single, rules: [{ ...rules[0], apiGroups: ['*'], resources: ['policyreports'] }] },
    causes: [/^spec\.rules\[0\].*reports cannot be targeted/],
  },
  {
    title: 'a policy of a namespace for everything',
    type: admissionPolicyType,
    spec: { ...single, rules: [{ ...rules[0], apiGroups: ['*'], resources: ['*'] }] },
    causes: [
      /^spec\.rules\[0\].*apiGroups and resources cannot both use wildcards/,
      /^spec\.rules\[0\].*reports cannot be targeted/,
    ],
  },
  {
    title: 'a selector with an operator that there is not',
    type: cluster,
    spec: { ...single, objectSelector: { matchExpressions: [{ key: 'a', operator: 'Near' }] } },
    causes: [/^spec.*"Near"/],
  },
  {
    title: 'a ValidatingAdmissionPolicy whose expressions do not compile',
    type: vap,
    spec: { ...native, ...conditions('1'), validations: [{ expression: 'params.a == 1' }] },
    causes: [
      /^spec\.matchConditions\[0\]\.expression .*must evaluate to bool but got int/,
      /^spec\.validations\[0\]\.expression .*compilation failed: .*undeclared reference to 'params'/,
    ],
  },
  {
    title: 'a ValidatingAdmissionPolicy with a selector that cannot be read',
    type: vap,
    spec: {
      matchConstraints: {
        resourceRules: rules,
        namespaceSelector: { matchExpressions: [{ key: 'a', operator: 'Near' }] },
      },
      validations: [{ expression: 'true' }],
    },
    causes: [/^spec\.matchConstraints.*"Near"/],
  },
  {
    title: 'its binding, likewise',
    type: { ...vap, plural: 'validatingadmissionpolicybindings', kind: 'ValidatingAdmissionPolicyBinding' },
    spec: {
      ...{ policyName: 'x', validationActions: ['Deny'] },
      matchResources: { objectSelector: { matchExpressions: [{ key: 'a', operator: 'Near' }] } },
    },
    causes: [/^spec\.matchResources.*"Near"/],
  },
];

suite('a policy that cannot work', () => {
  let api: AdmittingApi;
  let client: KubeClient;

  before(async () => {
    api = await AdmittingApi.start();
    client = new KubeClient(findClusterAccess({ path: api.kubeconfig }), { perSecond: 1000, burst: 1000 });
  });
  after(async () => {
    client[Symbol.dispose]();
    await api[Symbol.asyncDispose]();
  });

  const create = async (type: ResourceType, name: string, spec: Spec): Promise<KubeObject> => {
    const body = {
      apiVersion: `${type.group}/${type.version}`,
      kind: type.kind,
      metadata: { name, ...(type.namespaced && { namespace: 'default' }) },
      spec,
    };
    return client.create(type, body);
  };
  const refusal = async (write: Promise<unknown>): Promise<KubeError> => {
    const [result] = await Promise.allSettled([write]);
    assert.ok(result?.status === 'rejected' && result.reason instanceof KubeError, 'it was taken');
    return result.reason;
  };

  for (const { title, type, spec, causes } of cases) {
    test(`${title} is refused`, async () => {
      const { status, details } = await refusal(create(type, 'bad', spec));
      assert.equal(status, 422);
      // Without a field: that some rules were not looked at.
      const named = (details?.causes ?? []).filter(({ field }) => field !== '<nil>');
      const reported = named.map(({ field, message }) => `${field} ${message}`);
      assert.equal(reported.length, causes.length, reported.join('\n'));
      for (const [index, cause] of causes.entries()) assert.match(reported[index] ?? '', cause);
    });
  }

  for (const [title, type, spec] of [
    ['a policy', cluster, single],
    ['a group', groups, group],
    ['a ValidatingAdmissionPolicy', vap, native],
  ] as const) {
    test(`${title} that can work is taken`, async () => {
      await create(type, 'good', spec);
    });
  }

  test('from protect to monitor is refused, and so is a change to what cannot work', async () => {
    await create(cluster, 'turns', { ...single, mode: 'protect' });
    const patch = (body: object): Promise<unknown> =>
      client.patch(cluster, { name: 'turns' }, { type: 'merge', body });
    const { status, details } = await refusal(patch({ spec: { mode: 'monitor' } }));
    assert.equal(status, 422);
    assert.match(
      JSON.stringify(details),
      /cannot transition from protect to monitor. Recreate instead.*spec\.mode/,
    );
    assert.equal((await refusal(patch({ spec: { settings: cel('1 +') } }))).status, 422);
    await patch({ metadata: { labels: { a: 'b' } } });
  });
});

test('match conditions of a ValidatingAdmissionPolicy may look at its parameters', async () => {
  await using api = await AdmittingApi.start();
  using client = new KubeClient(findClusterAccess({ path: api.kubeconfig }));
  const write = (type: ResourceType, body: object): Promise<KubeObject> =>
    client.create(type, body as KubeObject);
  const maps: ResourceType = {
    group: '',
    version: 'v1',
    plural: 'configmaps',
    kind: 'ConfigMap',
    namespaced: true,
  };
  const configMap = (name: string): object => ({ metadata: { name, namespace: 'default' } });
  await write(maps, { ...configMap('limits'), data: { only: 'bad' } });
  await write(vap, {
    metadata: { name: 'params' },
    spec: {
      paramKind: { apiVersion: 'v1', kind: 'ConfigMap' },
      matchConstraints: { resourceRules: [{ ...rules[0], resources: ['configmaps'] }] },
      ...conditions('object.metadata.name == params.data.only'),
      validations: [{ expression: 'false', message: 'refused' }],
    },
  });
  await write(
    { ...vap, plural: 'validatingadmissionpolicybindings', kind: 'ValidatingAdmissionPolicyBinding' },
    {
      metadata: { name: 'params' },
      spec: {
        policyName: 'params',
        validationActions: ['Deny'],
        paramRef: { name: 'limits', namespace: 'default', parameterNotFoundAction: 'Deny' },
      },
    },
  );
  await until(() => api.policies.enforced.length > 0);
  await assert.rejects(write(maps, configMap('bad')), { status: 422 });
  await write(maps, configMap('good'));
});
