/** The caches of this guard's controllers, and their indexes. */
import { isDeleting } from '../../lib/kube/controller/finalizers.ts';
import { nodeFacts, podFacts } from '../../lib/kube/object/facts.ts';
import { type Node, nodes, type Pod, pods } from '../../lib/kube/object/object.ts';
import type { CacheQuery } from '../../lib/kube/cache/shared-caches.ts';
import {
  type KiveData,
  kiveDataNamespace,
  kiveDataType,
  type KiveNodeStatus,
  kiveNodeStatusType,
  type KivePolicy,
  kivePolicyType,
} from './api.ts';
import { kernelLabel, nodeOf, podOf, policyNamespaceOf } from './kive-data.ts';
import { compilePolicy } from './policy/matching.ts';
import { unlimitedScope } from './policy/policy-scope.ts';
import { annotationOf, kernelOf } from './policy/spellings.ts';

/** `namespace/name` of the policy that a KiveData was made for. */
export function policyKeyOf(data: KiveData): string {
  return `${policyNamespaceOf(data)}/${annotationOf(data, 'kive-policy-name')}`;
}

/** With the name of the runtime; empty if the object does not say. */
export function containerIdOf(data: KiveData): string {
  return annotationOf(data, 'container-id');
}

/** Identifies a container of a node by its place: two runtimes on one machine may use the same ids. */
export function placeOf(nodeName: string, containerId: string): string {
  return `${nodeName} ${containerId}`;
}

/** The index `trap` has the ids of valid traps, regardless of which pods their policies may match. */
export const policyQuery: CacheQuery<KivePolicy> = {
  type: kivePolicyType,
  indexes: {
    trap: (policy) =>
      isDeleting(policy) ? [] : compilePolicy(policy, unlimitedScope).traps.map(({ id }) => id),
  },
};

const dataIndexes = {
  policy: (data: KiveData): string[] => [policyKeyOf(data)],
  node: (data: KiveData): string[] => [nodeOf(data)],
  place: (data: KiveData): string[] => [placeOf(nodeOf(data), containerIdOf(data))],
  kernel: (data: KiveData): string[] => [kernelOf(data)],
  pod: (data: KiveData): string[] => {
    const { namespace, name } = podOf(data);
    return [`${namespace}/${name}`];
  },
};

/** @param kernelId - Only KiveData of this kernel. Default: of all kernels. */
export function dataQuery(
  indexes: readonly (keyof typeof dataIndexes)[],
  kernelId?: string,
): CacheQuery<KiveData> {
  return {
    type: kiveDataType,
    namespace: kiveDataNamespace,
    labelSelector: kernelId && `${kernelLabel}=${kernelId}`,
    indexes: Object.fromEntries(indexes.map((name) => [name, dataIndexes[name]])),
  };
}

export const podQuery: CacheQuery<Pod> = { type: pods, projection: podFacts };

export const nodeQuery: CacheQuery<Node> = { type: nodes, projection: nodeFacts };

/** Has the index `node`. */
export const nodeStatusQuery: CacheQuery<KiveNodeStatus> = {
  type: kiveNodeStatusType,
  namespace: kiveDataNamespace,
  indexes: { node: (status) => [nodeOfStatus(status)] },
};

/** The node of a KiveNodeStatus: its name. */
export function nodeOfStatus({ metadata }: KiveNodeStatus): string {
  return metadata.name ?? '';
}
