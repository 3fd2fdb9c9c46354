import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { JsonObject } from '../../json/json.ts';
import { created, updated } from './builtin.fixture.ts';

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
  labels: { app: nginx }
spec:
  replicas: 3
  selector:
    matchLabels:
      app: nginx
  template:
    metadata:
      creationTimestamp: null
      labels:
        app: nginx
    spec:
      containers:
        - name: nginx
          image: nginx:1.27
          ports:
            - containerPort: 80
          resources:
            limits: { cpu: 0.5, memory: 1024Mi }
          readinessProbe:
            httpGet: { port: 80 }
          env:
            - name: POD_NAME
              valueFrom: { fieldRef: { fieldPath: metadata.name } }
          volumeMounts:
            - { name: conf, mountPath: /etc/nginx/conf.d }
            - { name: scratch, mountPath: /scratch }
      volumes:
        - name: conf
          configMap: { name: nginx }
        - name: scratch
`;

suite('Deployment', () => {
  test('a typical workload gets the defaults of pkg/apis/apps/v1 and pkg/apis/core/v1', () => {
    const { object, unknown, causes } = created(deployment);
    assert.deepEqual({ unknown, causes }, { unknown: [], causes: [] });
    assert.deepEqual(object['spec'], {
      replicas: 3,
      selector: { matchLabels: { app: 'nginx' } },
      progressDeadlineSeconds: 600,
      revisionHistoryLimit: 10,
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: '25%', maxUnavailable: '25%' } },
      template: {
        metadata: { labels: { app: 'nginx' } },
        spec: {
          dnsPolicy: 'ClusterFirst',
          restartPolicy: 'Always',
          schedulerName: 'default-scheduler',
          securityContext: {},
          terminationGracePeriodSeconds: 30,
          containers: [
            {
              name: 'nginx',
              image: 'nginx:1.27',
              imagePullPolicy: 'IfNotPresent',
              ports: [{ containerPort: 80, protocol: 'TCP' }],
              resources: { limits: { cpu: '500m', memory: '1Gi' } },
              readinessProbe: {
                failureThreshold: 3,
                httpGet: { path: '/', port: 80, scheme: 'HTTP' },
                periodSeconds: 10,
                successThreshold: 1,
                timeoutSeconds: 1,
              },
              env: [
                {
                  name: 'POD_NAME',
                  valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } },
                },
              ],
              terminationMessagePath: '/dev/termination-log',
              terminationMessagePolicy: 'File',
              volumeMounts: [
                { name: 'conf', mountPath: '/etc/nginx/conf.d' },
                { name: 'scratch', mountPath: '/scratch' },
              ],
            },
          ],
          volumes: [
            { name: 'conf', configMap: { name: 'nginx', defaultMode: 420 } },
            { name: 'scratch', emptyDir: {} },
          ],
        },
      },
    });
    assert.deepEqual(object['status'], {});
  });

  test('defaulting again changes nothing', () => {
    const first = created(deployment);
    assert.deepEqual(updated(first, () => {}).object, first.object);
  });

  const broken: readonly (readonly [string, string, string, string])[] = [
    [
      'labels that the selector does not find',
      '      labels:\n        app: nginx',
      '      labels:\n        app: other',
      'spec.template.metadata.labels: Invalid value: {"app":"other"}: `selector` does not match template `labels`',
    ],
    [
      'an unknown mount',
      'name: scratch, mountPath',
      'name: nowhere, mountPath',
      'spec.template.spec.containers[0].volumeMounts[1].name: Not found: "nowhere"',
    ],
    ['no image', 'image: nginx:1.27', 'image: ""', 'spec.template.spec.containers[0].image: Required value'],
    [
      'a negative number of replicas',
      'replicas: 3',
      'replicas: -1',
      'spec.replicas: Invalid value: -1: must be greater than or equal to 0',
    ],
    [
      'a port that is none',
      'containerPort: 80',
      'containerPort: 80000',
      'spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 80000: must be between 1 and 65535, inclusive',
    ],
    [
      'a name with capitals',
      '- name: nginx\n          image',
      '- name: Nginx\n          image',
      "spec.template.spec.containers[0].name: Invalid value: \"Nginx\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    ],
    [
      'pods that end',
      '      volumes:\n        - name: conf',
      '      restartPolicy: Never\n      volumes:\n        - name: conf',
      'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ],
    [
      'a policy that does not exist',
      '      volumes:\n        - name: conf',
      '      dnsPolicy: Sometimes\n      volumes:\n        - name: conf',
      'spec.template.spec.dnsPolicy: Unsupported value: "Sometimes": supported values: "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"',
    ],
    [
      'what is no quantity',
      'cpu: 0.5',
      'cpu: much',
      "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ],
    [
      'two volumes of one name',
      '- name: scratch\n',
      '- name: conf\n        - name: scratch\n',
      'spec.template.spec.volumes[1].name: Duplicate value: "conf"',
    ],
  ];
  for (const [what, from, to, cause] of broken) {
    test(`${what} is refused`, () => {
      assert.ok(deployment.includes(from));
      assert.deepEqual(created(deployment.replace(from, to)).causes, [cause]);
    });
  }

  test('a selector that is missing, or empty', () => {
    const none = deployment.replace('  selector:\n    matchLabels:\n      app: nginx\n', '');
    assert.deepEqual(created(none).causes, ['spec.selector: Required value']);
    const empty = deployment.replace('  selector:\n    matchLabels:\n      app: nginx\n', '  selector: {}\n');
    assert.deepEqual(created(empty).causes, [
      'spec.selector: Invalid value: {}: empty selector is invalid for deployment',
    ]);
  });

  test('unknown fields are found at any depth', () => {
    const typo = deployment.replace('containerPort: 80', 'containerPort: 80\n              hostport: 81');
    const { unknown, causes } = created(typo.replace('replicas: 3', 'replica: 3'));
    assert.deepEqual(unknown, ['spec.replica', 'spec.template.spec.containers[0].ports[0].hostport']);
    assert.deepEqual(causes, []);
  });

  test('its selector stays', () => {
    const { causes } = updated(created(deployment), (object) => {
      const spec = object['spec'] as {
        selector: { matchLabels: JsonObject };
        template: { metadata: JsonObject };
      };
      spec.selector.matchLabels = { app: 'x' };
      spec.template.metadata['labels'] = { app: 'x' };
    });
    assert.deepEqual(causes, [
      'spec.selector: Invalid value: {"matchLabels":{"app":"x"}}: field is immutable',
    ]);
  });

  test('Recreate has no rolling update', () => {
    const recreate = deployment.replace('replicas: 3', 'strategy: { type: Recreate }');
    const { object, causes } = created(recreate);
    assert.deepEqual(causes, []);
    assert.deepEqual((object['spec'] as JsonObject)['strategy'], { type: 'Recreate' });
    const both = deployment.replace(
      'replicas: 3',
      'strategy: { type: Recreate, rollingUpdate: { maxSurge: 1 } }',
    );
    assert.deepEqual(created(both).causes, [
      "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ]);
  });
});

const daemonSet = `
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: agent, namespace: kube-system }
spec:
  selector: { matchLabels: { name: agent } }
  template:
    metadata: { labels: { name: agent } }
    spec:
      hostNetwork: true
      hostPID: true
      tolerations:
        - operator: Exists
      initContainers:
        - { name: setup, image: "busybox@sha256:0000000000000000000000000000000000000000000000000000000000000000", command: [sh, -c, "true"] }
      containers:
        - name: agent
          image: registry.local:5000/agent
          securityContext: { privileged: true }
          volumeMounts:
            - { name: host, mountPath: /host, readOnly: true }
      volumes:
        - { name: host, hostPath: { path: / } }
