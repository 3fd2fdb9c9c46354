/** Reads the objects of file access from the API, once. */
import { type LeaseView, nodeOfHolder } from '../../../guard/lease-holder.ts';
import type { AgentView, NodeView, StatusContext } from '../../../guard/status-section.ts';
import { type Pod, pods as podType } from '../../../lib/kube/object/object.ts';
import {
  type KiveData,
  kiveDataNamespace,
  kiveDataType,
  kiveNodeStatusType,
  type KivePolicy,
  kivePolicyType,
} from '../api.ts';
import { containerIdOf, policyKeyOf } from '../caches.ts';
import { nodeOf } from '../kive-data.ts';
import type { NodePart } from '../policy-status-schema.ts';
import { kernelOf } from '../policy/spellings.ts';
import type { PodView } from '../policy/matching.ts';
import { readRefused, type RefusedFiles } from './refused-files.ts';

/** Fields are `undefined` if the user may not read their objects. */
export interface Snapshot {
  /** The namespace of the policies; `undefined` for all namespaces. */
  readonly namespace: string | undefined;
  readonly policies: readonly KivePolicy[] | undefined;
  /** The nodes' reports on the listed policies. */
  readonly parts: readonly NodePart[] | undefined;
  /** Nodes on which the running agent has reported, not only its predecessor; undefined if leases may not be read. */
  readonly reported: ReadonlySet<string> | undefined;
  /** The files that the sensor of a node's agent refuses, keyed by node. */
  readonly refused: ReadonlyMap<string, RefusedFiles>;
  readonly data: readonly DataView[] | undefined;
  readonly leases: readonly LeaseView[] | undefined;
  readonly nodes: readonly NodeView[] | undefined;
  readonly pods: readonly RunningPod[] | undefined;
  /** Accesses that raised no alert because of the process, counted by all agents since they started. */
  readonly filtered: number;
  /** The nodes that a trap for the node itself matches: all that have a Node object, or an agent with this guard. */
  readonly hosts: readonly string[];
}

export interface RunningPod {
  readonly view: PodView;
  readonly nodeName: string;
  readonly containers: readonly string[];
  /** The containers that were running long enough for the node's agent to have examined them. */
  readonly settled: readonly string[];
}

export interface DataView {
  /** `namespace/name` of the policy. */
  readonly policy: string;
  readonly nodeName: string;
  readonly kernel: string;
  /** Container id with its runtime prefix (`containerd://...`); empty for a file of the node itself. */
  readonly container: string;
}

/**
 * Reads all objects; those that the user may not read are omitted, and that is reported.
 *
 * @throws {RampartError} `API_UNREACHABLE` if the API does not answer; {@link KubeError}
 */
export async function takeSnapshot(context: StatusContext): Promise<Snapshot> {
  const { namespace } = context;
  const policies = await context.orForbidden('kivepolicies', async () => {
    const found: KivePolicy[] = [];
    await context.list(kivePolicyType, (policy) => found.push(policy), { namespace });
    return found;
  });
  const uids = new Set(policies?.map(({ metadata }) => metadata.uid));
  const inSystem = { namespace: kiveDataNamespace };
  const [parts, data, leases, agents, nodes, pods] = await Promise.all([
    context.orForbidden(`kivenodestatuses in ${kiveDataNamespace}`, async () => {
      const found: NodePart[] = [];
      await context.list(
        kiveNodeStatusType,
        ({ metadata, policies: all }) => {
          const { name: node = '' } = metadata;
          for (const part of all) if (uids.has(part.uid)) found.push({ ...part, node });
        },
        inSystem,
      );
      return found;
    }),
    context.orForbidden(`kivedata in ${kiveDataNamespace}`, async () => {
      const found: DataView[] = [];
      await context.list(kiveDataType, (object) => found.push(dataView(object)), inSystem);
      return found;
    }),
    context.leases(),
    context.agents(),
    context.nodes(),
    context.orForbidden('pods', async () => {
      const found: RunningPod[] = [];
      if (policies === undefined || policies.length === 0) return found;
      await context.list(podType, (pod) => {
        const running = runningPod(pod, context.timeMs);
        if (running !== undefined) found.push(running);
      });
      return found;
    }),
  ]);
  const reported = agents
    ?.filter(({ guards }) => guards.get('file-access')?.facts?.['reported'] === true)
    .map(({ nodeName }) => nodeName);
  return {
    ...{ namespace, policies, parts, data, nodes, pods },
    reported: reported && new Set(reported),
    refused: refusedOf(agents),
    filtered: filteredBy(agents),
    hosts: [...new Set([...(nodes ?? []).map(({ name }) => name), ...guardedBy(agents)])],
    leases: withAgents(leases, agents),
  };
}

/** The nodes whose agent runs this guard. */
function guardedBy(agents: readonly AgentView[] = []): string[] {
  return agents.filter(({ guards }) => guards.has('file-access')).map(({ nodeName }) => nodeName);
}

function filteredBy(agents: readonly AgentView[] = []): number {
  const counts = agents.map(({ guards }) => guards.get('file-access')?.facts?.['filtered']);
  return counts.reduce((sum: number, count) => sum + (typeof count === 'number' ? count : 0), 0);
}

function refusedOf(agents: readonly AgentView[] = []): Map<string, RefusedFiles> {
  return new Map(
    agents.flatMap(({ nodeName, isRenewed, guards }): (readonly [string, RefusedFiles])[] => {
      const refused = isRenewed ? readRefused(guards.get('file-access')?.facts) : undefined;
      return refused ? [[nodeName, refused]] : [];
    }),
  );
}

/**
 * Adds what the leases of agents say about loaders: unless another agent of its kernel is a candidate, a loader does
 * not renew the lease of its kernel, only that of its agent.
 */
export function withAgents(
  leases: readonly LeaseView[] | undefined,
  agents: readonly AgentView[] = [],
): readonly LeaseView[] | undefined {
  const loading = new Map(
    agents
      .filter(({ isRenewed, guards }) => isRenewed && guards.get('file-access')?.facts?.['loads'] === true)
      .map((agent) => [agent.nodeName, agent]),
  );
  return leases?.map((lease) => {
    const agent = lease.isRenewed ? undefined : loading.get(nodeOfHolder(lease.holder));
    return agent ? { ...lease, isRenewed: true, renewedSecondsAgo: agent.renewedSecondsAgo } : lease;
  });
}

function dataView(data: KiveData): DataView {
  return {
    policy: policyKeyOf(data),
    nodeName: nodeOf(data),
    kernel: kernelOf(data),
    container: containerIdOf(data),
  };
}

/** How long an agent may take to learn about a container. */
const SETTLE_MS = 30_000;

export function runningPod({ metadata, spec, status }: Pod, timeMs: number): RunningPod | undefined {
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
  const isSettled = (startedAt: string | undefined): boolean =>
    timeMs - Date.parse(startedAt ?? '') > SETTLE_MS;
  const { name, namespace, labels } = metadata;
  const { podIP, podIPs } = status;
  return {
    view: { metadata: { name, namespace, labels }, status: { podIP, podIPs } },
    nodeName,
    containers: containers.map((container) => container.name),
    settled: statuses
      .filter(({ state }) => isSettled(state?.running?.startedAt))
      .map((container) => container.name),
  };
}
