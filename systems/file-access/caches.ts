/**
 * What the controllers of this guard keep of the API, and under which values they look it up.
 *
 * @module
 */
import { isDeleting } from '../../shared/kube/finalizers.ts';
import { IndexedCache } from '../../shared/kube/indexed-cache.ts';
import { type KubeObject, nodes, pods, type ResourceType } from '../../shared/kube/object.ts';
import type { Logger } from '../../shared/observe/log.ts';
import { type KiveData, kiveDataType, type KivePolicy, kivePolicyType } from './api.ts';
import { kernelOf, nodeOf, ourAnnotations, podOf } from './kive-data.ts';
import { compilePolicy, type PodView } from './matching.ts';

/** A pod; of what the API has, {@link slimPod} keeps this much. */
export interface Pod extends KubeObject, Pick<PodView, 'spec' | 'status'> {}

export const podType: ResourceType<Pod> = pods;

export interface Node extends KubeObject {
  readonly status?: { readonly nodeInfo?: { readonly bootID?: string } | undefined } | undefined;
}

export const nodeType: ResourceType<Node> = nodes;

/** The uid that the runtime knows a static pod by: its object in the API has one of its own (kubelet, pkg/kubelet/types). */
const configHash = 'kubernetes.io/config.hash';

/** Of a pod what decides: some 300 bytes instead of some 3 kB, on a node and in the operator. */
export function slimPod({ apiVersion, kind, metadata, spec, status }: Pod): Pod {
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
  };
}

/** Of a node what decides. */
export function slimNode({ apiVersion, kind, metadata, status }: Node): Node {
  const { name, uid, resourceVersion } = metadata;
  const bootID = status?.nodeInfo?.bootID;
  return {
    ...(apiVersion !== undefined && { apiVersion }),
    ...(kind !== undefined && { kind }),
    metadata: {
      ...(name !== undefined && { name }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
    },
    ...(bootID !== undefined && { status: { nodeInfo: { bootID } } }),
  };
}

/** Whether the runtime's uid of a pod is that of this object. */
export function isPod({ metadata }: Pod, runtimeUid: string): boolean {
  return metadata.uid === runtimeUid || metadata.annotations?.[configHash] === runtimeUid;
}

/** `namespace/name` of the policy that a KiveData is of. */
export function policyKeyOf({ metadata }: KiveData): string {
  const { [ourAnnotations.policyNamespace]: namespace = '', 'kive-policy-name': name = '' } =
    metadata.annotations ?? {};
  return `${namespace}/${name}`;
}

/** With its runtime; empty when the object does not say. */
export function containerIdOf({ metadata }: KiveData): string {
  return metadata.annotations?.['container-id'] ?? '';
}

/** A container of a node: two runtimes on one machine may have the same ids. */
export function placeOf(nodeName: string, containerId: string): string {
  return `${nodeName} ${containerId}`;
}

/** Index `trap`: the ids of the traps that work. */
export function policyCache(logger?: Logger): IndexedCache<KivePolicy> {
  return new IndexedCache({
    type: kivePolicyType,
    indexes: {
      trap: (policy) => (isDeleting(policy) ? [] : compilePolicy(policy).traps.map(({ id }) => id)),
    },
    ...(logger && { logger }),
  });
}

export const dataIndexes = {
  policy: (data: KiveData): string[] => [policyKeyOf(data)],
  node: (data: KiveData): string[] => [nodeOf(data)],
  place: (data: KiveData): string[] => [placeOf(nodeOf(data), containerIdOf(data))],
  kernel: (data: KiveData): string[] => [kernelOf(data)],
  pod: (data: KiveData): string[] => {
    const { namespace, name } = podOf(data);
    return [`${namespace}/${name}`];
  },
};

/** With the indexes that are named. */
export function dataCache(
  indexes: readonly (keyof typeof dataIndexes)[],
  logger?: Logger,
): IndexedCache<KiveData> {
  return new IndexedCache({
    type: kiveDataType,
    indexes: Object.fromEntries(indexes.map((name) => [name, dataIndexes[name]])),
    ...(logger && { logger }),
  });
}

export function podCache(logger?: Logger): IndexedCache<Pod> {
  return new IndexedCache({ type: podType, ...(logger && { logger }) });
}

export function nodeCache(logger?: Logger): IndexedCache<Node> {
  return new IndexedCache({ type: nodeType, ...(logger && { logger }) });
}
