/**
 * The resources of the policy-audit guard: Kubewarden's policies and PolicyServer, so that manifests written for it work
 * unchanged.
 *
 * The manifests in `crd/` are generated from this file: `node scripts/manifests.ts --write`.
 */
import type {
  V1beta1MutatingAdmissionPolicy,
  V1beta1MutatingAdmissionPolicyBinding,
  V1ValidatingAdmissionPolicy,
  V1ValidatingAdmissionPolicyBinding,
} from '@kubernetes/client-node';
import {
  ageColumn,
  defineResource,
  type ObjectOf,
  type PrinterColumn,
  resourceType,
} from '../../lib/kube/crd/resource.ts';
import { optional } from '../../lib/kube/crd/schema.ts';
import type { Condition } from '../../lib/kube/object/conditions.ts';
import { clusterKind, type KubeKind, type KubeObject } from '../../lib/kube/object/object.ts';
import { policyExceptionSpec, policyExceptionStatus } from './exception-schema.ts';
import {
  clusterGroupSpec,
  clusterPolicySpec,
  groupSpec,
  policySpec,
  policyStatus,
  type PolicyStatusName,
} from './policy-schema.ts';
import { policyServerSpec, policyServerStatus } from './policy-server-schema.ts';

/** A printer column with an annotation of Kubewarden. */
const annotation = (name: string, key: string): PrinterColumn => ({
  name,
  type: 'string',
  jsonPath: `.metadata.annotations['io\\.kubewarden\\.policy\\.${key}']`,
  priority: 1,
});

/** A printer column with Kubewarden's description. */
const column = (
  name: string,
  jsonPath: string,
  description: string,
  type: PrinterColumn['type'] = 'string',
): PrinterColumn => ({ name, type, jsonPath, description });

const policyColumns: readonly PrinterColumn[] = [
  column('Policy Server', '.spec.policyServer', 'Bound to Policy Server'),
  column('Mutating', '.spec.mutating', 'Whether the policy is mutating', 'boolean'),
  column('BackgroundAudit', '.spec.backgroundAudit', 'Whether the policy is used in audit checks', 'boolean'),
  column('Mode', '.spec.mode', 'Policy deployment mode'),
  column('Observed mode', '.status.mode', 'Policy deployment mode observed on the assigned Policy Server'),
  column('Status', '.status.policyStatus', 'Status of the policy'),
  ageColumn,
  annotation('Severity', 'severity'),
  annotation('Category', 'category'),
];

export const policyGroup = 'policies.kubewarden.io';

const status = { statusSubresource: true, columns: policyColumns } as const;

function bothVersions<Fields>(description: string, fields: Fields, columns = policyColumns) {
  const more = { fields, statusSubresource: true, columns } as const;
  return {
    v1: { description: `${description}.`, storage: true, ...more },
    v1alpha2: { description: `${description}; the same as v1.`, storage: false, ...more },
  } as const;
}

export const clusterAdmissionPolicies = defineResource({
  group: policyGroup,
  kind: 'ClusterAdmissionPolicy',
  plural: 'clusteradmissionpolicies',
  shortNames: ['cap'],
  scope: 'Cluster',
  versions: bothVersions('A policy for objects of the whole cluster', {
    spec: clusterPolicySpec,
    status: optional(policyStatus),
  }),
});

export const admissionPolicies = defineResource({
  group: policyGroup,
  kind: 'AdmissionPolicy',
  plural: 'admissionpolicies',
  shortNames: ['ap'],
  scope: 'Namespaced',
  versions: bothVersions('A policy for objects of its namespace', {
    spec: policySpec,
    status: optional(policyStatus),
  }),
});

export const clusterAdmissionPolicyGroups = defineResource({
  group: policyGroup,
  kind: 'ClusterAdmissionPolicyGroup',
  plural: 'clusteradmissionpolicygroups',
  shortNames: ['capg'],
  scope: 'Cluster',
  versions: {
    v1: {
      description: 'Several policies combined by one expression, for the whole cluster.',
      fields: { spec: clusterGroupSpec, status: optional(policyStatus) },
      ...status,
    },
  },
});

export const admissionPolicyGroups = defineResource({
  group: policyGroup,
  kind: 'AdmissionPolicyGroup',
  plural: 'admissionpolicygroups',
  shortNames: ['apg'],
  scope: 'Namespaced',
  versions: {
    v1: {
      description: 'Several policies combined by one expression, for its namespace.',
      fields: { spec: groupSpec, status: optional(policyStatus) },
      ...status,
    },
  },
});

