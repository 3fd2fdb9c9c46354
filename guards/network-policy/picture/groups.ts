/** Groups the pods of a cluster by workload, or by namespace if there are too many workloads for one picture. */
import { parseAddress } from '../engine/addresses.ts';
import { objectKey, type PodObject } from '../engine/objects.ts';

export interface PicturedPod extends PodObject {
  /** Name of the pod's controller, or of the pod itself: `web`. */
  readonly workload: string;
}

export interface PodGroup {
  /** `shop/web`, or `shop`. */
  readonly name: string;
  readonly namespace: string;
  readonly pods: readonly PicturedPod[];
  /** One pod for each set of labels, and at most {@link MAX_KINDS}: policies treat pods with equal labels alike. */
  readonly kinds: readonly PicturedPod[];
  /** Whether there are more sets of labels than that. */
  readonly isPartial: boolean;
}

export interface PodGroups {
  readonly by: 'namespace' | 'workload';
  readonly groups: readonly PodGroup[];
  /** Pods in their node's network, to which no NetworkPolicy applies. */
  readonly onNodes: number;
  readonly withoutAddress: number;
}

const MAX_WORKLOADS = 16;
const MAX_KINDS = 3;
/** Labels in which the pods or versions of one workload differ. */
const ownLabels: ReadonlySet<string> = new Set([
  ...['pod-template-hash', 'controller-revision-hash', 'pod-template-generation', 'controller-uid'],
  ...['statefulset.kubernetes.io/pod-name', 'apps.kubernetes.io/pod-index', 'job-name'],
  ...['batch.kubernetes.io/controller-uid', 'batch.kubernetes.io/job-name'],
]);

export function groupsOf(pods: readonly PicturedPod[]): PodGroups {
  const alive = pods.filter(({ status }) => status?.phase !== 'Succeeded' && status?.phase !== 'Failed');
  const own = alive.filter(({ spec }) => spec?.hostNetwork !== true);
  const reachable = own.filter(hasAddress);
  const left = { onNodes: alive.length - own.length, withoutAddress: own.length - reachable.length };
  const workloads = Map.groupBy(
    reachable,
    ({ metadata, workload }) => `${metadata.namespace ?? ''}/${workload}`,
  );
  if (workloads.size <= MAX_WORKLOADS) return { by: 'workload', groups: sorted(workloads), ...left };
  const namespaces = Map.groupBy(reachable, ({ metadata }) => metadata.namespace ?? '');
  return { by: 'namespace', groups: sorted(namespaces), ...left };
}

function hasAddress({ status }: PodObject): boolean {
  return [status?.podIP, ...(status?.podIPs ?? []).map(({ ip }) => ip)].some(
    (ip) => parseAddress(ip ?? '') !== undefined,
  );
}

function sorted(groups: ReadonlyMap<string, readonly PicturedPod[]>): PodGroup[] {
  return [...groups]
    .map(([name, pods]) => {
      const kinds = [...Map.groupBy(pods, labelsOf).values()].flatMap(([first]) => first ?? []);
      return {
        ...{ name, namespace: pods[0]?.metadata.namespace ?? '' },
        ...{ pods, kinds: kinds.slice(0, MAX_KINDS), isPartial: kinds.length > MAX_KINDS },
      };
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function labelsOf({ metadata }: PodObject): string {
  const labels = Object.entries(metadata.labels ?? {}).filter(([name]) => !ownLabels.has(name));
  return JSON.stringify(labels.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** Another pod of the group; undefined if the group has no other. */
export function siblingOf({ pods }: PodGroup, pod: PicturedPod): PicturedPod | undefined {
  return pods.find((one) => objectKey(one) !== objectKey(pod));
}
