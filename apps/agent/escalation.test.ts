// What a stolen token of deploy/ could do: no known way leads to cluster-admin, and none from one node to another.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { systemNamespace as system } from '../../guard/guard.ts';
import type { AnyKubewardenPolicy } from '../../guards/policy-audit/api.ts';
import { serverObjects } from '../../guards/policy-audit/cluster/server-objects.ts';
import { webhookOf } from '../../guards/policy-audit/cluster/webhooks.ts';
import { readKubewardenPolicy } from '../../guards/policy-audit/policies/read-policy.ts';
import { deploy } from './deploy.fixture.ts';
import { kustomize } from './kustomize.fixture.ts';
import { shippedLimits, type Write } from './write-limits.fixture.ts';

const manifests = kustomize(deploy);
const judge = shippedLimits(manifests);
const rbac = 'rbac.authorization.k8s.io';
const webhooks = 'admissionregistration.k8s.io';
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

/** Rights that nobody has: `VERBS GROUP RESOURCES`, by what they would lead to. */
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
    ['create', '', 'serviceaccounts/token'],
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

const meta = (name: string, namespace?: string, more: object = {}) => ({
  metadata: { name, ...(namespace !== undefined && { namespace }), ...more },
});
const serverLabels = {
  labels: { 'app.kubernetes.io/managed-by': 'rampart', 'kubewarden/policy-server': 'default' },
};
const deployment = (podSpec: object, name = 'policy-server-default'): object => ({
  ...meta(name, system, serverLabels),
  spec: { template: { spec: { containers: [{ name: 'x', image: 'x' }], ...podSpec } } },
});
const hook = (clientConfig: object, rule: object = {}, more: object = {}): object => ({
  ...meta('clusterwide-x', undefined, serverLabels),
  webhooks: [
    {
      name: 'clusterwide-x.kubewarden.admission',
      clientConfig,
      rules: [
        {
          apiGroups: ['apps'],
          resources: ['deployments'],
          operations: ['CREATE'],
          apiVersions: ['v1'],
          ...rule,
        },
      ],
      namespaceSelector: {
        matchExpressions: [
          { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: [system, 'kube-system'] },
        ],
      },
      ...more,
    },
  ],
});
const toServer = {
  service: { namespace: system, name: 'policy-server-default', path: '/validate/clusterwide-x' },
  caBundle: '',
};
const binding = (role: string, subject: object = {}): object => ({
  ...meta('rampart-agent-file-integrity', 'kube-system'),
  roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: role },
  subjects: [{ kind: 'ServiceAccount', name: 'rampart-agent', namespace: system, ...subject }],
});

type Attempt = Pick<Write, 'operation' | 'group' | 'resource'> & Partial<Write>;
const create = (group: string, resource: string, object: object): Attempt => ({
  operation: 'CREATE',
  group,
  resource,
  object,
});
const update = (group: string, resource: string, object: object, oldObject: object): Attempt => ({
  operation: 'UPDATE',
  group,
  resource,
  object,
  oldObject,
});
const remove = (group: string, resource: string, oldObject: object): Attempt => ({
  operation: 'DELETE',
  group,
  resource,
  oldObject,
});
const otherSpec = (group: string, resource: string): Attempt =>
  update(
    group,
    resource,
    { ...meta('x', 'a'), spec: { a: 1, evil: true } },
    { ...meta('x', 'a'), spec: { a: 1 } },
  );

