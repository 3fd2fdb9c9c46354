/**
 * What deploy/ gives to this guard. After a change: node scripts/manifests.ts --write
 *
 * @module
 */
import type { GuardRights } from '../../shared/guard/guard.ts';
import { kubewardenTypes, policyGroup } from './api.ts';
import { policyServerRights } from './cluster/server-rights.ts';

const policies = kubewardenTypes.map(({ plural }) => plural);
const reports = ['policyreports', 'clusterpolicyreports'];
const openReports = ['reports', 'clusterreports'];

export const rights: GuardRights = {
  operator: [
    { apiGroups: [policyGroup], resources: [...policies, 'policyservers'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: [policyGroup], resources: policies.map((one) => `${one}/status`), verbs: ['patch'] },
    {
      apiGroups: ['admissionregistration.k8s.io'],
      resources: ['validatingadmissionpolicies', 'validatingadmissionpolicybindings'],
      verbs: ['list', 'watch'],
      why: 'They are audited too.',
    },
    {
      apiGroups: ['*'],
      resources: ['*'],
      verbs: ['get', 'list', 'watch'],
      why: 'Policies can apply to any kind. Unreadable kinds are skipped, and rampart status names them.',
    },
    {
      apiGroups: ['wgpolicyk8s.io'],
      resources: reports,
      verbs: ['get', 'list', 'watch', 'create', 'update', 'delete'],
      why: 'Audit results.',
    },
    {
      apiGroups: ['openreports.io'],
      resources: openReports,
      verbs: ['get', 'list', 'watch', 'create', 'update', 'delete'],
    },
    { apiGroups: [''], resources: ['namespaces'], verbs: ['get', 'list', 'watch'] },
    {
      apiGroups: ['apiextensions.k8s.io'],
      resources: ['customresourcedefinitions'],
      verbs: ['list', 'watch'],
      why: 'They determine which kinds are served.',
    },
    {
      apiGroups: [''],
      resources: ['configmaps'],
      verbs: ['create', 'patch'],
      inSystem: true,
      why: 'A summary of the last pass, for rampart status.',
    },
    ...policyServerRights,
  ],
  viewer: [
    { apiGroups: [policyGroup], resources: [...policies, 'policyservers'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: ['wgpolicyk8s.io'], resources: reports, verbs: ['get', 'list', 'watch'] },
    { apiGroups: ['openreports.io'], resources: openReports, verbs: ['get', 'list', 'watch'] },
    { apiGroups: [''], resources: ['configmaps'], verbs: ['list'], inSystem: true },
  ],
};
