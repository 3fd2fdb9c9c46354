/**
 * Which models of @kubernetes/client-node `build-kinds.ts` starts from, and what they are called in OpenAPI.
 */

/** A kind as OpenAPI names it in `x-kubernetes-group-version-kind`. */
interface GroupVersionKind {
  readonly group: string;
  readonly kind: string;
  readonly version: string;
}

export interface KindRoot {
  /** The model: `V1Pod`. */
  readonly className: string;
  /** Prefix of its name, and of everything that only it and its like use: `io.k8s.api.core.v1`. */
  readonly owner: string;
  readonly kinds: readonly GroupVersionKind[];
}

const meta = 'io.k8s.apimachinery.pkg.apis.meta.v1';
const core = 'io.k8s.api.core.v1';

/** Models that belong to a group whoever uses them first. */
export const modelGroups: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    [
      'V1Condition',
      'V1DeleteOptions',
      'V1FieldSelectorRequirement',
      'V1LabelSelector',
      'V1LabelSelectorRequirement',
      'V1ListMeta',
      'V1ManagedFieldsEntry',
      'V1ObjectMeta',
      'V1OwnerReference',
      'V1Preconditions',
      'V1Status',
      'V1StatusCause',
      'V1StatusDetails',
    ].map((name) => [name, meta] as const),
  ),
  V1UserInfo: 'io.k8s.api.authentication.v1',
};

interface Group {
  readonly group: string;
  readonly owner: string;
  /** Default: v1. */
  readonly version?: string;
  /** Their names as the models have them, without the version in front. */
  readonly kinds: readonly string[];
  /** Where the model is not the version with the kind. */
  readonly models?: Readonly<Record<string, string>>;
}

/** In this order: what several groups use belongs to the first. */
const groups: readonly Group[] = [
  {
    group: '',
    owner: core,
    kinds: [
      'Pod',
      'Namespace',
      'Node',
      'Service',
      'Endpoints',
      'ConfigMap',
      'Secret',
      'Event',
      'ServiceAccount',
      'PersistentVolume',
      'PersistentVolumeClaim',
      'LimitRange',
      'ResourceQuota',
      'ReplicationController',
      'Binding',
    ],
    models: { Event: 'CoreV1Event' },
  },
  { group: 'autoscaling', owner: 'io.k8s.api.autoscaling.v1', kinds: ['Scale'] },
  {
    group: 'events.k8s.io',
    owner: 'io.k8s.api.events.v1',
    kinds: ['Event'],
    models: { Event: 'EventsV1Event' },
  },
  { group: 'discovery.k8s.io', owner: 'io.k8s.api.discovery.v1', kinds: ['EndpointSlice'] },
  { group: 'coordination.k8s.io', owner: 'io.k8s.api.coordination.v1', kinds: ['Lease'] },
  {
    group: 'apps',
    owner: 'io.k8s.api.apps.v1',
    kinds: ['Deployment', 'DaemonSet', 'StatefulSet', 'ReplicaSet'],
  },
  { group: 'batch', owner: 'io.k8s.api.batch.v1', kinds: ['Job', 'CronJob'] },
  {
    group: 'networking.k8s.io',
    owner: 'io.k8s.api.networking.v1',
    kinds: ['NetworkPolicy', 'Ingress', 'IngressClass'],
  },
  {
    group: 'rbac.authorization.k8s.io',
    owner: 'io.k8s.api.rbac.v1',
    kinds: ['Role', 'RoleBinding', 'ClusterRole', 'ClusterRoleBinding'],
  },
  {
    group: 'admissionregistration.k8s.io',
    owner: 'io.k8s.api.admissionregistration.v1',
    kinds: [
      'ValidatingAdmissionPolicy',
      'ValidatingAdmissionPolicyBinding',
      'ValidatingWebhookConfiguration',
      'MutatingWebhookConfiguration',
    ],
  },
  ...['v1beta1', 'v1alpha1'].map((version) => ({
    group: 'admissionregistration.k8s.io',
    owner: `io.k8s.api.admissionregistration.${version}`,
    version,
    kinds: ['MutatingAdmissionPolicy', 'MutatingAdmissionPolicyBinding'],
  })),
  { group: 'scheduling.k8s.io', owner: 'io.k8s.api.scheduling.v1', kinds: ['PriorityClass'] },
  { group: 'policy', owner: 'io.k8s.api.policy.v1', kinds: ['PodDisruptionBudget', 'Eviction'] },
  {
    group: 'apiextensions.k8s.io',
    owner: 'io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1',
    kinds: ['CustomResourceDefinition'],
  },
  {
    group: 'authentication.k8s.io',
    owner: 'io.k8s.api.authentication.v1',
    kinds: ['SelfSubjectReview', 'TokenReview'],
  },
  {
    group: 'authorization.k8s.io',
    owner: 'io.k8s.api.authorization.v1',
    kinds: ['SelfSubjectAccessReview', 'SelfSubjectRulesReview', 'SubjectAccessReview'],
  },
];

export const kindRoots: readonly KindRoot[] = [
  ...['V1ListMeta', 'V1Status', 'V1DeleteOptions'].map((className) => ({
    className,
    owner: meta,
    kinds: [],
  })),
  ...groups.flatMap(({ group, owner, version = 'v1', kinds, models = {} }) =>
    kinds.map((kind) => ({
      className: models[kind] ?? `V${version.slice(1)}${kind}`,
      owner,
      kinds: [{ group, kind, version }],
    })),
  ),
];
