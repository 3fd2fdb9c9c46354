/** Reads what the sections of guards share, once each: nodes, leases, agents. */
import {
  isAgentLease,
  kernelLeaseLabel,
  readAgentLease,
  readGuardStates,
} from '../../guard/agent-lease-names.ts';
import { type Guard, systemNamespace } from '../../guard/guard.ts';
import type { ProcessView } from '../../guard/guarded.ts';
import { operatorLease } from '../../guard/operator-lease.ts';
import { type LeaseView, nodeOfHolder } from '../../guard/lease-holder.ts';
import type { AgentView, NodeView, SectionReport, StatusContext } from '../../guard/status-section.ts';
import type { ReadApi } from './stored-api.ts';
import { isForbidden, isNotFound } from '../../lib/kube/client/client-errors.ts';
import { apiResources } from '../../lib/kube/client/discovery.ts';
import { sleep, systemClock } from '../../lib/time/clock.ts';
import {
  type KubeObject,
  type Lease,
  leases,
  type Node,
  nodes,
  type Pod,
  pods,
  type ResourceType,
} from '../../lib/kube/object/object.ts';

/** The label of agents in deploy/agent.yaml. */
const agentSelector = 'app.kubernetes.io/name=rampart-agent';
/** Slightly more than two renewal periods: a lease that has not changed for this long is no longer renewed. */
const LEASE_LOOK_MS = 5000;

export interface AgentPodView {
  readonly name: string;
  readonly nodeName: string;
  readonly ready: boolean;
}

export interface ReadGuard {
  readonly guard: Guard;
  /** Whether the API serves any of the guard's kinds that users write, as far as the section listed them; `null` if unknown. */
  readonly installed: boolean | null;
  /** Whether the API serves any kind that the guard installs; `null` if unknown. */
  readonly isServed: boolean | null;
  readonly section: SectionReport | undefined;
}

export interface StatusReaderOptions {
  readonly client: ReadApi;
  /** The only process does not run, so no lease is renewed. */
  readonly isStopped?: boolean;
  /** Default: the objects of all namespaces. */
  readonly namespace: string | undefined;
  readonly signal: AbortSignal;
}

/** One reading of the API. Forbidden parts are omitted and reported. */
export class StatusReader {
  readonly notRead: { readonly resource: string; readonly why: string }[] = [];
  readonly timeMs: number = Date.now();
  readonly #options: StatusReaderOptions;
  #leases: Promise<Leases | undefined> | undefined;
  #nodes: Promise<readonly NodeView[] | undefined> | undefined;
  /** The plurals that the API serves, keyed by group and version: read after a list was forbidden; undefined if the API does not say. */
  readonly #served = new Map<string, Promise<ReadonlySet<string> | undefined>>();

  constructor(options: StatusReaderOptions) {
    this.#options = options;
  }

  /**
   * The guard's section. It has no objects if they may not be read; the reason is then in `notRead`.
   *
   * @throws {KubeError} if the API does not answer.
   */
  async guard(guard: Guard): Promise<ReadGuard> {
    const section = await guard.status?.();
    const served = new Map<string, boolean | null>();
    const report = await section?.read(this.context(served));
    const isServed = isAnyServed(guard, served);
    const installed = guard.worksWithoutResources === true || guard.resources.length === 0 || isServed;
    return { guard, installed, isServed, section: report };
  }

