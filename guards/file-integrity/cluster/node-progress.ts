/** The progress of nodes with their baselines and first scans, read from the leases of their agents. */
import { agentLeaseName, readAgentLease } from '../../../guard/agent-lease-names.ts';
import { systemNamespace } from '../../../guard/guard.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { type Lease, leases } from '../../../lib/kube/object/object.ts';
import { type Progress, readNodeFacts } from '../results/node-facts.ts';
import type { ClusterContext } from './context.ts';

/** A running agent renews its lease three times in this time. */
const SILENT_MS = 30_000;
/**
 * Limits how often leases are read: agents renew them at this interval, while results of a thousand nodes arrive many
 * times a second.
 */
const ASKED_MS = 10_000;

interface Seen {
  readonly version: string;
  readonly ms: number;
}

interface Asked {
  readonly ms: number;
  readonly found: ReadonlyMap<string, Progress>;
}

export class NodeProgress {
  readonly #context: Pick<ClusterContext, 'client' | 'clock'>;
  /** Since when a node's lease has been unchanged; keyed by node. */
  readonly #seen = new Map<string, Seen>();
  /** Keyed by FileIntegrity, `namespace/name`. */
  readonly #asked = new Map<string, Asked>();

  constructor(context: Pick<ClusterContext, 'client' | 'clock'>) {
    this.#context = context;
  }

  forget(key: string): void {
    this.#asked.delete(key);
  }

  /**
   * Keyed by node; contains only nodes that work on this FileIntegrity now and whose agents renew their lease.
   *
   * @param key - `namespace/name`
   * @param nodeNames - Each takes one request, at most every 10 s.
   * @throws {KubeError}
   */
  async of(
    key: string,
    nodeNames: readonly string[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, Progress>> {
    const nowMs = this.#context.clock.monotonicMs();
    const before = this.#asked.get(key);
    if (before !== undefined && nowMs - before.ms < ASKED_MS) return before.found;
    const found = await this.#ask(key, nodeNames, signal);
    this.#asked.set(key, { ms: nowMs, found });
    return found;
  }

  async #ask(key: string, nodeNames: readonly string[], signal: AbortSignal): Promise<Map<string, Progress>> {
    const found = await Promise.all(
      nodeNames.map(async (node): Promise<readonly [string, Progress][]> => {
        const place = { namespace: systemNamespace, name: agentLeaseName(node) };
        const lease = await orUndefined(this.#context.client.get(leases, place, { signal }));
        if (lease === undefined || !this.#isRenewed(node, lease)) return [];
        const facts = readAgentLease(lease)?.guards.get('file-integrity')?.facts;
        const { progress } = readNodeFacts(facts);
        return progress?.object === key ? [[node, progress]] : [];
      }),
    );
    return new Map(found.flat());
  }

  #isRenewed(node: string, { metadata }: Lease): boolean {
    const nowMs = this.#context.clock.monotonicMs();
    const version = metadata.resourceVersion ?? '';
    const seen = this.#seen.get(node);
    if (seen?.version === version) return nowMs - seen.ms < SILENT_MS;
    this.#seen.set(node, { version, ms: nowMs });
    return true;
  }
}