/** What RBAC allows by its words, and a limit refuses. */
const attacks: Readonly<Record<string, Attempt>> = {
  'a Secret that becomes the token of an administrator': create('', 'secrets', {
    ...meta('file-integrity-baseline-key', 'kube-system', {
      annotations: { 'kubernetes.io/service-account.name': 'clusterrole-aggregation-controller' },
    }),
    type: 'kubernetes.io/service-account-token',
  }),
  'a token of the agent among the Secrets of policy servers': create('', 'secrets', {
    ...meta('policy-server-x', system, {
      ...serverLabels,
      annotations: { 'kubernetes.io/service-account.name': 'rampart-agent' },
    }),
    type: 'kubernetes.io/service-account-token',
  }),
  'a bootstrap token': create('', 'secrets', {
    ...meta('bootstrap-token-abcdef', 'kube-system'),
    type: 'bootstrap.kubernetes.io/token',
  }),
  'a Secret of others in the system namespace': update(
    '',
    'secrets',
    { ...meta('receiver', system), type: 'Opaque' },
    { ...meta('receiver', system), type: 'Opaque' },
  ),
  'users of a cloud': update(
    '',
    'configmaps',
    meta('aws-auth', 'kube-system', { labels: { 'file-integrity.openshift.io/owner': 'x' } }),
    meta('aws-auth', 'kube-system'),
  ),
  'users of a cloud, anew': create(
    '',
    'configmaps',
    meta('aws-auth', 'kube-system', {
      labels: { 'file-integrity.openshift.io/owner': 'x', 'file-integrity.openshift.io/aide-conf': '' },
    }),
  ),
  'whom pods take for the API': update(
    '',
    'configmaps',
    meta('kube-root-ca.crt', 'a', { labels: { 'file-integrity.openshift.io/owner': 'x' } }),
    meta('kube-root-ca.crt', 'a'),
  ),
  'a ConfigMap of others goes': remove('', 'configmaps', meta('config', 'a')),
  'a binding to another role': create(rbac, 'rolebindings', binding('cluster-admin')),
  'a binding for somebody else': create(
    rbac,
    'rolebindings',
    binding('rampart-agent-file-integrity', { name: 'eve' }),
  ),
  'a binding of another name': create(rbac, 'rolebindings', {
    ...binding('rampart-agent-file-integrity'),
    ...meta('x', 'a'),
  }),
  'a privileged Deployment': create(
    'apps',
    'deployments',
    deployment({ containers: [{ name: 'x', image: 'x', securityContext: { privileged: true } }] }),
  ),
  'a Deployment with capabilities': create(
    'apps',
    'deployments',
    deployment({
      containers: [{ name: 'x', image: 'x', securityContext: { capabilities: { add: ['SYS_ADMIN'] } } }],
    }),
  ),
  'a Deployment with init containers': create(
    'apps',
    'deployments',
    deployment({ initContainers: [{ name: 'x', image: 'x' }] }),
  ),
  'a Deployment with the root of the node': create(
    'apps',
    'deployments',
    deployment({ volumes: [{ name: 'x', hostPath: { path: '/' } }] }),
  ),
  'a Deployment that projects another token': create(
    'apps',
    'deployments',
    deployment({ volumes: [{ name: 'x', projected: {} }] }),
  ),
  'a Deployment with the processes of the node': create('apps', 'deployments', deployment({ hostPID: true })),
  'a Deployment in the network of the node': create('apps', 'deployments', deployment({ hostNetwork: true })),
  'a Deployment that is the agent': create(
    'apps',
    'deployments',
    deployment({ serviceAccountName: 'rampart-agent' }),
  ),
  'a Deployment that is the operator, by the old field': create(
    'apps',
    'deployments',
    deployment({ serviceAccount: 'rampart-operator' }),
  ),
  'the Deployment of the operator itself': update(
    'apps',
    'deployments',
    deployment({}, 'rampart-operator'),
    deployment({}, 'rampart-operator'),
  ),
  'a Service with addresses of others': create('', 'services', {
    ...meta('policy-server-default', system, serverLabels),
    spec: { type: 'ClusterIP', externalIPs: ['10.0.0.1'] },
  }),
  'a Service that is a name elsewhere': create('', 'services', {
    ...meta('policy-server-default', system, serverLabels),
    spec: { type: 'ExternalName', externalName: 'kubernetes.default.svc' },
  }),
  'a webhook that calls a URL': create(
    webhooks,
    'mutatingwebhookconfigurations',
    hook({ url: 'https://evil' }),
  ),
  'a webhook that reads Secrets by a URL': create(
    webhooks,
    'validatingwebhookconfigurations',
    hook({ url: 'https://evil' }),
  ),
  'a webhook of a Service elsewhere': create(
    webhooks,
    'mutatingwebhookconfigurations',
    hook({ service: { namespace: 'a', name: 'policy-server-default' } }),
  ),
  'a webhook that changes what roles allow': create(
    webhooks,
    'mutatingwebhookconfigurations',
    hook(toServer, { apiGroups: [rbac], resources: ['*'] }),
  ),
  'a webhook that changes everything': create(
    webhooks,
    'mutatingwebhookconfigurations',
    hook(toServer, { apiGroups: ['*'], resources: ['*'] }),
  ),
  'a webhook that asks for tokens': create(
    webhooks,
    'mutatingwebhookconfigurations',
    hook(toServer, { apiGroups: [''], resources: ['serviceaccounts/token'] }),
  ),
  "a webhook that changes the cluster's own pods": create(
    webhooks,
    'mutatingwebhookconfigurations',
    hook(toServer, { apiGroups: [''], resources: ['pods'] }, { namespaceSelector: {} }),
  ),
  'a webhook of another product': update(
    webhooks,
    'validatingwebhookconfigurations',
    hook(toServer),
    meta('gatekeeper'),
  ),
  'a webhook of another product goes': remove(
    webhooks,
    'validatingwebhookconfigurations',
    meta('gatekeeper'),
  ),
  'a namespace of others': create('', 'namespaces', meta('x')),
  'eBPF of its own in all kernels': otherSpec('bpfman.io', 'kprobeprograms'),
  'eBPF of its own in pods': otherSpec('bpfman.io', 'uprobensprograms'),
  'files of its own in containers': otherSpec('kivebpf.san7o.github.io', 'kivepolicies'),
  'a policy of its own': otherSpec('policies.kubewarden.io', 'clusteradmissionpolicies'),
  'a policy server of its own': otherSpec('policies.kubewarden.io', 'policyservers'),
};