export const policyServers = defineResource({
  group: policyGroup,
  kind: 'PolicyServer',
  plural: 'policyservers',
  shortNames: ['ps'],
  scope: 'Cluster',
  versions: bothVersions(
    'A server that evaluates policies, run by the operator',
    { spec: policyServerSpec, status: optional(policyServerStatus) },
    [
      column('Replicas', '.spec.replicas', 'Policy Server replicas'),
      column('Image', '.spec.image', 'Policy Server image'),
    ],
  ),
});

/** Has the fields of Kyverno's kind of this name, but applies to policies in any language. */
export const policyExceptions = defineResource({
  group: 'rampart.dev',
  kind: 'PolicyException',
  plural: 'policyexceptions',
  scope: 'Namespaced',
  versions: {
    v1alpha1: {
      description: 'Objects that policies do not apply to, until when and why.',
      fields: { spec: policyExceptionSpec, status: optional(policyExceptionStatus) },
      columns: [
        column('Active', ".status.conditions[?(@.type=='Active')].status", 'Whether it is in effect'),
        column('Until', '.spec.until', 'When it ends'),
        column('Reason', '.spec.reason', 'Why the policies do not apply'),
        ageColumn,
      ],
    },
  },
});

export type PolicyException = ObjectOf<typeof policyExceptions, 'v1alpha1'>;
export const policyExceptionType = resourceType(policyExceptions, 'v1alpha1');

export type ClusterAdmissionPolicy = ObjectOf<typeof clusterAdmissionPolicies, 'v1'>;
export type AdmissionPolicy = ObjectOf<typeof admissionPolicies, 'v1'>;
export type ClusterAdmissionPolicyGroup = ObjectOf<typeof clusterAdmissionPolicyGroups, 'v1'>;
export type PolicyServer = ObjectOf<typeof policyServers, 'v1'>;

export const clusterAdmissionPolicyType = resourceType(clusterAdmissionPolicies, 'v1');
export const admissionPolicyType = resourceType(admissionPolicies, 'v1');
export const clusterAdmissionPolicyGroupType = resourceType(clusterAdmissionPolicyGroups, 'v1');
const admissionPolicyGroupType = resourceType(admissionPolicyGroups, 'v1');
export const policyServerType = resourceType(policyServers, 'v1');

/** The kinds with `status.policyStatus`. */
export const kubewardenTypes = [
  clusterAdmissionPolicyType,
  admissionPolicyType,
  clusterAdmissionPolicyGroupType,
  admissionPolicyGroupType,
] as const;

/** The type of any of these kinds, for code that does not depend on the kind. */
export interface AnyKubewardenPolicy extends KubeObject {
  readonly spec: ClusterAdmissionPolicy['spec'] | ClusterAdmissionPolicyGroup['spec'];
  readonly status?: {
    readonly policyStatus?: PolicyStatusName;
    readonly mode?: 'protect' | 'monitor' | 'unknown';
    readonly conditions?: readonly Condition[];
  };
}

export type ValidatingAdmissionPolicy = KubeKind<V1ValidatingAdmissionPolicy>;
export type ValidatingAdmissionPolicyBinding = KubeKind<V1ValidatingAdmissionPolicyBinding>;

/** Kinds of Kubernetes itself: served by API servers of 1.30 or later. */
export const validatingAdmissionPolicies = clusterKind<ValidatingAdmissionPolicy>(
  'admissionregistration.k8s.io',
  'validatingadmissionpolicies',
  'ValidatingAdmissionPolicy',
);
export const validatingAdmissionPolicyBindings = clusterKind<ValidatingAdmissionPolicyBinding>(
  'admissionregistration.k8s.io',
  'validatingadmissionpolicybindings',
  'ValidatingAdmissionPolicyBinding',
);

export type MutatingAdmissionPolicy = KubeKind<V1beta1MutatingAdmissionPolicy>;
export type MutatingAdmissionPolicyBinding = KubeKind<V1beta1MutatingAdmissionPolicyBinding>;

/** Served by the embedded API. In a cluster, the API server evaluates these policies. */
export const mutatingAdmissionPolicies = clusterKind<MutatingAdmissionPolicy>(
  'admissionregistration.k8s.io',
  'mutatingadmissionpolicies',
  'MutatingAdmissionPolicy',
  'v1beta1',
);
export const mutatingAdmissionPolicyBindings = clusterKind<MutatingAdmissionPolicyBinding>(
  'admissionregistration.k8s.io',
  'mutatingadmissionpolicybindings',
  'MutatingAdmissionPolicyBinding',
  'v1beta1',
);
