/** Which nodes the annotations of a FileIntegrity ask to make new baselines. No I/O. */
import { hash } from 'node:crypto';

import { names, type FileIntegrity, type FileIntegrityNodeStatus } from '../api.ts';
import { listedNodes } from '../results/holdoff.ts';
import type { NodeRequest } from '../results/node-result.ts';

/** Number of requests so far. It changes in the same write that removes the annotations. */
export const reinitCount = 'file-integrity.openshift.io/re-init-count';

export interface Reinit {
  readonly requests: readonly { readonly nodeName: string; readonly request: NodeRequest }[];
  /** Names in the list that no node of the FileIntegrity has. */
  readonly unknown: readonly string[];
  /** The counts of `reinit_total`. */
  readonly counted: readonly { readonly by: string; readonly node: string }[];
  /** For a merge patch of the annotations. */
  readonly annotations: Readonly<Record<string, string | null>>;
}

/**
 * Undefined without a request. The ids of the requests follow from the state of the FileIntegrity: a process
 * that was killed in between repeats the same ids, and the next request has others. The count alone is not
 * enough: it may decrease, after `kubectl replace` or in a restored cluster, and nodes remember finished ids.
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
    // FIO counts one for all nodes, without a name.
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
