/** Which nodes a FileIntegrity selects; deletes the results of nodes that it no longer selects. */
import { deleteSame } from '../../../lib/kube/client/delete-same.ts';
import { type KubeError, orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { names, type FileIntegrityNodeStatus } from '../api.ts';
import { configMaps, nodes } from '../../../lib/kube/object/object.ts';
import { isForNode } from '../results/for-node.ts';
import { labelValue } from '../results/object-names.ts';
import { integrityReportTarget } from './report-entries.ts';
import { decidesAlike, labelKey } from './caches.ts';
import type { ClusterContext, Found } from './context.ts';
import { refusalOf } from './refusal.ts';

interface Chosen {
  readonly version: number;
  readonly choice: string;
  readonly names: readonly string[];
}

/** Disposing it stops watching the nodes. */
export class WatchedNodes implements Disposable {
  readonly #context: ClusterContext;
  readonly #subscription: Disposable;
  /** The selected nodes, keyed by FileIntegrity: selecting among thousands for each result would be slow. */
  readonly #chosen = new Map<string, Chosen>();
  #version = 0;

  /**
   * @param onChange called if nodes, their labels or their taints have changed: each FileIntegrity may then select
   *   other nodes
   */
  constructor(context: ClusterContext, onChange: () => void) {
    this.#context = context;
    this.#subscription = context.caches.nodes.subscribe(({ type, object, previous }) => {
      if (type === 'modified' && decidesAlike(previous, object)) return;
      this.#version++;
      onChange();
    });
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  forget(key: string): void {
    this.#chosen.delete(key);
  }

  /**
   * The selected nodes, with their statuses. Deletes the statuses of other nodes. If the API refuses a deletion,
   * `refused` has the error, and the caller retries.
   */
  async of(
    key: string,
    found: Found,
    signal: AbortSignal,
  ): Promise<{
    readonly nodeNames: readonly string[];
    readonly statuses: readonly FileIntegrityNodeStatus[];
    readonly refused?: KubeError | undefined;
  }> {
    const { caches } = this.#context;
    const statuses = found.group.statuses.byIndex('integrity', key);
    // A standalone machine has no Node objects: the nodes are those that have reported.
    if (caches.nodes.size === 0) return { nodeNames: statuses.map(({ nodeName }) => nodeName), statuses };
    const chosen = new Set(this.#choose(key, found));
    const kept: FileIntegrityNodeStatus[] = [];
    let refused: KubeError | undefined;
    for (const status of statuses) {
      if (chosen.has(status.nodeName) || (await this.#isFor(found, status.nodeName, signal)))
        kept.push(status);
      else refused = (await refusalOf(this.#deleteStatus(found, status, signal))) ?? refused;
    }
    // Also nodes that were checked before they got a NoSchedule taint: checks continue there.
    const left = new Set([...chosen, ...kept.map(({ nodeName }) => nodeName)]);
    refused = (await refusalOf(this.#deleteLogs(found, left, signal))) ?? refused;
    return { nodeNames: [...left], statuses: kept, refused };
  }

  #choose(key: string, { integrity }: Found): readonly string[] {
    const { nodeSelector = {}, tolerations } = integrity.spec;
    const choice = JSON.stringify([nodeSelector, tolerations]);
    const known = this.#chosen.get(key);
    if (known?.version === this.#version && known.choice === choice) return known.names;
    const found: string[] = [];
    for (const node of this.#context.caches.nodes.list())
      if (isForNode(integrity.spec, node, false)) found.push(node.metadata.name ?? '');
    this.#chosen.set(key, { version: this.#version, choice, names: found });
    return found;
  }

  /** Asks the API: an agent on a new node may have written results before the cache knows the node. */
  async #isFor({ integrity }: Found, nodeName: string, signal: AbortSignal): Promise<boolean> {
    const node = await orUndefined(this.#context.client.get(nodes, { name: nodeName }, { signal }));
    return node !== undefined && isForNode(integrity.spec, node, true);
  }

  async #deleteStatus(
    { group, integrity }: Found,
    status: FileIntegrityNodeStatus,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, reports, logger } = this.#context;
    const { namespace = '', name } = status.metadata;
    // Delete what depends on the status first: if that fails, the status still exists and the deletion is retried.
    await reports.delete(
      integrityReportTarget({ namespace, name: integrity.metadata.name ?? '' }, status.nodeName),
      signal,
    );
    if (!(await deleteSame(client, group.types.nodeStatuses, status, { signal }))) return;
    logger.info(
      { nodeStatus: `${namespace}/${name}` },
      'deleted the status of a node that is no longer watched',
    );
  }

  async #deleteLogs(found: Found, nodeNames: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    const { caches, client } = this.#context;
    const { namespace, name = '' } = found.integrity.metadata;
    const logs = caches.kept.byIndex('label', labelKey(namespace, labelValue(name)));
    if (logs.length === 0) return;
    const labels = new Set([...nodeNames].map(labelValue));
    for (const log of logs) {
      const label = log.metadata.labels?.[names.nodeLabel] ?? '';
      if (labels.has(label) || (label !== '' && (await this.#isFor(found, label, signal)))) continue;
      await deleteSame(client, configMaps, log, { signal });
    }
  }
}
