/**
 * What guards keep of nodes and pods: one projection for all of them, so that they share one reflector.
 *
 * @module
 */
import type { Node, Pod } from './object.ts';

/** The uid that the runtime knows a static pod by: its object in the API has one of its own (kubelet, pkg/kubelet/types). */
const configHash = 'kubernetes.io/config.hash';

/** Of a pod what decides: some 300 bytes instead of some 3 kB, on a node and in the operator. */
export function podFacts({ apiVersion, kind, metadata, spec, status }: Pod): Pod {
  const { name, namespace, uid, resourceVersion, labels, annotations } = metadata;
  const hash = annotations?.[configHash];
  return {
    ...(apiVersion !== undefined && { apiVersion }),
    ...(kind !== undefined && { kind }),
    metadata: {
      ...(name !== undefined && { name }),
      ...(namespace !== undefined && { namespace }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
      ...(labels !== undefined && { labels }),
      ...(hash !== undefined && { annotations: { [configHash]: hash } }),
    },
    spec: { nodeName: spec?.nodeName },
    status: { phase: status?.phase, podIP: status?.podIP, podIPs: status?.podIPs },
  } as unknown as Pod;
}

/** Of a node what decides: some 1 kB instead of 20. */
export function nodeFacts({ apiVersion, kind, metadata, spec, status }: Node): Node {
  const { name, uid, resourceVersion, labels } = metadata;
  const bootID = status?.nodeInfo?.bootID;
  return {
    ...(apiVersion !== undefined && { apiVersion }),
    ...(kind !== undefined && { kind }),
    metadata: {
      ...(name !== undefined && { name }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
      ...(labels !== undefined && { labels }),
    },
    ...(spec?.taints && { spec: { taints: spec.taints } }),
    ...(bootID !== undefined && { status: { nodeInfo: { bootID } } }),
  } as Node;
}

/** Whether the runtime's uid of a pod is that of this object. */
export function isPod({ metadata }: Pod, runtimeUid: string): boolean {
  return metadata.uid === runtimeUid || metadata.annotations?.[configHash] === runtimeUid;
}
