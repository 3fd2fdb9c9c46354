/** Pods for tests and measurements, as a controller's pods look. */
import { createHash } from 'node:crypto';

import type { Pod } from '../object/object.ts';

/** A UUID that only depends on `of`. */
function uuid(of: string): string {
  const hex = createHash('md5').update(of).digest('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** A pod of a large cluster: some 2.2 kB of JSON, and 0.4 kB more of managed fields. No version yet. */
export function largePod(number: number): Pod {
  const app = `web-${number % 500}`;
  const ip = `10.${number >> 16}.${(number >> 8) & 255}.${number & 255}`;
  const time = '2026-11-01T10:00:00Z';
  const owner = `${app}-7d9f8b6c5`;
  const pod = {
    metadata: {
      name: `${owner}-${number.toString(36).padStart(5, '0')}`,
      generateName: `${owner}-`,
      namespace: `team-${number % 50}`,
      uid: uuid(`pod ${number}`),
      creationTimestamp: time,
      labels: {
        app,
        'pod-template-hash': '7d9f8b6c5',
        'app.kubernetes.io/name': app,
        'app.kubernetes.io/part-of': 'shop',
      },
      annotations: { 'kubernetes.io/config.source': 'api' },
      ownerReferences: [
        {
          apiVersion: 'apps/v1',
          kind: 'ReplicaSet',
          name: owner,
          uid: uuid(owner),
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
      managedFields: [
        {
          manager: 'kube-controller-manager',
          operation: 'Update',
          apiVersion: 'v1',
          time,
          fieldsType: 'FieldsV1',
          fieldsV1: {
            'f:metadata': {
              'f:generateName': {},
              'f:labels': { '.': {}, 'f:app': {} },
              'f:ownerReferences': {},
            },
            'f:spec': {
              'f:containers': { 'k:{"name":"web"}': { '.': {}, 'f:image': {} } },
              'f:dnsPolicy': {},
            },
          },
        },
      ],
    },
    spec: {
      volumes: [
        {
          name: 'kube-api-access-x7k2p',
          projected: {
            sources: [
              { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
              { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
            ],
            defaultMode: 420,
          },
        },
      ],
      containers: [
        {
          name: 'web',
          image: `registry.example/${app}:1.${number % 9}.0`,
          ports: [{ containerPort: 8080, protocol: 'TCP' }],
          env: [{ name: 'LOG_LEVEL', value: 'info' }],
          resources: {
            limits: { cpu: '500m', memory: '256Mi' },
            requests: { cpu: '100m', memory: '128Mi' },
          },
          volumeMounts: [
            {
              name: 'kube-api-access-x7k2p',
              readOnly: true,
              mountPath: '/var/run/secrets/kubernetes.io/serviceaccount',
            },
          ],
          terminationMessagePath: '/dev/termination-log',
          terminationMessagePolicy: 'File',
          imagePullPolicy: 'IfNotPresent',
        },
      ],
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      dnsPolicy: 'ClusterFirst',
      serviceAccountName: 'default',
      nodeName: `node-${number % 1000}`,
      schedulerName: 'default-scheduler',
      priority: 0,
      enableServiceLinks: true,
      preemptionPolicy: 'PreemptLowerPriority',
    },
    status: {
      phase: 'Running',
      conditions: ['Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map((type) => ({
        type,
        status: 'True',
        lastTransitionTime: time,
      })),
      hostIP: `10.255.${(number >> 2) & 255}.1`,
      podIP: ip,
      podIPs: [{ ip }],
      startTime: time,
      qosClass: 'Burstable',
    },
  };
  return pod;
}
