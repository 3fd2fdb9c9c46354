/** The groups for networking, discovery, leases, priorities, access and admission, v1. */
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

const plain: Strategy = { nameRule: 'dns-subdomain', generation: 'none', resetFields: [] };
const counted: Strategy = { ...plain, generation: 'all' };

const discovery = kindOf({
  group: 'discovery.k8s.io',
  kind: 'EndpointSlice',
  plural: 'endpointslices',
  namespaced: true,
  columns: storedColumns,
  strategy: counted,
});

const leases = kindOf({
  group: 'coordination.k8s.io',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
  columns: leaseColumns,
  strategy: { ...plain, allowCreateOnUpdate: true, allowUnconditionalUpdate: false, validate: leaseCauses },
});

const priorityClasses = kindOf({
  group: 'scheduling.k8s.io',
  kind: 'PriorityClass',
  plural: 'priorityclasses',
  shortNames: ['pc'],
  namespaced: false,
  columns: priorityClassColumns,
  strategy: counted,
});

const networking = 'networking.k8s.io';

const networkPolicies = kindOf({
  group: networking,
  kind: 'NetworkPolicy',
  plural: 'networkpolicies',
  shortNames: ['netpol'],
  namespaced: true,
  columns: networkPolicyColumns,
  strategy: {
    ...counted,
    prepareForCreate: defaultNetworkPolicy,
    prepareForUpdate: defaultNetworkPolicy,
    validate: networkPolicyCauses,
  },
});

const ingresses = kindOf({
  group: networking,
  kind: 'Ingress',
  plural: 'ingresses',
  shortNames: ['ing'],
  namespaced: true,
  columns: storedColumns,
  subresources: [statusOf({ group: networking, kind: 'Ingress' })],
  strategy: {
    ...counted,
    resetFields: ['status'],
    prepareForCreate: (ingress) => {
      ingress['status'] = { loadBalancer: {} };
    },
  },
});

const ingressClasses = kindOf({
  group: networking,
  kind: 'IngressClass',
  plural: 'ingressclasses',
  namespaced: false,
  columns: storedColumns,
  strategy: counted,
});

const rbac = 'rbac.authorization.k8s.io';
const rbacStrategy: Strategy = { ...plain, nameRule: 'path-segment', allowCreateOnUpdate: true };

const roles = kindOf({
  group: rbac,
  kind: 'Role',
  plural: 'roles',
  namespaced: true,
  columns: plainColumns,
  strategy: { ...rbacStrategy, validate: roleCauses },
});

const clusterRoles = kindOf({
  group: rbac,
  kind: 'ClusterRole',
  plural: 'clusterroles',
  namespaced: false,
  columns: plainColumns,
  strategy: { ...rbacStrategy, validate: clusterRoleCauses },
});

const bindingStrategy: Strategy = {
  ...rbacStrategy,
  prepareForCreate: defaultSubjects,
  prepareForUpdate: defaultSubjects,
};

const roleBindings = kindOf({
  group: rbac,
  kind: 'RoleBinding',
  plural: 'rolebindings',
  namespaced: true,
  columns: bindingColumns,
  strategy: { ...bindingStrategy, validate: roleBindingCauses },
});

const clusterRoleBindings = kindOf({
  group: rbac,
  kind: 'ClusterRoleBinding',
  plural: 'clusterrolebindings',
  namespaced: false,
  columns: bindingColumns,
  strategy: { ...bindingStrategy, validate: clusterRoleBindingCauses },
});

const admission = 'admissionregistration.k8s.io';
const extensions = ['api-extensions'];

const admissionPolicies = kindOf({
  group: admission,
  kind: 'ValidatingAdmissionPolicy',
  plural: 'validatingadmissionpolicies',
  categories: extensions,
  namespaced: false,
  columns: admissionPolicyColumns,
  subresources: [statusAloneOf({ group: admission, kind: 'ValidatingAdmissionPolicy' })],
  strategy: {
    ...counted,
    resetFields: ['status'],
    prepareForCreate: (policy) => {
      policy['status'] = {};
    },
    validate: admissionPolicyCauses,
  },
});

const admissionBindings = kindOf({
  group: admission,
  kind: 'ValidatingAdmissionPolicyBinding',
  plural: 'validatingadmissionpolicybindings',
  categories: extensions,
  namespaced: false,
  columns: admissionBindingColumns,
  strategy: { ...counted, validate: admissionBindingCauses },
});

const validatingWebhooks = kindOf({
  group: admission,
  kind: 'ValidatingWebhookConfiguration',
  plural: 'validatingwebhookconfigurations',
  categories: extensions,
  namespaced: false,
  columns: webhookColumns,
  strategy: { ...counted, validate: webhookCauses },
});

const mutatingWebhooks = kindOf({
  group: admission,
  kind: 'MutatingWebhookConfiguration',
  plural: 'mutatingwebhookconfigurations',
  categories: extensions,
  namespaced: false,
  columns: webhookColumns,
  strategy: { ...counted, validate: webhookCauses },
});

export const clusterKinds: readonly (readonly Resource[])[] = [
  [mutatingWebhooks],
  [admissionPolicies],
  [admissionBindings],
  [validatingWebhooks],
  [leases],
  [discovery],
  [ingressClasses],
  [ingresses],
  [networkPolicies],
  [clusterRoleBindings],
  [clusterRoles],
  [roleBindings],
  [roles],
  [priorityClasses],
];
