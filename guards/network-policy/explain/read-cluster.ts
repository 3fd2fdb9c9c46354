/** Reads once what an explanation needs. */
import { agentLeaseLabel, readAgentLease } from '../../../guard/agent-lease-names.ts';
import { systemNamespace } from '../../../guard/guard.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { KubeError } from '../../../lib/kube/client/client-errors.ts';
import { podFacts } from '../../../lib/kube/object/facts.ts';
import {
  type KubeObject,
  type Lease,
  leases,
  namespacedKind,
  namespaces,
  type Pod,
  pods,
  type ResourceType,
} from '../../../lib/kube/object/object.ts';
import { networkPolicies } from '../api.ts';
import type { NamespaceObject, PolicyObject } from '../engine/objects.ts';
import { readNodeFacts } from '../status/node-facts.ts';
import type { ClusterObjects, ExplainedPod } from './explanation.ts';
import type { EndpointSliceObject, ServiceObject, Services } from './service.ts';

const services = namespacedKind('', 'services', 'Service');
const endpointSlices = namespacedKind('discovery.k8s.io', 'endpointslices', 'EndpointSlice');

type Read = <T, U>(type: ResourceType, take: (object: T) => U) => Promise<U[]>;

function reader(client: KubeClient, signal: AbortSignal): Read {
  return async <T, U>(type: ResourceType, take: (object: T) => U): Promise<U[]> => {
    const found: U[] = [];
    // Parsed item by item: only a tenth of each pod is kept.
    await client.listItems(type, {}, { signal, onItem: (item) => found.push(take(JSON.parse(item) as T)) });
    return found;
  };
}

/** @throws {KubeError} for what may not be read; {@link RampartError} `API_UNREACHABLE`. */
export async function readServices(client: KubeClient, signal: AbortSignal): Promise<Services> {
  const all = reader(client, signal);
  const [found, slices] = await Promise.all([
    all(services, (service: ServiceObject) => service),
    all(endpointSlices, (slice: EndpointSliceObject) => slice),
  ]);
  return { services: found, slices };
}

/** @throws {KubeError} for what may not be read; {@link RampartError} `API_UNREACHABLE`. */
export async function readCluster(client: KubeClient, signal: AbortSignal): Promise<ClusterObjects> {
  const all = reader(client, signal);
  const [policies, known, places, monitoringNodes] = await Promise.all([
    all(networkPolicies, (policy: PolicyObject) => policy),
    all(pods, explainedPod),
    all(namespaces, ({ metadata }: KubeObject): NamespaceObject => ({ metadata })),
    readMonitoringNodes(client, signal),
  ]);
  return { policies, pods: known, namespaces: places, monitoringNodes };
}

/** From the last reports of the agents: rules stay in the kernel when an agent ends. Empty if the leases may not be read. */
async function readMonitoringNodes(client: KubeClient, signal: AbortSignal): Promise<ReadonlySet<string>> {
  try {
    const target = { namespace: systemNamespace };
    const { items } = await client.list(leases, target, { labelSelector: agentLeaseLabel, signal });
    return new Set(items.flatMap((lease) => monitoringNode(lease) ?? []));
  } catch (error) {
    if (error instanceof KubeError) return new Set();
    throw error;
  }
}

function monitoringNode(lease: Lease): string | undefined {
  const agent = readAgentLease(lease);
  const report = readNodeFacts(agent?.guards.get('network-policy')?.facts);
  return report?.mode === 'monitor' ? agent?.nodeName : undefined;
}

function explainedPod(pod: Pod): ExplainedPod {
  const facts = podFacts(pod) as unknown as ExplainedPod;
  const { hostIP, hostIPs } = (pod as unknown as ExplainedPod).status ?? {};
  return { ...facts, status: { ...facts.status, hostIP, hostIPs } };
}
