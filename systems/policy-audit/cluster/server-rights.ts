/**
 * What the operator may do where it runs policy servers; for the guard's rights.
 *
 * @module
 */
import type { Right } from '../../../shared/guard/guard.ts';
import { kubewardenTypes, policyGroup, policyServerType } from '../api.ts';

const write = ['get', 'list', 'watch', 'create', 'patch'] as const;

export const policyServerRights: readonly Right[] = [
  {
    apiGroups: [policyGroup],
    resources: ['policyservers'],
    verbs: ['get', 'list', 'watch', 'patch'],
    why: 'With a finalizer, so that webhooks are removed before their server.',
  },
  {
    apiGroups: [policyGroup],
    resources: [
      ...[...kubewardenTypes, policyServerType].map(({ plural }) => `${plural}/status`),
      'policyservers/finalizers',
    ],
    verbs: ['patch', 'update'],
  },
  {
    apiGroups: ['admissionregistration.k8s.io'],
    resources: ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations'],
    verbs: [...write, 'delete'],
    why: 'One for each policy.',
  },
  {
    apiGroups: ['apps'],
    resources: ['deployments'],
    verbs: write,
    inSystem: true,
    why: 'The policy servers.',
  },
  {
    apiGroups: [''],
    resources: ['configmaps', 'services', 'secrets'],
    verbs: write,
    inSystem: true,
    why: 'Their policies, their addresses, their certificates.',
  },
  { apiGroups: ['policy'], resources: ['poddisruptionbudgets'], verbs: [...write, 'delete'], inSystem: true },
];
