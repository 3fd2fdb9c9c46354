/**
 * The objects that Kive ships as samples (config/samples), by what they say: nine of ten are of v2alpha1. From its history, so some
 * may read otherwise in a release: `regex2` has a field by its older name, and the older finalizer.
 */
import type { KubeObject } from '../../../lib/kube/object/object.ts';

export interface Sample extends KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: KubeObject['metadata'] & { readonly name: string };
  readonly spec: object;
}

const group = 'kivebpf.san7o.github.io';
const ofToday = ['kivepolicy.kivebpf.san7o.github.io/finalizer'];
const nginx = { pod: 'nginx-pod', namespace: 'default' };
const highNginx = { ...nginx, matchLabels: { 'security-level': 'high' } };
const created = { create: true, mode: 444 };

function policy(
  name: string,
  trap: object,
  {
    version = 'v2alpha1',
    finalizers,
    ...more
  }: { version?: string; finalizers?: string[]; alertVersion?: string } = {},
): Sample {
  return {
    apiVersion: `${group}/${version}`,
    kind: 'KivePolicy',
    metadata: {
      labels: { 'app.kubernetes.io/name': 'kivebpf' },
      name,
      namespace: 'kivebpf-system',
      ...(finalizers && { finalizers }),
    },
    spec: { ...more, traps: [trap] },
  };
}

/** By the name of the file: two have objects of the same name. */
export const samples: Readonly<Record<string, Sample>> = {
  v1_kivepolicy: policy(
    'kive-sample-policy-v1',
    { path: '/secretv1.txt', ...created, matchAny: [highNginx] },
    { version: 'v1', alertVersion: 'v1' },
  ),
  v2alpha1_kivepolicy: policy(
    'kive-sample-policy',
    { path: '/secret.txt', ...created, matchAny: [highNginx] },
    { finalizers: ofToday },
  ),
  v2alpha1_kivepolicy2: policy('kive-sample-policy2', {
    path: '/etc/passwd',
    matchAny: [{ namespace: 'default' }],
  }),
  v2alpha1_kivepolicy3: policy(
    'kive-sample-policy3',
    { path: '/etc/shadow', matchAny: [{ matchLabels: { 'security-level': 'high' } }] },
    { finalizers: ofToday },
  ),
  v2alpha1_kivepolicy4: policy('kive-sample-policy4', { path: '/test.txt', create: true }),
  v2alpha1_kivepolicy_callback: policy(
    'kive-sample-policy-callback',
    {
      path: '/callme.txt',
      ...created,
      callback: 'http://callback-service.kivebpf-system.svc.cluster.local:9376/ingest',
      matchAny: [nginx],
    },
    { finalizers: ofToday },
  ),
  v2alpha1_kivepolicy_metadata: policy('kive-sample-policy', {
    path: '/secret.txt',
    ...created,
    matchAny: [highNginx],
    metadata: { security: 'high' },
  }),
  v2alpha1_kivepolicy_regex: policy('kive-sample-policy-regex', {
    path: '/regex.txt',
    ...created,
    matchAny: [{ namespace: 'default', containerName: 'regex:ngi.*' }],
  }),
  v2alpha1_kivepolicy_regex2: policy(
    'kive-sample-policy-regex2',
    { path: '/regex2.txt', ...created, matchAny: [{ ...nginx, 'container-name': '123.*' }] },
    { finalizers: ['kivebpf.san7o.github.io/finalizer'] },
  ),
  v2alpha1_kivedata: {
    apiVersion: `${group}/v2alpha1`,
    kind: 'KiveData',
    metadata: {
      annotations: {
        callback: '',
        container_id: 'containerd://da9e46ae1873ec463c9dafd08d2be762867e92b740b5c5b4534c6ad0c270d1e5',
        container_name: 'nginx',
        kive_policy_name: 'kive-sample-policy',
        namespace: 'default',
        node_name: 'kive-worker2',
        path: '/secret.txt',
        pod_ip: '10.244.1.2',
        pod_name: 'nginx-pod',
      },
      creationTimestamp: '2025-07-25T08:06:12Z',
      generation: 1,
      name: 'kive-data-nginx-pod-default-13667586',
      namespace: 'kivebpf-system',
      resourceVersion: '23395',
      uid: '788bcb67-a9de-480d-a179-e40234116459',
      labels: {
        'trap-id': 'c4705ec263cc353100b6f18a129e32b67b79171bcb0c90b2731a7923ea4dcee',
        'kernel-id': 'fc9a30d5-6140-4dd1-b8ef-c638f19ebd71',
      },
    },
    spec: { 'inode-no': 13667586, 'dev-id': 513 },
  },
};
