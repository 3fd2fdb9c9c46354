/**
 * Processes the results of agents: a temporary ConfigMap becomes a kept log, a report, events and a
 * FileIntegrityNodeStatus, and is then deleted.
 *
 * If the process is killed at any point, the next one completes the rest: each write can be repeated without effect,
 * and the write that marks a result as known, to the FileIntegrityNodeStatus, comes after all others.
 */
import { deleteSame } from '../../../lib/kube/client/delete-same.ts';
import { isAlreadyExists, orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { done, type Result, runController } from '../../../lib/kube/controller/controller.ts';
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { names, type FileIntegrityNodeStatus } from '../api.ts';
import { noDetection } from '../model/finding.ts';
import { type ConfigMap, configMaps, nodes } from '../../../lib/kube/object/object.ts';
import { isForNode } from '../results/for-node.ts';
import type { NodeResult } from '../results/node-result.ts';
import { keptName, labelValue, nodeStatusName } from '../results/object-names.ts';
import { integrityReport } from './report-entries.ts';
import { readResultConfigMap } from '../results/result-config-map.ts';
import { integrityKeyOf, labelKey } from './caches.ts';
import {
  type ClusterContext,
  countingOf,
  fieldManager,
  flushReported,
  foundAt,
  type Found,
  ownerOf,
  notify,
} from './context.ts';
import { refusalOf } from './refusal.ts';
import { annotationsAfter, isNewer, noteOfRefusal, takeResult, withoutLog } from './taken-result.ts';

const WORKERS = 4;

/** Runs until `signal` aborts; the caches are synced. */
export async function runResultController(context: ClusterContext): Promise<void> {
  const { caches } = context;
  const controller = new ResultController(context);
  using queue = keyQueue();
  using _results = caches.results.subscribe(({ key, type }) => {
    if (type === 'deleted') controller.forget(key);
    else queue.add(key);
  });
  for (const key of caches.results.keys()) queue.add(key, { level: 1 });
  const { reconcile } = controller;
  await runController({ ...context, name: 'file-integrity-results', queue, reconcile, workers: WORKERS });
}

class ResultController {
  readonly #context: ClusterContext;
  /**
   * The version of a temporary ConfigMap for which events were already sent, so that a retry sends none; keyed by the
   * ConfigMap.
   */
  readonly #reported = new Map<string, string>();

  constructor(context: ClusterContext) {
    this.#context = context;
  }

  forget(key: string): void {
    this.#reported.delete(key);
  }

  readonly reconcile = async (key: string, signal: AbortSignal): Promise<Result> => {
    const { client, caches, logger } = this.#context;
    const slim = caches.results.get(key);
    if (slim === undefined) return done;
    const { namespace = '', name = '' } = slim.metadata;
    const configMap = await orUndefined(client.get(configMaps, { namespace, name }, { signal }));
    // If the label was removed, it is not a result.
    if (configMap?.metadata.labels?.[names.logLabel] === undefined) return done;
    const read = this.#read(configMap);
    const about = {
      result: key,
      fileIntegrity: read?.result.fileIntegrity.name,
      node: read?.result.nodeName,
    };
    if (read === undefined) logger.warn(about, 'skipping a result for an unknown node');
    else if (!(await this.#isWanted(read.found, read.result.nodeName, signal)))
      logger.info(about, 'skipping a result whose FileIntegrity or node is gone');
    else await this.#take(configMap, read.found as Found, read.result, read.isMalformed, signal);
    await this.#delete(configMap, signal);
    return done;
  };

  /**
   * Reads the result in a ConfigMap, and finds its node and FileIntegrity. An unreadable result is reported as an error
   * of its node.
   */
  #read(
    configMap: ConfigMap,
  ):
    | { readonly result: NodeResult; readonly found: Found | undefined; readonly isMalformed: boolean }
    | undefined {
    const { caches } = this.#context;
    try {
      const result = readResultConfigMap(configMap);
      const { namespace, name } = result.fileIntegrity;
      const found = countingOf(foundAt(caches, `${namespace}/${name}`));
      return { result, found, isMalformed: false };
    } catch (error) {
      if (!(error instanceof RampartError) || error.code !== errorCodes.DECODE) throw error;
      return this.#malformed(configMap, error);
    }
  }

  /** The result for an unreadable ConfigMap: finds its FileIntegrity and node by labels, which FIO sets too. */
  #malformed(
    configMap: ConfigMap,
    error: RampartError,
  ): { readonly result: NodeResult; readonly found: Found; readonly isMalformed: true } | undefined {
    const { caches, recorder, clock } = this.#context;
    const { namespace = '', labels = {}, annotations = {} } = configMap.metadata;
    const owner = labelKey(namespace, labels[names.ownerLabel] ?? '');
    const found = countingOf(
      caches.groups.flatMap((group) =>
        group.integrities.byIndex('label', owner).map((integrity) => ({ group, integrity })),
      ),
    );
    const label = labels[names.nodeLabel] ?? '';
    const [nodeName = caches.nodes.size === 0 ? label : ''] = caches.nodes.keysByIndex('label', label);
    if (found === undefined || nodeName === '') {
      this.#once(configMap, () => {
        const regarding = referenceTo(configMaps, configMap);
        const note = { type: 'Warning', reason: 'NodeIntegrityStatus', note: error.message } as const;
        recorder.record({ regarding, action: 'Read', ...note });
      });
      return undefined;
    }
    const fileIntegrity = { namespace, name: found.integrity.metadata.name ?? '' };
    const message = annotations[names.errorMessage] ?? error.message;
    const result: NodeResult = {
      fileIntegrity,
      nodeName,
      sequence: 0,
      isUnnumbered: true,
      atMs: clock.wallMs(),
      outcome: { kind: 'errored', message, reason: error.code },
      findings: [],
      omittedFindings: 0,
      detection: { ...noDetection, reason: '' },
      doneRequests: [],
    };
    return { result, found, isMalformed: true };
  }

  /**
   * Whether the FileIntegrity still selects the node. The cache may be behind the agent that wrote the result, so a
   * missing node is read from the API.
   */
  async #isWanted(found: Found | undefined, nodeName: string, signal: AbortSignal): Promise<boolean> {
    const { client, caches } = this.#context;
    if (found === undefined) return false;
    // A standalone machine has no Node objects.
    if (caches.nodes.size === 0) return true;
    const node = caches.nodes.get(nodeName);
    if (node !== undefined && isForNode(found.integrity.spec, node, true)) return true;
    const live = await orUndefined(client.get(nodes, { name: nodeName }, { signal }));
    return live !== undefined && isForNode(found.integrity.spec, live, true);
  }

  async #take(
    configMap: ConfigMap,
    found: Found,
    result: NodeResult,
    isMalformed: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, counts, reports, clock } = this.#context;
    const { namespace, name } = result.fileIntegrity;
    const { nodeStatuses } = found.group.types;
    const target = { namespace, name: nodeStatusName(name, result.nodeName) };
    const known = await orUndefined(client.get(nodeStatuses, target, { signal }));
    if (known !== undefined && !isOf(known, result)) {
      // Two FileIntegrities, `a` on node `b-c` and `a-b` on node `c`, have the same status name; FIO mixes up their
      // results.
      const note = `node ${result.nodeName} has an error! FileIntegrityNodeStatus ${target.name} belongs to node ${known.nodeName} and another FileIntegrity. Rename one of the two.`;
      this.#once(configMap, () =>
        notify(
          this.#context,
          found,
          { type: 'Warning', reason: 'NodeIntegrityStatus', note },
          'Scan',
          result.nodeName,
        ),
      );
      counts.error('NameTaken');
      return;
    }
    if (!isMalformed && !isNewer(result, known, clock.wallMs())) return;
    const taken = takeResult(result, known);
    const isFailed = result.outcome.kind === 'failed';
    // If the log is refused, the findings are still in the node's status.
    const noLog = isFailed ? await refusalOf(this.#keepLog(configMap, result, signal)) : undefined;
    const report = integrityReport(result, {
      owner: ownerOf(found.group.types, found.integrity),
      ...(isFailed &&
        noLog === undefined && {
          completeAt: `ConfigMap ${namespace}/${keptName(name, result.nodeName)}`,
        }),
    });
    const noReport = await refusalOf(reports.write(report, signal));
    const refused = noLog ?? noReport;
    const notes = [...taken.notes, ...(refused ? [noteOfRefusal(result.nodeName, refused)] : [])];
    if (notes.length > 0) {
      this.#once(configMap, () =>
        notes.forEach((note) => notify(this.#context, found, note, 'Scan', result.nodeName)),
      );
      await flushReported(this.#context, signal);
    }
    const fields = noLog === undefined ? taken.fields : withoutLog(taken.fields);
    const metadata: FileIntegrityNodeStatus['metadata'] = known?.metadata ?? target;
    const status: FileIntegrityNodeStatus = {
      ...fields,
      // Keeps the previous sequence if a write was refused, so that this result still counts as new when it is read
      // again.
      ...(refused && !result.isUnnumbered && { sequence: known?.sequence ?? -1 }),
      metadata: {
        ...metadata,
        labels: {
          ...metadata.labels,
          [names.ownerLabel]: labelValue(name),
          [names.nodeLabel]: labelValue(result.nodeName),
        },
        annotations: annotationsAfter(metadata.annotations, taken.done),
        ownerReferences: [ownerOf(found.group.types, found.integrity)],
      },
    };
    // With the resourceVersion, so that a request added meanwhile is not lost.
    if (known === undefined) await client.create(nodeStatuses, status, { fieldManager, signal });
    else await client.update(nodeStatuses, status, { fieldManager, signal });
    if (taken.isTransition && taken.fields.lastResult !== undefined) {
      const reason = result.outcome.kind === 'errored' ? result.outcome.reason : undefined;
      counts.transition(taken.fields.lastResult.condition, result.nodeName, reason);
    }
    if (refused) throw refused;
  }

  /** Stores the log as FIO does: without an owner, so that it exists until Rampart deletes it. */
  async #keepLog(
    { metadata, data }: ConfigMap,
    { fileIntegrity, nodeName }: NodeResult,
    signal: AbortSignal,
  ): Promise<void> {
    const { client } = this.#context;
    const { [names.logLabel]: _temporary, ...labels } = metadata.labels ?? {};
    const kept: ConfigMap = {
      metadata: {
        namespace: fileIntegrity.namespace,
        name: keptName(fileIntegrity.name, nodeName),
        labels: { ...labels, [names.resultLogLabel]: '' },
        annotations: { ...metadata.annotations },
      },
      ...(data && { data }),
    };
    try {
      await client.create(configMaps, kept, { fieldManager, signal });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      // Without a resourceVersion: the new log replaces the stored one as a whole.
      await client.update(configMaps, kept, { fieldManager, signal });
    }
  }

  /** Deletes a temporary ConfigMap, unless a newer result has taken its place. */
  async #delete(result: ConfigMap, signal: AbortSignal): Promise<void> {
    await deleteSame(this.#context.client, configMaps, result, { unchanged: true, signal });
  }

  #once({ metadata }: ConfigMap, record: () => void): void {
    const key = `${metadata.namespace}/${metadata.name}`;
    const version = `${metadata.uid} ${metadata.resourceVersion}`;
    if (this.#reported.get(key) === version) return;
    this.#reported.set(key, version);
    record();
  }
}

function isOf(known: FileIntegrityNodeStatus, { fileIntegrity, nodeName }: NodeResult): boolean {
  const key = `${fileIntegrity.namespace}/${fileIntegrity.name}`;
  const owner = integrityKeyOf(known);
  // A status created by a person has neither owner nor label.
  return known.nodeName === nodeName && (owner === key || owner === `${fileIntegrity.namespace}/`);
}
