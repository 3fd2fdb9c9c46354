// The possible uses of a stolen token of deploy/: no known way leads to cluster-admin, and none from one node
// to another.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { systemNamespace as system } from '../../guard/guard.ts';
import type { AnyKubewardenPolicy } from '../../guards/policy-audit/api.ts';
import { serverObjects } from '../../guards/policy-audit/cluster/server-objects.ts';
import { webhookOf } from '../../guards/policy-audit/cluster/webhooks.ts';
import { readKubewardenPolicy } from '../../guards/policy-audit/policies/read-policy.ts';
import { deploy } from './deploy.fixture.ts';
import {
  attacks,
  roleBinding,
  create,
  kiveData,
  meta,
  ofNoAgent,
  perNode,
  rbac,
  remove,
  update,
  webhooks,
} from './escalation-attempts.fixture.ts';
import { kustomize } from '../../scripts/kustomize.ts';
import { shippedLimits } from './write-limits.fixture.ts';

const manifests = kustomize(deploy);
const judge = shippedLimits(manifests);
const accounts = ['rampart-agent', 'rampart-operator'] as const;

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}
/** A rule and where it holds; '' is everywhere. */
interface Held extends Rule {
  readonly namespace: string;
}

/** Those that are bound, and those that the operator binds for the agent, wherever it likes. */
function heldBy(account: string): Held[] {
  const held = manifests
    .filter(({ kind }) => kind.endsWith('RoleBinding'))
    .flatMap((binding) => {
      const { roleRef, subjects } = binding as unknown as {
        readonly roleRef: { readonly kind: string; readonly name: string };
        readonly subjects: readonly { readonly name: string }[];
      };
      if (!subjects.some(({ name }) => name === account)) return [];
      const namespace = binding.kind === 'RoleBinding' ? (binding.metadata.namespace ?? '') : '';
      return rulesOf(roleRef.kind, roleRef.name).map((rule) => ({ ...rule, namespace }));
    });
  const bindable = held.filter((rule) => covers(rule, 'bind', rbac, 'clusterroles'));
  const names = bindable.flatMap(({ resourceNames = [] }) => resourceNames);
  return [
    ...held,
    ...names.flatMap((name) => rulesOf('ClusterRole', name)).map((rule) => ({ ...rule, namespace: '' })),
  ];
}

function rulesOf(kind: string, name: string): readonly Rule[] {
  const role = manifests.find((one) => one.kind === kind && one.metadata.name === name);
  return (role?.['rules'] ?? []) as readonly Rule[];
}

function covers(
  { verbs, apiGroups, resources }: Rule,
  verb: string,
  group: string,
  resource: string,
): boolean {
  const has = (list: readonly string[], one: string): boolean => list.includes('*') || list.includes(one);
  const [plural = '', sub] = resource.split('/');
  return (
    has(verbs, verb) &&
    has(apiGroups, group) &&
    (has(resources, resource) ||
      (sub !== undefined && resources.includes(`*/${sub}`)) ||
      resources.includes(`${plural}/*`))
  );
}

/** Rights that no account has: `VERBS GROUP RESOURCES`, by their possible abuse. */
const never: Readonly<
  Record<string, readonly (readonly [verbs: string, group: string, resources: string])[]>