const bootId = '0b7e5d0e-6a5f-4a44-9d7f-3f2b7c1d9a10';
const lease = (name: string, node: string): object =>
  meta(name, system, { labels: { 'rampart.dev/agent': node }, annotations: { 'rampart.dev/node': node } });
const kernel = (holder: string): object => ({
  ...meta(bootId, system, { labels: { 'rampart.dev/kernel': bootId } }),
  spec: { holderIdentity: holder },
});
const kiveData = (node: string, more: object = {}): object => ({
  ...meta('kive-data-x', 'kivebpf-system', { annotations: { 'node-name': node }, ...more }),
  spec: { inodeNo: 1 },
});
const bpf = (node: string): object =>
  meta('x-0123', undefined, { labels: { 'kubernetes.io/hostname': node } });
const result = (node: string): object =>
  meta(`aide-x-${node}`, 'a', {
    labels: { 'file-integrity.openshift.io/owner': 'x', 'file-integrity.openshift.io/node': node },
  });

/** By the agent of a node: what it does for a node, and it may for its own alone. */
const perNode: Readonly<Record<string, (node: string) => Attempt>> = {
  'the lease of an agent': (node) =>
    update(
      'coordination.k8s.io',
      'leases',
      lease(`rampart-agent-${node}`, node),
      lease(`rampart-agent-${node}`, node),
    ),
  'the first lease of an agent': (node) =>
    create('coordination.k8s.io', 'leases', lease(`rampart-agent-${node}`, node)),
  'the first lease of a kernel': (node) => create('coordination.k8s.io', 'leases', kernel(`${node}_1`)),
  'KiveData that is made': (node) => create('kivebpf.san7o.github.io', 'kivedata', kiveData(node)),
  'KiveData that is changed': (node) =>
    update('kivebpf.san7o.github.io', 'kivedata', kiveData(node), kiveData(node)),
  'KiveData that is deleted': (node) => remove('kivebpf.san7o.github.io', 'kivedata', kiveData(node)),
  'a KiveNodeStatus': (node) =>
    update(
      'kivebpf.san7o.github.io',
      'kivenodestatuses',
      meta(node, 'kivebpf-system'),
      meta(node, 'kivebpf-system'),
    ),
  'a KiveNodeStatus that is deleted': (node) =>
    remove('kivebpf.san7o.github.io', 'kivenodestatuses', meta(node, 'kivebpf-system')),
  'a BpfProgram': (node) => create('bpfman.io', 'bpfprograms', bpf(node)),
  'a BpfNsProgram that is deleted': (node) => remove('bpfman.io', 'bpfnsprograms', bpf(node)),
  'the status of a BpfProgram': (node) => update('bpfman.io', 'bpfprograms/status', bpf(node), bpf(node)),
  'a result': (node) => create('', 'configmaps', result(node)),
  'a result again': (node) => update('', 'configmaps', result(node), result(node)),
};

