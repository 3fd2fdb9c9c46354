/** Finds orphaned KiveData: the agent that should delete them is gone, or was gone at the time. */
import type { KiveData } from '../api.ts';
import { isOver } from '../node/desired.ts';
import { isOfHost, nodeOf, podOf, trapIdLabel } from '../kive-data.ts';
import type { PodView } from '../policy/matching.ts';
import { kernelOf } from '../policy/spellings.ts';

export interface ClusterView {
  pod(namespace: string, name: string): PodView | undefined;
  /** `status.nodeInfo.bootID` of the node; undefined if there is no such node, '' if it has not reported one yet. */
  bootId(nodeName: string): string | undefined;
  hasTrap(id: string): boolean;
  /** Whether a policy in the namespace of its policy may still match its pod or node. */
  mayMatch(data: KiveData): boolean;
}

export type StaleReason =
  'PodGone' | 'PodOver' | 'PodReplaced' | 'NodeGone' | 'KernelGone' | 'OutsideNamespace' | 'TrapGone';

/** Why an object is stale; undefined if it is not. */
export function staleReason(data: KiveData, cluster: ClusterView): StaleReason | undefined {
  const ofPod = isOfHost(data) ? undefined : stalePod(data, cluster);
  if (ofPod !== undefined) return ofPod;
  const bootId = cluster.bootId(nodeOf(data));
  if (bootId === undefined) return 'NodeGone';
  if (bootId !== '' && bootId !== kernelOf(data)) return 'KernelGone';
  // The data was written when --kive-policy-namespaces allowed more, or before this limit existed.
  if (!cluster.mayMatch(data)) return 'OutsideNamespace';
  return cluster.hasTrap(data.metadata.labels?.[trapIdLabel] ?? '') ? undefined : 'TrapGone';
}

function stalePod(data: KiveData, cluster: ClusterView): StaleReason | undefined {
  const { name, namespace, uid } = podOf(data);
  const pod = cluster.pod(namespace, name);
  if (pod === undefined) return 'PodGone';
  if (isOver(pod)) return 'PodOver';
  // Another pod, perhaps on another node, may have the name now.
  return uid !== '' && pod.metadata.uid !== undefined && pod.metadata.uid !== uid ? 'PodReplaced' : undefined;
}
