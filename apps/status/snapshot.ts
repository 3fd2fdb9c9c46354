/**
 * What the API has that tells what is guarded, read once.
 *
 * @module
 */
import type { KubeClient } from '../../shared/kube/client.ts';
import { isForbidden } from '../../shared/kube/client-errors.ts';
import { sleep, systemClock } from '../../shared/kube/clock.ts';
import { type KubeObject, type Lease, leases, type ResourceType } from '../../shared/kube/object.ts';
import {
  type KiveData,
  kiveDataType,
  type KivePolicy,
  kivePolicyType,
} from '../../systems/file-access/api.ts';
import { containerIdOf, policyKeyOf } from '../../systems/file-access/caches.ts';
import { kernelOf, kiveDataNamespace, nodeOf } from '../../systems/file-access/kive-data.ts';
import type { PodView } from '../../systems/file-access/matching.ts';
import { type Node, nodes as nodeType } from '../../systems/file-integrity/for-node.ts';
import { type IntegrityView, readIntegrities } from './integrity-snapshot.ts';

/** As deploy/base/agent.yaml labels them. */
const agentSelector = 'app.kubernetes.io/name=rampart-agent';
/** Two periods of renewal and a bit: a lease that does not change for so long is not renewed. */
const LEASE_LOOK_MS = 5000;

/** A pod with its running containers. */
export interface RunningPod {
  readonly view: PodView;
  readonly nodeName: string;
  readonly containers: readonly string[];
}

export interface LeaseView {
  readonly name: string;
  /** Empty where nobody holds it. */
  readonly holder: string;
  readonly durationMs: number;
  /** By the holder's clock; `undefined` where it is not said. */
  readonly renewedMs: number | undefined;
  /** It was seen to be renewed. */
  readonly isRenewed: boolean;
}

/** `undefined` is what this user may not read. */
export interface Snapshot {
  readonly server: string;
  readonly timeMs: number;
  /** Whose policies and FileIntegrities these are; `undefined`: all. */
  readonly namespace: string | undefined;
  readonly policies: readonly KivePolicy[];
  readonly integrities: readonly IntegrityView[] | undefined;
  readonly data: readonly DataView[] | undefined;
  readonly leases: readonly LeaseView[] | undefined;
  readonly nodes: readonly NodeView[] | undefined;
  readonly agentPods:
    readonly { readonly name: string; readonly nodeName: string; readonly ready: boolean }[] | undefined;
  readonly pods: readonly RunningPod[] | undefined;
  readonly notRead: readonly { readonly resource: string; readonly why: string }[];
}

export interface NodeView {
  readonly name: string;
  readonly kernel: string | undefined;
  readonly labels?: Readonly<Record<string, string>>;
  readonly taints?: Taints;
}
type Taints = NonNullable<NonNullable<Node['spec']>['taints']>;

export interface DataView {
  /** `namespace/name`. */
  readonly policy: string;
  readonly nodeName: string;
  readonly kernel: string;
  /** With its runtime. */
  readonly container: string;
}

export interface SnapshotOptions {
  readonly client: KubeClient;
  readonly server: string;
  /** Default: the policies of all. */
  readonly namespace: string | undefined;
  readonly signal: AbortSignal;
}

/** What is read of a pod here. */
interface StatusPod extends KubeObject {
  readonly spec?: {
    readonly nodeName?: string;
    readonly containers?: readonly { readonly name: string }[];
  };
  readonly status?: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly podIPs?: readonly { readonly ip?: string }[];
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly ContainerStatus[];
    readonly initContainerStatuses?: readonly ContainerStatus[];
    readonly ephemeralContainerStatuses?: readonly ContainerStatus[];
  };
}

const podType: ResourceType<StatusPod> = {
  group: '',
  version: 'v1',
  plural: 'pods',
  kind: 'Pod',
  namespaced: true,
};

interface ContainerStatus {
  readonly name: string;
  readonly state?: { readonly running?: unknown };
}

/**
 * Reads it all; what is forbidden is left out and told.
 *
 * @throws {KubeError} where the policies may not be read or are not known there, {@link RampartError} `API_UNREACHABLE` for
 *   no answer.
 */
