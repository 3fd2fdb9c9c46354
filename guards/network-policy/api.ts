/** The resource of this guard: Kubernetes' own NetworkPolicy, which has no status. */
import type { V1NetworkPolicy } from '@kubernetes/client-node';

import type { KubeKind, ResourceType } from '../../lib/kube/object/object.ts';

export type NetworkPolicy = KubeKind<V1NetworkPolicy>;

export const networkPolicies: ResourceType<NetworkPolicy> = {
  group: 'networking.k8s.io',
  version: 'v1',
  plural: 'networkpolicies',
  kind: 'NetworkPolicy',
  namespaced: true,
};
