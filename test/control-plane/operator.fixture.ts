/**
 * The objects that install an operator: a definition with a large schema, an object of its kind, and the
 * usual rest.
 */
import { stringify } from 'yaml';

interface Schema {
  readonly type: string;
  readonly description: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: { readonly type: string };
}

/** As generated from Go types: deep, and mostly descriptions. */
function fieldsOf(depth: number): Readonly<Record<string, Schema>> {
  const leaves = ['string', 'integer', 'boolean', 'array'] as const;
  const description = 'What this is for, how it came to be, and where to read more about it.';
  const count = depth === 0 ? leaves.length : 6;
  return Object.fromEntries(
    Array.from({ length: count }, (_, index): [string, Schema] => {
      if (depth > 0) return [`f${index}`, { type: 'object', description, properties: fieldsOf(depth - 1) }];
      const type = leaves[index] ?? 'string';
      return [`f${index}`, { type, description, ...(type === 'array' && { items: { type: 'string' } }) }];
    }),
  );
}

export const largeDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'monitors.suite.example.com' },
  spec: {
    group: 'suite.example.com',
    scope: 'Namespaced',
    names: {
      plural: 'monitors',
      singular: 'monitor',
      kind: 'Monitor',
      shortNames: ['mon'],
      categories: ['all'],
    },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: {
          status: {},
          scale: { specReplicasPath: '.spec.shards', statusReplicasPath: '.status.shards' },
        },
        additionalPrinterColumns: [
          { name: 'Version', type: 'string', jsonPath: '.spec.version' },
          { name: 'Ready', type: 'string', jsonPath: ".status.conditions[?(@.type == 'Available')].status" },
        ],
        schema: {
          openAPIV3Schema: {
            type: 'object',
            required: ['spec'],
            properties: {
              apiVersion: { type: 'string' },
              kind: { type: 'string' },
              metadata: { type: 'object' },
              spec: {
                type: 'object',
                properties: {
                  version: { type: 'string' },
                  shards: { type: 'integer', format: 'int32' },
                  ...fieldsOf(3),
                },
              },
              status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
            },
          },
        },
      },
    ],
  },
};

export const manifests = {
  'namespace.yaml': 'apiVersion: v1\nkind: Namespace\nmetadata: {name: monitoring}\n',
  // Past what the last-applied annotation may hold (256 KiB) it could be applied by the server only.
  'definition.yaml': stringify(largeDefinition),
  'monitor.yaml': `
apiVersion: suite.example.com/v1
kind: Monitor
metadata: {name: main, namespace: monitoring}
spec: {version: v1.0, shards: 2, f0: {f1: {f2: {f0: a, f1: 3, f2: true, f3: [p, q]}}}}
`,
  'operator.yaml': `
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: operator}
rules:
  - apiGroups: [suite.example.com]
    resources: ['*']
    verbs: ['*']
  - nonResourceURLs: [/metrics]
    verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: operator}
subjects: [{kind: ServiceAccount, name: operator, namespace: monitoring}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator, labels: {app: operator}}
spec:
  replicas: 1
  selector: {matchLabels: {app: operator}}
  template:
    metadata: {labels: {app: operator}}
    spec:
      serviceAccountName: operator
      automountServiceAccountToken: true
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      nodeSelector: {kubernetes.io/os: linux}
      containers:
        - name: operator
          image: registry.example.com/operator:v1
          args: [--watch=monitors]
          env: [{name: GOGC, value: '30'}]
          ports: [{containerPort: 8080, name: http}]
          resources: {limits: {cpu: 200m, memory: 200Mi}, requests: {cpu: 100m, memory: 100Mi}}
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
---
apiVersion: v1
kind: Service
metadata: {name: operator}
spec: {clusterIP: None, ports: [{name: http, port: 8080, targetPort: http}], selector: {app: operator}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: backup}
spec:
  schedule: '@daily'
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: OnFailure, containers: [{name: b, image: b, command: [sh, -c, date]}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {}, policyTypes: [Ingress]}
`,
} as const satisfies Record<string, string>;

export const kustomization = `
namespace: monitoring
resources: [namespace.yaml, definition.yaml, monitor.yaml, operator.yaml]
configMapGenerator: [{name: settings, literals: [a=b]}]
secretGenerator: [{name: password, literals: [p=q]}]
`;
