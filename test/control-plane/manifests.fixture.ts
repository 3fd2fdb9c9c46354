/** Valid objects of most kinds, to be changed at random. */
import type { Json } from './mutate.fixture.ts';
import { widgetDefinition } from './widget.fixture.ts';

export interface Sample {
  /** Path of the collection, with `NS` for the namespace: `/api/v1/namespaces/NS/pods`. */
  readonly path: string;
  readonly object: { readonly [name: string]: Json };
}

const podSpec: Json = {
  serviceAccountName: 'sa',
  nodeSelector: { disk: 'ssd' },
  tolerations: [{ key: 'a', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 5 }],
  initContainers: [{ name: 'init', image: 'busybox', command: ['true'] }],
  containers: [
    {
      name: 'web',
      image: 'web:1',
      args: ['--a', '--b'],
      env: [
        { name: 'A', value: '1' },
        { name: 'B', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
      ],
      ports: [{ name: 'http', containerPort: 80, protocol: 'TCP' }],
      resources: { requests: { cpu: '100m', memory: '64Mi' }, limits: { cpu: 1, memory: '1Gi' } },
      livenessProbe: { httpGet: { path: '/', port: 'http' }, periodSeconds: 5 },
      volumeMounts: [{ name: 'data', mountPath: '/data', readOnly: true }],
      securityContext: { runAsUser: 1000, capabilities: { drop: ['ALL'] } },
    },
  ],
  volumes: [
    { name: 'data', configMap: { name: 'a', items: [{ key: 'k', path: 'p', mode: 0o644 }] } },
    { name: 'empty', emptyDir: { sizeLimit: '1Gi' } },
  ],
};
const template: Json = { metadata: { labels: { app: 'web' } }, spec: podSpec };
const selector: Json = { matchLabels: { app: 'web' } };
const rules: Json = [{ apiGroups: [''], resources: ['pods'], verbs: ['get', 'list'] }];

function sample(
  path: string,
  apiVersion: string,
  kind: string,
  more: { readonly [name: string]: Json },
): Sample {
  const metadata = {
    name: 'a',
    labels: { app: 'web', tier: 'front' },
    annotations: { note: 'x' },
    finalizers: [] as string[],
    ...(more['metadata'] as object),
  };
  return { path, object: { apiVersion, kind, ...more, metadata } };
}

/** One that is itself changed at random. */
const thingDefinition: Json = JSON.parse(
  JSON.stringify(widgetDefinition)
    .replaceAll('Widget', 'Thing')
    .replaceAll('widget', 'thing')
    .replace('"wd"', '"tg"'),
) as Json;

const widget: { readonly [name: string]: Json } = {
  spec: {
    replicas: 3,
    max: 5,
    color: 'red',
    when: '2025-01-02T03:04:05Z',
    port: '80%',
    ratio: 1.5,
    maybe: 'abc',
    tags: ['a', 'b'],
    parts: [
      { name: 'x', side: 'left', size: 2 },
      { name: 'x', side: 'right', size: 3 },
    ],
    options: { a: 'b' },
    free: { anything: [1, { goes: true }] },
    template: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'inner' }, data: { a: 'b' } },
  },
  status: { replicas: 1, selector: 'app=web', conditions: [{ type: 'Ready', status: 'True' }] },
};

const apps = '/apis/apps/v1/namespaces/NS';
const rbac = '/apis/rbac.authorization.k8s.io/v1';
const rbacVersion = 'rbac.authorization.k8s.io/v1';
const admission = '/apis/admissionregistration.k8s.io/v1';
const involved = { apiVersion: 'v1', kind: 'Pod', name: 'a', namespace: 'default' };

export const widgets = '/apis/fuzz.example.com/v1/namespaces/NS/widgets';
export const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
export const things = '/apis/fuzz.example.com/v1/namespaces/NS/things';