> = {
  'runs pods': [
    [
      'create update patch',
      '',
      'pods replicationcontrollers podtemplates pods/ephemeralcontainers pods/binding',
    ],
    ['create update patch', 'apps', 'daemonsets statefulsets replicasets'],
    ['create update patch', 'batch', 'jobs cronjobs'],
  ],
  'enters pods and nodes': [
    ['create get', '', 'pods/exec pods/attach pods/portforward pods/proxy services/proxy'],
    ['create get update patch delete', '', 'nodes/proxy'],
    ['create update patch delete', '', 'nodes nodes/status'],
  ],
  'becomes somebody': [
    ['impersonate', '', 'users groups serviceaccounts'],
    ['impersonate', 'authentication.k8s.io', 'userextras uids'],
    ['create update patch', '', 'serviceaccounts'],
    [
      'create update patch approve sign',
      'certificates.k8s.io',
      'certificatesigningrequests certificatesigningrequests/approval certificatesigningrequests/status signers',
    ],
  ],
  'gives itself rights': [
    ['escalate', rbac, 'roles clusterroles'],
    ['bind', rbac, 'roles'],
    ['create update patch', rbac, 'roles clusterroles clusterrolebindings'],
    ['update patch', rbac, 'rolebindings'],
  ],
  'takes the limits away, or is the API': [
    [
      'create update patch delete',
      webhooks,
      'validatingadmissionpolicies validatingadmissionpolicybindings mutatingadmissionpolicies mutatingadmissionpolicybindings',
    ],
    ['create update patch', 'apiregistration.k8s.io', 'apiservices'],
    ['create update patch', 'apiextensions.k8s.io', 'customresourcedefinitions'],
  ],
  'is in the way of others': [
    ['create update patch', '', 'endpoints'],
    ['create update patch', 'discovery.k8s.io', 'endpointslices'],
    ['create update patch', 'networking.k8s.io', 'ingresses networkpolicies'],
    ['update patch', '', 'namespaces'],
  ],
};

