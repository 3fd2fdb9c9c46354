/** The input of the benchmarks of policies: reviews of pods as in clusters, and typical expressions. */

/** A review of a pod; in the API server's form, about 3.5 kB. */
export function reviewOf(number: number): string {
  const app = `app-${number % 50}`;
  const container = (name: string, port: number): object => ({
    name,
    image: `registry.example/${app}/${name}:1.${number % 10}.0`,
    imagePullPolicy: 'IfNotPresent',
    args: ['--listen', `:${port}`, '--config', `/etc/${app}/config.yaml`, '--log-level', 'info'],
    ports: [{ name: 'http', containerPort: port, protocol: 'TCP' }],
    env: [
      { name: 'POD_NAME', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } } },
      { name: 'REGION', value: 'eu-central-1' },
    ],
    resources: { limits: { cpu: '500m', memory: '256Mi' }, requests: { cpu: '100m', memory: '128Mi' } },
    livenessProbe: {
      httpGet: { path: '/healthz', port, scheme: 'HTTP' },
      periodSeconds: 10,
      timeoutSeconds: 1,
    },
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      readOnlyRootFilesystem: true,
      runAsNonRoot: true,
    },
    volumeMounts: [{ name: 'config', mountPath: `/etc/${app}`, readOnly: true }],
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'File',
  });
  const name = `${app}-7d4b9c6f5d-${number.toString(36).padStart(5, '0')}`;
  const object = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace: 'shop',
      uid: `9a4b1c3e-0000-4000-8000-${number.toString().padStart(12, '0')}`,
      creationTimestamp: '2026-11-01T12:00:00Z',
      labels: { app, 'pod-template-hash': '7d4b9c6f5d', team: 'shop', tier: 'backend' },
      annotations: { 'example.com/owner': 'shop@example.com', 'prometheus.io/scrape': 'true' },
      ownerReferences: [
        { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: `${app}-7d4b9c6f5d`, controller: true },
      ],
    },
    spec: {
      containers: [container('web', 8080), container('proxy', 8443)],
      volumes: [{ name: 'config', configMap: { name: `${app}-config`, defaultMode: 420 } }],
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      dnsPolicy: 'ClusterFirst',
      serviceAccountName: app,
      nodeSelector: { 'kubernetes.io/os': 'linux' },
      securityContext: { runAsUser: 1000, fsGroup: 2000, seccompProfile: { type: 'RuntimeDefault' } },
      schedulerName: 'default-scheduler',
      tolerations: [
        {
          key: 'node.kubernetes.io/not-ready',
          operator: 'Exists',
          effect: 'NoExecute',
          tolerationSeconds: 300,
        },
      ],
      priority: 0,
      enableServiceLinks: true,
    },
    status: { phase: 'Pending', qosClass: 'Burstable' },
  };
  const group = { group: '', version: 'v1' };
  return JSON.stringify({
    kind: 'AdmissionReview',
    apiVersion: 'admission.k8s.io/v1',
    request: {
      uid: `705ab4f5-6393-11e8-b7cc-${number.toString().padStart(12, '0')}`,
      kind: { ...group, kind: 'Pod' },
      resource: { ...group, resource: 'pods' },
      name,
      namespace: 'shop',
      operation: 'CREATE',
      userInfo: {
        username: 'system:serviceaccount:kube-system:replicaset-controller',
        groups: ['system:serviceaccounts'],
      },
      object,
      oldObject: null,
      dryRun: false,
    },
  });
}

/** Rules as policies of clusters have them; all hold for the pods above. */
export const expressions: readonly string[] = [
  '!has(object.spec.hostNetwork) || !object.spec.hostNetwork',
  '!has(object.spec.hostPID) || !object.spec.hostPID',
  "object.spec.containers.all(c, !c.image.endsWith(':latest'))",
  "object.spec.containers.all(c, c.image.startsWith('registry.example/'))",
  "object.spec.containers.all(c, c.image.matches('^registry[.]example/[a-z0-9/-]+:[0-9.]+$'))",
  'object.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && has(c.resources.limits.memory))',
  "object.spec.containers.all(c, quantity(c.resources.limits.memory).isLessThan(quantity('1Gi')))",
  'object.spec.containers.all(c, !has(c.securityContext.privileged) || !c.securityContext.privileged)',
  'object.spec.containers.all(c, c.securityContext.runAsNonRoot)',
  "object.spec.containers.all(c, c.securityContext.capabilities.drop.exists(d, d == 'ALL'))",
  'object.spec.containers.all(c, has(c.livenessProbe))',
  'object.spec.containers.all(c, c.ports.all(p, p.containerPort > 1024))',
  "has(object.metadata.labels.team) && object.metadata.labels.team != ''",
  "object.metadata.name.size() <= 63 && object.metadata.name.matches('^[a-z0-9-]+$')",
  "object.metadata.?annotations['example.com/owner'].orValue('').contains('@')",
  '!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))',
  'object.spec.containers.map(c, c.name).size() == object.spec.containers.size()',
  "object.spec.serviceAccountName != 'default' && object.spec.terminationGracePeriodSeconds <= 60",
  "object.spec.tolerations.all(t, !has(t.key) || t.key.startsWith('node.kubernetes.io/'))",
  "request.operation != 'DELETE' && request.userInfo.username.startsWith('system:serviceaccount:')",
];