export async function takeSnapshot({
  client,
  server,
  namespace,
  signal,
}: SnapshotOptions): Promise<Snapshot> {
  const notRead: { resource: string; why: string }[] = [];
  const policies: KivePolicy[] = [];
  const list = async <T extends KubeObject>(
    type: ResourceType<T>,
    target: { readonly namespace?: string | undefined },
    onItem: (object: T) => void,
    labelSelector?: string,
  ): Promise<void> => {
    // Item by item: of what the API has of a pod a hundredth is kept.
    await client.listItems(type, target, {
      signal,
      labelSelector,
      onItem: (item) => onItem(JSON.parse(item) as T),
    });
  };
  const orForbidden = async <T>(resource: string, read: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await read();
    } catch (error) {
      if (!isForbidden(error)) throw error;
      notRead.push({ resource, why: error.message });
      return undefined;
    }
  };
  await list(kivePolicyType, { namespace }, (policy) => policies.push(policy));
  const inSystem = { namespace: kiveDataNamespace };
  const [integrities, data, leaseViews, nodes, agentPods, pods] = await Promise.all([
    orForbidden('fileintegrities', () => readIntegrities({ client, namespace, signal })),
    orForbidden(`kivedata in ${kiveDataNamespace}`, async () => {
      const found: DataView[] = [];
      await list(kiveDataType, inSystem, (object) => found.push(dataView(object)));
      return found;
    }),
    orForbidden(`leases in ${kiveDataNamespace}`, () => readLeases(client, signal)),
    orForbidden('nodes', async () => {
      const found: NodeView[] = [];
      await list(nodeType, {}, (node) => found.push(nodeView(node)));
      return found;
    }),
    orForbidden(`pods in ${kiveDataNamespace}`, async () => {
      const found: { name: string; nodeName: string; ready: boolean }[] = [];
      await list(podType, inSystem, (pod) => found.push(agentPodView(pod)), agentSelector);
      return found;
    }),
    orForbidden('pods', async () => {
      const found: RunningPod[] = [];
      if (policies.length === 0) return found;
      await list(podType, {}, (pod) => {
        const running = runningPod(pod);
        if (running !== undefined) found.push(running);
      });
      return found;
    }),
  ]);
  return {
    server,
    timeMs: Date.now(),
    namespace,
    policies,
    integrities,
    data,
    leases: leaseViews,
    nodes,
    agentPods,
    pods,
    notRead,
  };
}

/** Leases; those that look as if nobody renewed them are looked at again, as clocks may differ. */
async function readLeases(client: KubeClient, signal: AbortSignal): Promise<LeaseView[]> {
  const read = async (): Promise<Lease[]> =>
    (await client.list(leases, { namespace: kiveDataNamespace }, { signal })).items;
  const first = await read();
  if (!first.some((lease) => isDoubtful(lease, Date.now())))
    return first.map((lease) => leaseView(lease, true));
  await sleep(systemClock, LEASE_LOOK_MS, signal);
  const before = new Map(first.map(({ metadata, spec }) => [metadata.name, spec?.renewTime]));
  return (await read()).map((lease) =>
    leaseView(
      lease,
      before.get(lease.metadata.name) !== lease.spec?.renewTime || !isDoubtful(lease, Date.now()),
    ),
  );
}

function isDoubtful({ spec }: Lease, nowMs: number): boolean {
  if (!spec?.holderIdentity) return false;
  const ageMs = nowMs - Date.parse(spec.renewTime ?? '');
  return !(ageMs >= -2000 && ageMs <= (spec.leaseDurationSeconds ?? 15) * 1000);
}

function leaseView({ metadata, spec }: Lease, isRenewed: boolean): LeaseView {
  const renewedMs = Date.parse(spec?.renewTime ?? '');
  return {
    name: metadata.name ?? '',
    holder: spec?.holderIdentity ?? '',
    durationMs: (spec?.leaseDurationSeconds ?? 15) * 1000,
    renewedMs: Number.isNaN(renewedMs) ? undefined : renewedMs,
    isRenewed: isRenewed && Boolean(spec?.holderIdentity),
  };
}

function dataView(data: KiveData): DataView {
  return {
    policy: policyKeyOf(data),
    nodeName: nodeOf(data),
    kernel: kernelOf(data),
    container: containerIdOf(data),
  };
}

function nodeView({ metadata, spec, status }: Node): NodeView {
  return {
    name: metadata.name ?? '',
    kernel: status?.nodeInfo?.bootID || undefined,
    ...(metadata.labels && { labels: metadata.labels }),
    ...(spec?.taints && { taints: spec.taints }),
  };
}

function agentPodView({ metadata, spec, status }: StatusPod): {
  name: string;
  nodeName: string;
  ready: boolean;
} {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
  return { name: metadata.name ?? '', nodeName: spec?.nodeName ?? '', ready };
}

function runningPod({ metadata, spec, status }: StatusPod): RunningPod | undefined {
  const { nodeName } = spec ?? {};
  if (nodeName === undefined || status?.phase !== 'Running') return undefined;
  const statuses = [
    ...(status.containerStatuses ?? []),
    ...(status.initContainerStatuses ?? []),
    ...(status.ephemeralContainerStatuses ?? []),
  ];
  const containers =
    statuses.length > 0
      ? statuses.filter(({ state }) => state?.running !== undefined)
      : (spec?.containers ?? []);
  const { name, namespace, labels } = metadata;
  const { podIP, podIPs } = status;
  return {
    view: { metadata: { name, namespace, labels }, status: { podIP, podIPs } },
    nodeName,
    containers: containers.map((container) => container.name),
  };
}