suite('a stolen token', () => {
  for (const account of accounts) {
    const held = heldBy(account);

    test(`${account} has no right that leads to cluster-admin by itself`, () => {
      const found = Object.entries(never).flatMap(([way, rights]) =>
        rights.flatMap(([verbs, group, resources]) =>
          verbs.split(' ').flatMap((verb) =>
            resources
              .split(' ')
              .filter((resource) => held.some((rule) => covers(rule, verb, group, resource)))
              .map((resource) => `${way}: ${verb} ${resource}.${group}`),
          ),
        ),
      );
      assert.deepEqual(found, []);
      assert.deepEqual(
        held.filter(({ verbs }) => verbs.includes('*')),
        [],
      );
    });

    test(`${account} requests tokens in the system namespace alone, if at all`, () => {
      const where = held
        .filter((rule) => covers(rule, 'create', '', 'serviceaccounts/token'))
        .map(({ namespace }) => namespace);
      assert.deepEqual(where, account === 'rampart-operator' ? [system] : []);
    });

    test(`${account} reads no Secret but those it needs`, () => {
      const readable = held
        .filter((rule) => ['get', 'list', 'watch'].some((verb) => covers(rule, verb, '', 'secrets')))
        .map(
          ({ resourceNames, verbs, namespace }) =>
            `${verbs.join()} ${resourceNames?.join() ?? '*'} in ${namespace || 'all'}`,
        );
      const key = 'list,watch file-integrity-baseline-key in all';
      const keyOfAgent = 'get file-integrity-baseline-key in all';
      // The role that it binds for agents, too.
      assert.deepEqual(
        readable,
        account === 'rampart-agent' ? [] : [key, `get,create,patch * in ${system}`, keyOfAgent],
      );
    });
  }

  // The operator may run a Deployment as any other account of its namespace, and have its token.
  test('is not needed to be another account of the system namespace: deploy/ gives rights to its own alone', () => {
    const bound = manifests
      .filter(({ kind }) => kind.endsWith('RoleBinding'))
      .flatMap(({ subjects }) => subjects as readonly { readonly kind: string; readonly name: string }[])
      .map(({ kind, name }) => `${kind} ${name}`);
    assert.deepEqual(new Set(bound), new Set(accounts.map((name) => `ServiceAccount ${name}`)));
  });

  const operator = heldBy('rampart-operator');
  for (const [what, attempt] of Object.entries(attacks)) {
    test(`a token of the operator does not write ${what}`, () => {
      const verbs = { CREATE: ['create'], UPDATE: ['update', 'patch'], DELETE: ['delete'] }[
        attempt.operation
      ];
      const isHeld = operator.some((rule) =>
        verbs.some((verb) => covers(rule, verb, attempt.group, attempt.resource)),
      );
      assert.ok(!isHeld || judge({ account: 'rampart-operator', ...attempt }) !== undefined);
    });
  }

  test('a token of the operator writes its own objects', () => {
    const managed = { labels: { 'app.kubernetes.io/managed-by': 'rampart' } };
    const own = { labels: { 'file-integrity.openshift.io/owner': 'x' } };
    const attempts = [
      create('', 'secrets', { ...meta('file-integrity-baseline-key', 'a'), type: 'Opaque' }),
      create('', 'secrets', { ...meta('policy-server-root-ca', system, managed), type: 'Opaque' }),
      create('', 'configmaps', meta('x', 'a', own)),
      update(
        '',
        'configmaps',
        meta('x', 'a', own),
        meta('x', 'a', { ownerReferences: [{ apiVersion: 'fileintegrity.openshift.io/v1alpha1' }] }),
      ),
      remove('', 'configmaps', meta('x', 'a', own)),
      create('', 'configmaps', meta('rampart-policy-audit', system)),
      create(rbac, 'rolebindings', roleBinding('rampart-agent-file-integrity')),
      create('', 'namespaces', meta('kivebpf-system')),
      create('', 'serviceaccounts/token', meta('default', system)),
      update(
        'bpfman.io',
        'xdpprograms',
        { ...meta('x'), spec: { a: 1 } },
        { ...meta('x', undefined, { finalizers: ['x'] }), spec: { a: 1 } },
      ),
      ...serverObjects({
        server: {
          metadata: { name: 'default', uid: 'u' },
          spec: { image: 'kubewarden/policy-server', replicas: 1, imagePullSecret: 'x' },
        },
        namespace: system,
        policiesFile: '{}',
        certificate: { cert: '', key: '' },
        image: 'rampart',
      }).flatMap(({ type: { group, plural }, object }) => [
        create(group, plural, object),
        update(group, plural, object, object),
      ]),
      ...[true, false].flatMap((mutating) =>
        [undefined, 'shop'].map((namespace) => {
          const spec = {
            ...{ policyServer: 'default', module: 'registry://x/y', mutating, settings: {}, mode: 'protect' },
            rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] }],
          };
          const kind = namespace === undefined ? 'ClusterAdmissionPolicy' : 'AdmissionPolicy';
          const policy = {
            ...{ kind, spec },
            metadata: { name: 'x', namespace },
          } as unknown as AnyKubewardenPolicy;
          const webhook = webhookOf({
            ...{
              object: policy,
              policy: readKubewardenPolicy(policy),
              authorities: '',
              systemNamespace: system,
            },
            service: { name: 'policy-server-default', namespace: system, port: 443 },
          });
          return create(webhooks, webhook.type.plural, webhook.object);
        }),
      ),
    ];
    assert.deepEqual(
      attempts.flatMap((attempt) => judge({ account: 'rampart-operator', ...attempt }) ?? []),
      [],
    );
  });

  for (const [what, attempt] of Object.entries(perNode)) {
    test(`a token of an agent writes ${what} of its node alone`, () => {
      const by = (node: string | undefined): string | undefined =>
        judge({ account: 'rampart-agent', node, ...attempt('here') });
      assert.equal(by('here'), undefined);
      assert.match(by('there') ?? 'allowed', /node/);
      assert.match(by(undefined) ?? 'allowed', /node/);
    });
  }

  for (const [what, attempt] of Object.entries(ofNoAgent)) {
    test(`a token of an agent does not write ${what}`, () => {
      assert.notEqual(judge({ account: 'rampart-agent', node: 'here', ...attempt }), undefined);
    });
  }

  test('a token of an agent releases objects of its kernel, whichever node found them', () => {
    const going = { deletionTimestamp: '2026-01-01T00:00:00Z' };
    const attempt = update(
      'kivebpf.san7o.github.io',
      'kivedata',
      kiveData('there', going),
      kiveData('there', { ...going, finalizers: ['x'] }),
    );
    assert.equal(judge({ account: 'rampart-agent', node: 'here', ...attempt }), undefined);
  });

  test('a token of another account is not limited', () => {
    for (const attempt of Object.values({ ...attacks, ...ofNoAgent }))
      assert.equal(judge({ account: 'default', node: 'here', ...attempt }), undefined);
  });
});
