/** v1 of the groups for networking, discovery, leases, priorities, access and admission. */
import type { Resource, Strategy } from '../../resources/resource.ts';
import {
  admissionBindingColumns,
  admissionPolicyColumns,
  bindingColumns,
  webhookColumns,
} from '../columns/access.ts';
import { leaseColumns, priorityClassColumns } from '../columns/cluster.ts';
import { plainColumns, storedColumns } from '../columns/column.ts';
import { networkPolicyColumns } from '../columns/network.ts';
import { defaultSubjects } from '../defaults/config.ts';
import { defaultNetworkPolicy } from '../defaults/network.ts';
import { kindOf } from '../kind.ts';
import { statusAloneOf, statusOf } from '../subresources.ts';
import { admissionBindingCauses, admissionPolicyCauses, webhookCauses } from '../validation/admission.ts';
import { leaseCauses } from '../validation/cluster.ts';
import { networkPolicyCauses } from '../validation/network-policy.ts';
import {
  clusterRoleBindingCauses,
  clusterRoleCauses,
  roleBindingCauses,
  roleCauses,
} from '../validation/rbac.ts';

const counted: Partial<Strategy> = { generation: 'all' };
const networking = 'networking.k8s.io';
const rbac = 'rbac.authorization.k8s.io';
const rbacStrategy: Partial<Strategy> = { nameRule: 'path-segment', allowCreateOnUpdate: true };
const admission = 'admissionregistration.k8s.io';
const extensions = ['api-extensions'];

export const clusterKinds: readonly Resource[] = [
  kindOf(admission, 'MutatingWebhookConfiguration', {
    categories: extensions,
    namespaced: false,
    columns: webhookColumns,
    strategy: { ...counted, validate: webhookCauses },
  }),
  kindOf(admission, 'ValidatingAdmissionPolicy', {
    categories: extensions,
    namespaced: false,
    columns: admissionPolicyColumns,
    subresources: [statusAloneOf({ group: admission, kind: 'ValidatingAdmissionPolicy' })],
    newStatus: {},
    strategy: { ...counted, validate: admissionPolicyCauses },
  }),
  kindOf(admission, 'ValidatingAdmissionPolicyBinding', {
    categories: extensions,
    namespaced: false,
    columns: admissionBindingColumns,
    strategy: { ...counted, validate: admissionBindingCauses },
  }),
  kindOf(admission, 'ValidatingWebhookConfiguration', {
    categories: extensions,
    namespaced: false,
    columns: webhookColumns,
    strategy: { ...counted, validate: webhookCauses },
  }),
  kindOf('coordination.k8s.io', 'Lease', {
    columns: leaseColumns,
    strategy: { allowCreateOnUpdate: true, allowUnconditionalUpdate: false, validate: leaseCauses },
  }),
  kindOf('discovery.k8s.io', 'EndpointSlice', { columns: storedColumns, strategy: counted }),
  kindOf(networking, 'IngressClass', { namespaced: false, columns: storedColumns, strategy: counted }),
  kindOf(networking, 'Ingress', {
    shortNames: ['ing'],
    columns: storedColumns,
    subresources: [statusOf({ group: networking, kind: 'Ingress' })],
    newStatus: { loadBalancer: {} },
    strategy: counted,
  }),
  kindOf(networking, 'NetworkPolicy', {
    shortNames: ['netpol'],
    columns: networkPolicyColumns,
    defaults: defaultNetworkPolicy,
    strategy: { ...counted, validate: networkPolicyCauses },
  }),
  kindOf(rbac, 'ClusterRoleBinding', {
    namespaced: false,
    columns: bindingColumns,
    defaults: defaultSubjects,
    strategy: { ...rbacStrategy, validate: clusterRoleBindingCauses },
  }),
  kindOf(rbac, 'ClusterRole', {
    namespaced: false,
    columns: plainColumns,
    strategy: { ...rbacStrategy, validate: clusterRoleCauses },
  }),
  kindOf(rbac, 'RoleBinding', {
    columns: bindingColumns,
    defaults: defaultSubjects,
    strategy: { ...rbacStrategy, validate: roleBindingCauses },
  }),
  kindOf(rbac, 'Role', { columns: plainColumns, strategy: { ...rbacStrategy, validate: roleCauses } }),
  kindOf('scheduling.k8s.io', 'PriorityClass', {
    shortNames: ['pc'],
    namespaced: false,
    columns: priorityClassColumns,
    strategy: counted,
  }),
];
