/** The permissions that deploy/ grants this guard. */
import type { GuardRights, PodNeeds } from '../../guard/guard.ts';

export const rights: GuardRights = {
  agent: [
    {
      apiGroups: ['networking.k8s.io'],
      resources: ['networkpolicies'],
      verbs: ['list', 'watch'],
      why: "The users' resources.",
    },
    {
      apiGroups: [''],
      resources: ['pods', 'namespaces', 'nodes'],
      verbs: ['list', 'watch'],
      why: 'The pods that selectors match, on any node; the pod addresses of this node.',
    },
  ],
  viewer: [
    { apiGroups: ['networking.k8s.io'], resources: ['networkpolicies'], verbs: ['get', 'list', 'watch'] },
    {
      apiGroups: [''],
      resources: ['pods', 'namespaces'],
      verbs: ['list'],
      why: 'For rampart network explain, including namespaces.',
    },
  ],
};

export const pod: PodNeeds = {
  capabilities: [{ name: 'NET_ADMIN', why: "Rules in the node's kernel." }],
  hostNetwork: "Rules belong to the node's network namespace.",
};