  /** @param served - Receives, for each kind that is listed, whether the API serves it; `null` if unknown. */
  context(served = new Map<string, boolean | null>()): StatusContext {
    const { namespace, signal } = this.#options;
    return {
      namespace,
      signal,
      timeMs: this.timeMs,
      list: async (type, onItem, target) => {
        const isServed = await this.#listServed(type, onItem, target).catch((error: unknown) => {
          served.set(keyOf(type), null);
          throw error;
        });
        served.set(keyOf(type), isServed);
      },
      orForbidden: (resource, read) => this.#orForbidden(resource, read),
      leases: async () => (await this.#readLeases())?.locks,
      agents: () => this.agents(),
      operator: () => this.operator(),
      nodes: () => this.nodes(),
    };
  }

  async locks(): Promise<readonly LeaseView[] | undefined> {
    return (await this.#readLeases())?.locks;
  }

  /** All agents; each has a Lease of its own. */
  async agents(): Promise<readonly AgentView[] | undefined> {
    return (await this.#readLeases())?.agents;
  }

  /** `null`: there has never been one. */
  async operator(): Promise<ProcessView | null | undefined> {
    return (await this.#readLeases())?.operator;
  }

  nodes(): Promise<readonly NodeView[] | undefined> {
    this.#nodes ??= this.#orForbidden('nodes', async () => {
      const found: NodeView[] = [];
      await this.#list(nodes, (node) => found.push(nodeView(node)));
      return found;
    });
    return this.#nodes;
  }

  agentPods(): Promise<readonly AgentPodView[] | undefined> {
    return this.#orForbidden(`pods in ${systemNamespace}`, async () => {
      const found: AgentPodView[] = [];
      const target = { namespace: systemNamespace, labelSelector: agentSelector };
      await this.#list(pods, (pod) => found.push(agentPodView(pod)), target);
      return found;
    });
  }

  #readLeases(): Promise<Leases | undefined> {
    this.#leases ??= this.#orForbidden(`leases in ${systemNamespace}`, () => readLeases(this.#options));
    return this.#leases;
  }

  /** Lists the objects of a kind; false if the API does not serve the kind, which then has no objects. */
  async #listServed<T extends KubeObject>(
    type: ResourceType<T>,
    onItem: (object: T) => void,
    target: Parameters<StatusContext['list']>[2],
  ): Promise<boolean> {
    // Another kind of this group was forbidden, so the served kinds are known already.
    if (this.#served.has(groupOf(type)) && (await this.#isAbsent(type))) return false;
    try {
      await this.#list(type, onItem, target);
      return true;
    } catch (error) {
      if (isNotFound(error) || (isForbidden(error) && (await this.#isAbsent(type)))) return false;
      throw error;
    }
  }

  /**
   * An API server checks rights before it checks whether it serves a kind: a user without the right to list it gets 403 either way. The kinds that
   * it serves may be read by all users (the ClusterRole system:discovery).
   */
  async #isAbsent(type: ResourceType): Promise<boolean> {
    const key = groupOf(type);
    let served = this.#served.get(key);
    if (served === undefined) this.#served.set(key, (served = this.#askServed(type)));
    return (await served)?.has(type.plural) === false;
  }

  async #askServed(type: ResourceType): Promise<ReadonlySet<string> | undefined> {
    const { client, signal } = this.#options;
    try {
      return new Set((await apiResources(client, type, { signal })).map(({ name }) => name));
    } catch (error) {
      if (isNotFound(error)) return new Set();
      if (isForbidden(error)) return undefined;
      throw error;
    }
  }

  async #list<T extends KubeObject>(
    type: ResourceType<T>,
    onItem: (object: T) => void,
    { namespace, labelSelector }: Parameters<StatusContext['list']>[2] = {},
  ): Promise<void> {
    const { client, signal } = this.#options;
    // Parsed item by item: only a hundredth of each pod is kept.
    await client.listItems(
      type,
      { namespace },
      { signal, labelSelector, onItem: (item) => onItem(JSON.parse(item) as T) },
    );
  }

  async #orForbidden<T>(resource: string, read: () => Promise<T>): Promise<T | undefined> {
    try {
      return await read();
    } catch (error) {
      if (!isForbidden(error)) throw error;
      this.notRead.push({ resource, why: error.message });
      return undefined;
    }
  }
}

function groupOf({ group, version }: ResourceType): string {
  return `${group}/${version}`;
}

function keyOf({ group, plural }: { readonly group: string; readonly plural: string }): string {
  return `${plural}.${group}`;
}

/** Whether the API serves a kind that users write, as far as its section listed them; `null` if unknown. */
function isAnyServed(
  { guarded, resources }: Guard,
  served: ReadonlyMap<string, boolean | null>,
): boolean | null {
  const asked = (guarded ?? resources)
    .map((kind) => served.get(keyOf(kind)))
    .filter((is) => is !== undefined);
  if (asked.includes(true)) return true;
  return asked.length === 0 || asked.includes(null) ? null : false;
}

interface Leases {
  readonly locks: readonly LeaseView[];
  readonly agents: readonly AgentView[];
  readonly operator: ProcessView | null;
}

