/** The permissions that deploy/ grants this guard. After a change: node scripts/manifests.ts --write */
import type { GuardRights } from '../../guard/guard.ts';
import { kubewardenTypes, policyGroup, policyServerType } from './api.ts';

const read = ['get', 'list', 'watch'] as const;
const apply = [...read, 'create', 'patch'] as const;
const policies = kubewardenTypes.map(({ plural }) => plural);
const kinds = [...policies, policyServerType.plural];
const reports = ['policyreports', 'clusterpolicyreports'];
const openReports = ['reports', 'clusterreports'];

export const rights: GuardRights = {
  operator: [
    {
      apiGroups: ['*'],
      resources: ['*'],
      verbs: read,
      why: 'Policies can apply to any kind. Unreadable kinds are skipped, and rampart status names them.',
    },
    { apiGroups: [policyGroup], resources: kinds, verbs: read, why: 'Always needed.' },
    {
      apiGroups: [policyGroup],
      resources: ['policyservers'],
      verbs: ['patch'],
      why: 'With a finalizer, so that webhooks are removed before their server.',
    },
    {
      apiGroups: [policyGroup],
      resources: policies,
      verbs: ['patch'],
      why: "Removes finalizers of Kubewarden's controller from deleted policies.",
    },
    {
      apiGroups: [policyGroup],
      resources: [...kinds.map((one) => `${one}/status`), 'policyservers/finalizers'],
      verbs: ['patch', 'update'],
    },
    {
      apiGroups: ['admissionregistration.k8s.io'],
      resources: ['validatingadmissionpolicies', 'validatingadmissionpolicybindings'],
      verbs: ['list', 'watch'],
      why: 'They are audited too.',
    },
    {
      apiGroups: ['admissionregistration.k8s.io'],
      resources: ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations'],
      verbs: [...apply, 'delete'],
      why: 'One for each policy.',
    },
    {
      apiGroups: ['authorization.k8s.io'],
      resources: ['subjectaccessreviews'],
      verbs: ['create'],
      why: 'Policies check permissions: can_i, and authorizer in CEL.',
    },
    {
      apiGroups: ['wgpolicyk8s.io'],
      resources: reports,
      verbs: [...read, 'create', 'update', 'delete'],
      why: 'Reports of the results.',
    },
    {
      apiGroups: ['openreports.io'],
      resources: openReports,
      verbs: [...read, 'create', 'update', 'delete'],
    },
    { apiGroups: [''], resources: ['namespaces'], verbs: read },
    {
      apiGroups: ['apiextensions.k8s.io'],
      resources: ['customresourcedefinitions'],
      verbs: ['list', 'watch'],
      why: 'They determine which kinds are served.',
    },
    { apiGroups: ['apps'], resources: ['deployments'], verbs: apply, inSystem: true, why: 'Policy servers.' },
    {
      apiGroups: [''],
      resources: ['configmaps', 'services', 'secrets'],
      verbs: apply,
      inSystem: true,
      why: 'The result of the last pass, for rampart status; policies, addresses and certificates of policy servers.',
    },
    {
      apiGroups: ['policy'],
      resources: ['poddisruptionbudgets'],
      verbs: [...apply, 'delete'],
      inSystem: true,
    },
  ],
  viewer: [
    { apiGroups: [policyGroup], resources: kinds, verbs: read },
    { apiGroups: ['wgpolicyk8s.io'], resources: reports, verbs: read },
    { apiGroups: ['openreports.io'], resources: openReports, verbs: read },
    { apiGroups: [''], resources: ['configmaps'], verbs: ['list'], inSystem: true },
  ],
};