export const samples: readonly Sample[] = [
  sample(widgets, 'fuzz.example.com/v1', 'Widget', widget),
  sample(things, 'fuzz.example.com/v1', 'Thing', widget),
  { path: definitions, object: thingDefinition as Sample['object'] },
  sample('/api/v1/namespaces', 'v1', 'Namespace', { metadata: { name: 'fuzz-a' }, spec: {} }),
  sample('/api/v1/nodes', 'v1', 'Node', {
    spec: { taints: [{ key: 'a', effect: 'NoSchedule' }] },
    status: { capacity: { cpu: '4' }, addresses: [{ type: 'InternalIP', address: '10.0.0.1' }] },
  }),
  sample('/api/v1/namespaces/NS/pods', 'v1', 'Pod', {
    spec: podSpec,
    status: { phase: 'Running', podIP: '10.0.0.2', conditions: [{ type: 'Ready', status: 'True' }] },
  }),
  sample('/api/v1/namespaces/NS/configmaps', 'v1', 'ConfigMap', {
    data: { a: 'b', c: 'd' },
    binaryData: { e: 'Zg==' },
    immutable: false,
  }),
  sample('/api/v1/namespaces/NS/secrets', 'v1', 'Secret', {
    type: 'Opaque',
    data: { a: 'Yg==' },
    stringData: { c: 'd' },
  }),
  sample('/api/v1/namespaces/NS/services', 'v1', 'Service', {
    spec: {
      selector: { app: 'web' },
      type: 'ClusterIP',
      ports: [
        { name: 'http', port: 80, targetPort: 'http', protocol: 'TCP' },
        { name: 'dns', port: 53, targetPort: 5353, protocol: 'UDP' },
      ],
    },
  }),
  sample('/api/v1/namespaces/NS/endpoints', 'v1', 'Endpoints', {
    subsets: [{ addresses: [{ ip: '10.0.0.3' }], ports: [{ name: 'http', port: 80 }] }],
  }),
  sample('/api/v1/namespaces/NS/serviceaccounts', 'v1', 'ServiceAccount', { secrets: [{ name: 'a' }] }),
  sample('/api/v1/namespaces/NS/events', 'v1', 'Event', {
    involvedObject: involved,
    reason: 'Tested',
    message: 'm',
    type: 'Normal',
    count: 1,
    firstTimestamp: '2025-01-02T03:04:05Z',
    source: { component: 'fuzz' },
  }),
  sample('/apis/events.k8s.io/v1/namespaces/NS/events', 'events.k8s.io/v1', 'Event', {
    metadata: { name: 'b' },
    regarding: involved,
    reason: 'Tested',
    note: 'm',
    type: 'Normal',
    action: 'Test',
    eventTime: '2025-01-02T03:04:05.000000Z',
    reportingController: 'example.com/fuzz',
    reportingInstance: 'f',
  }),
  sample(`${apps}/deployments`, 'apps/v1', 'Deployment', {
    spec: { replicas: 2, selector, template, strategy: { rollingUpdate: { maxSurge: '25%' } } },
  }),
  sample(`${apps}/daemonsets`, 'apps/v1', 'DaemonSet', { spec: { selector, template } }),
  sample(`${apps}/statefulsets`, 'apps/v1', 'StatefulSet', {
    spec: { serviceName: 'a', selector, template },
  }),
  sample('/apis/batch/v1/namespaces/NS/jobs', 'batch/v1', 'Job', {
    spec: { backoffLimit: 2, template: { spec: { ...(podSpec as object), restartPolicy: 'Never' } } },
  }),
  sample('/apis/batch/v1/namespaces/NS/cronjobs', 'batch/v1', 'CronJob', {
    spec: {
      schedule: '*/5 * * * *',
      jobTemplate: { spec: { template: { spec: { ...(podSpec as object), restartPolicy: 'Never' } } } },
    },
  }),
  sample(
    '/apis/networking.k8s.io/v1/namespaces/NS/networkpolicies',
    'networking.k8s.io/v1',
    'NetworkPolicy',
    {
      spec: {
        podSelector: selector,
        policyTypes: ['Ingress', 'Egress'],
        ingress: [{ from: [{ podSelector: {} }], ports: [{ port: 80, protocol: 'TCP' }] }],
        egress: [{ to: [{ ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } }] }],
      },
    },
  ),
  sample('/apis/coordination.k8s.io/v1/namespaces/NS/leases', 'coordination.k8s.io/v1', 'Lease', {
    spec: { holderIdentity: 'x', leaseDurationSeconds: 15, renewTime: '2025-01-02T03:04:05.000000Z' },
  }),
  sample('/apis/discovery.k8s.io/v1/namespaces/NS/endpointslices', 'discovery.k8s.io/v1', 'EndpointSlice', {
    addressType: 'IPv4',
    endpoints: [{ addresses: ['10.0.0.4'], conditions: { ready: true } }],
    ports: [{ name: 'http', port: 80 }],
  }),
  sample(`${rbac}/namespaces/NS/roles`, rbacVersion, 'Role', { rules }),
  sample(`${rbac}/clusterroles`, rbacVersion, 'ClusterRole', {
    rules,
    aggregationRule: { clusterRoleSelectors: [selector] },
  }),
  sample(`${rbac}/namespaces/NS/rolebindings`, rbacVersion, 'RoleBinding', {
    subjects: [{ kind: 'User', name: 'u', apiGroup: 'rbac.authorization.k8s.io' }],
    roleRef: { kind: 'Role', name: 'a', apiGroup: 'rbac.authorization.k8s.io' },
  }),
  sample(`${rbac}/clusterrolebindings`, rbacVersion, 'ClusterRoleBinding', {
    subjects: [{ kind: 'ServiceAccount', name: 'sa', namespace: 'default' }],
    roleRef: { kind: 'ClusterRole', name: 'a', apiGroup: 'rbac.authorization.k8s.io' },
  }),
  sample(
    `${admission}/validatingadmissionpolicies`,
    'admissionregistration.k8s.io/v1',
    'ValidatingAdmissionPolicy',
    {
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: {
          resourceRules: [
            { apiGroups: ['apps'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['deployments'] },
          ],
        },
        validations: [{ expression: 'object.spec.replicas <= 5', message: 'too many' }],
      },
    },
  ),
  sample(
    `${admission}/validatingadmissionpolicybindings`,
    'admissionregistration.k8s.io/v1',
    'ValidatingAdmissionPolicyBinding',
    { spec: { policyName: 'a', validationActions: ['Deny'] } },
  ),
];