/** What no agent may write, whichever node it is on. */
const ofNoAgent: Readonly<Record<string, Attempt>> = {
  'the leadership of the operator': update(
    'coordination.k8s.io',
    'leases',
    meta('rampart-operator', system),
    meta('rampart-operator', system),
  ),
  'an object of another node for its own': update(
    'kivebpf.san7o.github.io',
    'kivedata',
    kiveData('here'),
    kiveData('there'),
  ),
  'its object for another node': update(
    'kivebpf.san7o.github.io',
    'kivedata',
    kiveData('there'),
    kiveData('here'),
  ),
  'a configuration of file integrity': update(
    '',
    'configmaps',
    meta('x', 'a', { labels: { 'file-integrity.openshift.io/aide-conf': '' } }),
    meta('x', 'a', { labels: { 'file-integrity.openshift.io/aide-conf': '' } }),
  ),
  'a ConfigMap of others': update(
    '',
    'configmaps',
    {
      ...result('here'),
      ...meta('aide-x-there', 'a', {
        labels: { 'file-integrity.openshift.io/owner': 'x', 'file-integrity.openshift.io/node': 'here' },
      }),
    },
    meta('aide-x-there', 'a'),
  ),
  'data of another kernel that is going, changed': update(
    'kivebpf.san7o.github.io',
    'kivedata',
    { ...kiveData('there', { deletionTimestamp: '2026-01-01T00:00:00Z' }), spec: { inodeNo: 2 } },
    kiveData('there', { deletionTimestamp: '2026-01-01T00:00:00Z' }),
  ),
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

  const operator = heldBy('rampart-operator');
  for (const [what, attempt] of Object.entries(attacks)) {
    test(`of the operator does not write ${what}`, () => {
      const verbs = { CREATE: ['create'], UPDATE: ['update', 'patch'], DELETE: ['delete'] }[
        attempt.operation
      ];
      const isHeld = operator.some((rule) =>
        verbs.some((verb) => covers(rule, verb, attempt.group, attempt.resource)),
      );
      assert.ok(!isHeld || judge({ account: 'rampart-operator', ...attempt }) !== undefined);
    });
  }

  test('of the operator writes what it is for', () => {
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
      create(rbac, 'rolebindings', binding('rampart-agent-file-integrity')),
      create('', 'namespaces', meta('kivebpf-system')),
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
    test(`of an agent writes ${what} of its node alone`, () => {
      const by = (node: string | undefined): string | undefined =>
        judge({ account: 'rampart-agent', node, ...attempt('here') });
      assert.equal(by('here'), undefined);
      assert.match(by('there') ?? 'allowed', /node/);
      assert.match(by(undefined) ?? 'allowed', /node/);
    });
  }

  for (const [what, attempt] of Object.entries(ofNoAgent)) {
    test(`of an agent does not write ${what}`, () => {
      assert.notEqual(judge({ account: 'rampart-agent', node: 'here', ...attempt }), undefined);
    });
  }

  test('of an agent releases what goes on its kernel, whichever node found it', () => {
    const going = { deletionTimestamp: '2026-01-01T00:00:00Z' };
    const attempt = update(
      'kivebpf.san7o.github.io',
      'kivedata',
      kiveData('there', going),
      kiveData('there', { ...going, finalizers: ['x'] }),
    );
    assert.equal(judge({ account: 'rampart-agent', node: 'here', ...attempt }), undefined);
  });

  test('of somebody else is not limited', () => {
    for (const attempt of Object.values({ ...attacks, ...ofNoAgent }))
      assert.equal(judge({ account: 'default', node: 'here', ...attempt }), undefined);
  });
});