`;

test('DaemonSet: defaults, and images without a tag are pulled always', () => {
  const { object, causes, unknown } = created(daemonSet);
  assert.deepEqual({ unknown, causes }, { unknown: [], causes: [] });
  const spec = object['spec'] as JsonObject;
  assert.deepEqual(spec['updateStrategy'], {
    type: 'RollingUpdate',
    rollingUpdate: { maxSurge: 0, maxUnavailable: 1 },
  });
  assert.equal(spec['revisionHistoryLimit'], 10);
  const pod = (spec['template'] as JsonObject)['spec'] as Record<string, readonly JsonObject[]>;
  assert.equal(pod['containers']?.[0]?.['imagePullPolicy'], 'Always');
  assert.equal(pod['initContainers']?.[0]?.['imagePullPolicy'], 'IfNotPresent');
  assert.deepEqual(pod['volumes']?.[0], { name: 'host', hostPath: { path: '/', type: '' } });
  assert.deepEqual(object['status'], {
    currentNumberScheduled: 0,
    desiredNumberScheduled: 0,
    numberMisscheduled: 0,
    numberReady: 0,
  });
});

test('StatefulSet: defaults, also of its claims; it scales', () => {
  const first = created(`
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: db }
spec:
  serviceName: db
  selector: { matchLabels: { app: db } }
  template:
    metadata: { labels: { app: db } }
    spec:
      containers:
        - name: db
          image: postgres:17
          volumeMounts: [{ name: data, mountPath: /var/lib/postgresql }]
  volumeClaimTemplates:
    - metadata: { name: data }
      spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1024Mi } } }
`);
  assert.deepEqual(first.causes, []);
  const spec = first.object['spec'] as JsonObject;
  assert.deepEqual(spec['updateStrategy'], { type: 'RollingUpdate', rollingUpdate: { partition: 0 } });
  assert.deepEqual(spec['persistentVolumeClaimRetentionPolicy'], {
    whenDeleted: 'Retain',
    whenScaled: 'Retain',
  });
  assert.deepEqual(spec['volumeClaimTemplates'], [
    {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name: 'data' },
      spec: {
        accessModes: ['ReadWriteOnce'],
        resources: { requests: { storage: '1Gi' } },
        volumeMode: 'Filesystem',
      },
      status: { phase: 'Pending' },
    },
  ]);
  const scaled = updated(first, (object) => {
    (object['spec'] as JsonObject)['replicas'] = 5;
  });
  assert.deepEqual(scaled.causes, []);
});