/** Leases that seem not to be renewed are read again, because clocks may differ. */
async function readLeases({ client, signal, isStopped = false }: StatusReaderOptions): Promise<Leases> {
  const read = async (): Promise<Lease[]> =>
    (await client.list(leases, { namespace: systemNamespace }, { signal })).items;
  let items = await read();
  const before = new Map(items.map(({ metadata, spec }) => [metadata.name, spec?.renewTime]));
  if (!isStopped && isWorthAnotherLook(items)) {
    await sleep(systemClock, LEASE_LOOK_MS, signal);
    items = await read();
  }
  const nowMs = Date.now();
  const isRenewed = (lease: Lease): boolean =>
    !isStopped &&
    Boolean(lease.spec?.holderIdentity) &&
    (!isDoubtful(lease, nowMs) || before.get(lease.metadata.name) !== lease.spec?.renewTime);
  const processOf = (lease: Lease): AgentView => ({
    nodeName: '',
    holder: lease.spec?.holderIdentity ?? '',
    guards: readGuardStates(lease),
    isRenewed: isRenewed(lease),
    renewedMs: renewedMs(lease) ?? null,
    renewedSecondsAgo: renewedSecondsAgo(lease, nowMs),
  });
  const operator = items.find(({ metadata }) => metadata.name === operatorLease);
  return {
    locks: items
      .filter((lease) => !isAgentLease(lease))
      .map((lease) => lockView(lease, isRenewed(lease), nowMs)),
    agents: items.flatMap((lease) => {
      const agent = readAgentLease(lease);
      return agent === undefined ? [] : [{ ...processOf(lease), ...agent }];
    }),
    operator: operator === undefined ? null : processOf(operator),
  };
}

/**
 * Whether any lease may only have been renewed late. Two kinds are not worth a second look: an agent's, which is renewed too seldom, and a
 * kernel's, which its agent renews only while another requests it.
 */
function isWorthAnotherLook(items: readonly Lease[]): boolean {
  const nowMs = Date.now();
  const alive = new Set(
    items
      .filter((lease) => isAgentLease(lease) && !isDoubtful(lease, nowMs))
      .map((lease) => readAgentLease(lease)?.nodeName),
  );
  return items.some(
    (lease) =>
      !isAgentLease(lease) &&
      isDoubtful(lease, nowMs) &&
      !(
        lease.metadata.labels?.[kernelLeaseLabel] !== undefined &&
        alive.has(nodeOfHolder(lease.spec?.holderIdentity ?? ''))
      ),
  );
}

function isDoubtful({ spec }: Lease, nowMs: number): boolean {
  if (!spec?.holderIdentity) return false;
  const ageMs = nowMs - Date.parse(spec.renewTime ?? '');
  // The holder's clock may be ahead, but by less than the lease's duration: otherwise the lease of a dead process would look alive much
  // longer.
  return !(Math.abs(ageMs) <= (spec.leaseDurationSeconds ?? 15) * 1000);
}

function renewedMs({ spec }: Lease): number | undefined {
  const ms = Date.parse(spec?.renewTime ?? '');
  return Number.isNaN(ms) ? undefined : ms;
}

function renewedSecondsAgo(lease: Lease, nowMs: number): number | null {
  const ms = renewedMs(lease);
  return ms === undefined ? null : Math.round((nowMs - ms) / 100) / 10;
}

function lockView(lease: Lease, isRenewed: boolean, nowMs: number): LeaseView {
  const { metadata, spec } = lease;
  return {
    name: metadata.name ?? '',
    holder: spec?.holderIdentity ?? '',
    renewedSecondsAgo: renewedSecondsAgo(lease, nowMs),
    isRenewed,
  };
}

function nodeView({ metadata, spec, status }: Node): NodeView {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return {
    name: metadata.name ?? '',
    kernel: status?.nodeInfo?.bootID || undefined,
    // A standalone node has no kubelet to report a condition.
    isReady: ready === undefined || ready.status === 'True',
    ...(metadata.labels && { labels: metadata.labels }),
    ...(spec?.taints && { taints: spec.taints }),
  };
}

function agentPodView({ metadata, spec, status }: Pod): AgentPodView {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
  return { name: metadata.name ?? '', nodeName: spec?.nodeName ?? '', ready };
}
