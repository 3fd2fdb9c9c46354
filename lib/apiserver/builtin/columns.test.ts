import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { cells, created } from './builtin.fixture.ts';

const now = new Date('2026-01-01T01:00:00Z');
const metadata = { name: 'x', creationTimestamp: '2026-01-01T00:00:00Z' };

const others: readonly (readonly [string, object, object])[] = [
  [
    'a node',
    {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: {
        ...metadata,
        labels: { 'node-role.kubernetes.io/worker': '', 'node-role.kubernetes.io/control-plane': '' },
      },
      spec: { unschedulable: true },
      status: {
        conditions: [{ type: 'Ready', status: 'True' }],
        addresses: [{ type: 'InternalIP', address: '10.0.0.1' }],
        nodeInfo: {
          kubeletVersion: 'v1.35.0',
          osImage: 'Debian GNU/Linux 12',
          kernelVersion: '6.1.0',
          containerRuntimeVersion: 'containerd://1.7',
        },
      },
    },
    {
      Name: 'x',
      Status: 'Ready,SchedulingDisabled',
      Roles: 'control-plane,worker',
      Age: '60m',
      Version: 'v1.35.0',
      'Internal-IP': '10.0.0.1',
      'External-IP': '<none>',
      'OS-Image': 'Debian GNU/Linux 12',
      'Kernel-Version': '6.1.0',
      'Container-Runtime': 'containerd://1.7',
    },
  ],
  [
    'a service',
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: {
        type: 'NodePort',
        clusterIP: '10.96.0.9',
        clusterIPs: ['10.96.0.9'],
        ports: [
          { port: 80, nodePort: 30080, protocol: 'TCP' },
          { port: 53, protocol: 'UDP' },
        ],
        selector: { b: '2', a: '1' },
      },
    },
    {
      Name: 'x',
      Type: 'NodePort',
      'Cluster-IP': '10.96.0.9',
      'External-IP': '<none>',
      'Port(s)': '80:30080/TCP,53/UDP',
      Age: '60m',
      Selector: 'a=1,b=2',
    },
  ],
  [
    'a load balancer that is not there yet',
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: { type: 'LoadBalancer', clusterIPs: ['None'], ports: [] },
    },
    {
      Name: 'x',
      Type: 'LoadBalancer',
      'Cluster-IP': 'None',
      'External-IP': '<pending>',
      'Port(s)': '<none>',
      Age: '60m',
      Selector: '<none>',
    },
  ],
  [
    'a deployment',
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: {
        replicas: 3,
        selector: { matchLabels: { app: 'x' } },
        template: {
          spec: {
            containers: [
              { name: 'a', image: 'i' },
              { name: 'b', image: 'j' },
            ],
          },
        },
      },
      status: { readyReplicas: 2, updatedReplicas: 3, availableReplicas: 2 },
    },
    {
      Name: 'x',
      Ready: '2/3',
      'Up-to-date': 3,
      Available: 2,
      Age: '60m',
      Containers: 'a,b',
      Images: 'i,j',
      Selector: 'app=x',
    },
  ],
  [
    'a job, which is only stored',
    { apiVersion: 'batch/v1', kind: 'Job', metadata },
    { Name: 'x', Age: '60m' },
  ],
  [
    'a network policy for all pods',
    { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata, spec: { podSelector: {} } },
    { Name: 'x', 'Pod-Selector': '<none>', Age: '60m' },
  ],
  [
    'a namespace without an age',
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'x' }, status: { phase: 'Active' } },
    { Name: 'x', Status: 'Active', Age: '<unknown>' },
  ],
  [
    'a role',
    { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata },
    { Name: 'x', 'Created At': '2026-01-01T00:00:00Z' },
  ],
  [
    'a binding',
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata,
      roleRef: { kind: 'Role', name: 'r' },
      subjects: [
        { kind: 'User', name: 'u' },
        { kind: 'ServiceAccount', namespace: 'n', name: 's' },
      ],
    },
    { Name: 'x', Role: 'Role/r', Age: '60m', Users: 'u', Groups: '', ServiceAccounts: 'n/s' },
  ],
];

suite('Kinds but Pods', () => {
  for (const [what, object, shown] of others) {
    test(what, () => assert.deepEqual(cells(object as Record<string, unknown>, now, true), shown));
  }

  test('a kind’s columns have an answer for an object with nothing in it', () => {
    for (const kind of ['Pod', 'Node', 'Service', 'Secret', 'Event']) {
      const shown = cells({ apiVersion: 'v1', kind }, now, true);
      assert.ok(
        Object.values(shown).every((cell) => cell !== undefined),
        kind,
      );
    }
  });

  test('a new object has columns', () => {
    const { object } = created(
      '{ apiVersion: v1, kind: Secret, metadata: { name: s }, stringData: { a: b } }',
    );
    assert.deepEqual(cells(object, now), { Name: 's', Type: 'Opaque', Data: 1, Age: '<unknown>' });
  });
});
