/** Determines which nodes have to create new baselines because of annotations of a FileIntegrity. */
import { hash } from 'node:crypto';

import { names, type FileIntegrity, type FileIntegrityNodeStatus } from '../api.ts';
import { listedNodes } from '../results/holdoff.ts';
import type { NodeRequest } from '../results/node-result.ts';

/** Annotation with the number of requests so far. It changes in the same write that removes the annotations of the request. */
export const reinitCount = 'file-integrity.openshift.io/re-init-count';

export interface Reinit {
  readonly requests: readonly { readonly nodeName: string; readonly request: NodeRequest }[];
  /** Names in the annotation that no node of the FileIntegrity has. */
  readonly unknown: readonly string[];
  /** What to count in the metric `reinit_total`. */
  readonly counted: readonly { readonly by: string; readonly node: string }[];
  /** The annotations as a merge patch. */
  readonly annotations: Readonly<Record<string, string | null>>;
}

/**
 * Undefined if there is no request. The ids of requests are derived from the state of the FileIntegrity: if the process
 * is killed halfway, the next one uses the same ids, and a later request has other ids. The count alone would not be
 * enough: it may decrease, after `kubectl replace` or in a restored cluster, and nodes ignore ids that they have
 * already carried out.
 *
 * @param nodeNames the nodes that the FileIntegrity selects
 */
export function reinitOf(
  { metadata: { annotations = {}, uid = '', resourceVersion = '' } }: FileIntegrity,
  nodeNames: readonly string[],
  statuses: readonly Pick<FileIntegrityNodeStatus, 'nodeName' | 'lastResult'>[],
): Reinit | undefined {
  const list = annotations[names.reinit];
  const isOnFailed = annotations[names.reinitOnFailed] !== undefined;
  if (list === undefined && !isOnFailed) return undefined;
  const known = new Set(nodeNames);
  const by = new Map<string, string>();
  const counted: { by: string; node: string }[] = [];
  const unknown: string[] = [];
  if (isOnFailed) {
    for (const { nodeName, lastResult } of statuses) {
      if (lastResult?.condition !== 'Failed' || !known.has(nodeName)) continue;
      by.set(nodeName, 'failure');
      counted.push({ by: 'failure', node: nodeName });
    }
  }
  if (list !== undefined) {
    const isAll = list.trim() === '';
    const asked = isAll ? nodeNames : listedNodes(list);
    // FIO counts a request for all nodes once, without a node's name.
    if (isAll) counted.push({ by: 'demand', node: '' });
    for (const nodeName of asked) {
      if (!known.has(nodeName)) unknown.push(nodeName);
      else {
        by.set(nodeName, 'annotation');
        if (!isAll) counted.push({ by: 'demand', node: nodeName });
      }
    }
  }
  const count = Number.parseInt(annotations[reinitCount] ?? '0', 10) || 0;
  const id = (nodeName: string): string =>
    hash('sha256', JSON.stringify([uid, resourceVersion, count, list, isOnFailed, nodeName])).slice(0, 16);
  return {
    requests: [...by].map(([nodeName, why]) => ({
      nodeName,
      request: { kind: 're-init', id: id(nodeName), by: why },
    })),
    unknown,
    counted,
    annotations: {
      [names.reinit]: null,
      [names.reinitOnFailed]: null,
      [reinitCount]: String(count + 1),
    },
  };
}
