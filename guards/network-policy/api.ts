/** The resource of this guard: Kubernetes' own NetworkPolicy, which has no status. */
import type { V1NetworkPolicy } from '@kubernetes/client-node';

import { type KubeKind, namespacedKind } from '../../lib/kube/object/object.ts';

export type NetworkPolicy = KubeKind<V1NetworkPolicy>;

export const networkPolicies = namespacedKind<NetworkPolicy>(
  'networking.k8s.io',
  'networkpolicies',
  'NetworkPolicy',
);
