/** The permissions that deploy/ grants this guard. */
import { type GuardRights, type PodNeeds, right } from '../../guard/guard.ts';

export const rights: GuardRights = {
  agent: [
    right('networking.k8s.io', ['networkpolicies'], ['list', 'watch'], { why: "The users' resources." }),
    right('', ['pods', 'namespaces', 'nodes'], ['list', 'watch'], {
      why: 'The pods that selectors match, on any node; the pod addresses of this node.',
    }),
  ],
  viewer: [
    right('networking.k8s.io', ['networkpolicies'], ['get', 'list', 'watch']),
    right('', ['pods', 'namespaces'], ['list'], {
      why: 'For rampart network explain, including namespaces.',
    }),
    right('', ['services'], ['list'], { why: 'The same: which endpoints are behind a Service.' }),
    right('discovery.k8s.io', ['endpointslices'], ['list']),
  ],
};

export const pod: PodNeeds = {
  capabilities: [{ name: 'NET_ADMIN', why: "Rules in the node's kernel." }],
  hostNetwork: "Rules belong to the node's network namespace.",
};
