/**
 * Finds orphaned KiveData: the agent that would delete them is gone, or was when it should have.
 */
import type { KiveData } from '../api.ts';
import { isOver } from '../node/desired.ts';
import { isOfHost, nodeOf, podOf, trapIdLabel } from '../kive-data.ts';
import type { PodView } from '../policy/matching.ts';
import { kernelOf } from '../policy/spellings.ts';

export interface ClusterView {
  pod(namespace: string, name: string): PodView | undefined;
  /** `status.nodeInfo.bootID` of the node; undefined without such a node, '' when it has not said yet. */
  bootId(nodeName: string): string | undefined;
  hasTrap(id: string): boolean;
  /** Whether a policy of its namespace may match its pod or node. */
  mayMatch(data: KiveData): boolean;
}

export type StaleReason =
  'PodGone' | 'PodOver' | 'PodReplaced' | 'NodeGone' | 'KernelGone' | 'OutsideNamespace' | 'TrapGone';

/** Why an object is stale; undefined while it is not. */
export function staleReason(data: KiveData, cluster: ClusterView): StaleReason | undefined {
  const ofPod = isOfHost(data) ? undefined : stalePod(data, cluster);
  if (ofPod !== undefined) return ofPod;
  const bootId = cluster.bootId(nodeOf(data));
  if (bootId === undefined) return 'NodeGone';
  if (bootId !== '' && bootId !== kernelOf(data)) return 'KernelGone';
  // Written before --kive-policy-namespaces was another, or before there was this limit.
  if (!cluster.mayMatch(data)) return 'OutsideNamespace';
  return cluster.hasTrap(data.metadata.labels?.[trapIdLabel] ?? '') ? undefined : 'TrapGone';
}

function stalePod(data: KiveData, cluster: ClusterView): StaleReason | undefined {
  const { name, namespace, uid } = podOf(data);
  const pod = cluster.pod(namespace, name);
  if (pod === undefined) return 'PodGone';
  if (isOver(pod)) return 'PodOver';
  // Another pod may have got the name, on another node.
  return uid !== '' && pod.metadata.uid !== undefined && pod.metadata.uid !== uid ? 'PodReplaced' : undefined;
}
