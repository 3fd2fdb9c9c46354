/**
 * What deploy/ gives to this guard.
 *
 * @module
 */
import type { GuardRights, PodNeeds } from '../../shared/guard/guard.ts';

export const rights: GuardRights = {
  agent: [
    {
      apiGroups: ['networking.k8s.io'],
      resources: ['networkpolicies'],
      verbs: ['list', 'watch'],
      why: 'What is asked for.',
    },
    {
      apiGroups: [''],
      resources: ['pods', 'namespaces', 'nodes'],
      verbs: ['list', 'watch'],
      why: 'Whom selectors select, on any node; the addresses of the pods of this one.',
    },
  ],
  viewer: [
    { apiGroups: ['networking.k8s.io'], resources: ['networkpolicies'], verbs: ['get', 'list', 'watch'] },
    {
      apiGroups: [''],
      resources: ['pods', 'namespaces'],
      verbs: ['list'],
      why: 'For rampart network explain, namespaces too.',
    },
  ],
};

export const pod: PodNeeds = {
  capabilities: [{ name: 'NET_ADMIN', why: "Rules in the node's kernel." }],
  hostNetwork: "The rules are those of the node's network namespace.",
};
