/** Reads the objects of file integrity from the API, once. */
import type { StatusContext } from '../../../guard/status-section.ts';
import { bothGroups, type FileIntegrity, type FileIntegrityNodeStatus, names } from '../api.ts';
import { labelValue } from '../results/object-names.ts';

/** Limit of the findings shown for a node; a FileIntegrityNodeStatus has up to 200. */
const SHOWN_FINDINGS = 3;

/** A FileIntegrity with what is known about its nodes. */
export interface IntegrityView {
  readonly group: string;
  readonly integrity: FileIntegrity;
  readonly nodes: readonly IntegrityNodeView[];
}

export interface IntegrityNodeView {
  readonly nodeName: string;
  readonly lastResult: FileIntegrityNodeStatus['lastResult'];
  readonly detection: FileIntegrityNodeStatus['detection'];
  /** The first findings that no package update explains. */
  readonly findings: NonNullable<FileIntegrityNodeStatus['findings']>;
  readonly findingCount: number;
  readonly packageUpdates: NonNullable<FileIntegrityNodeStatus['packageUpdates']>;
  readonly reading: FileIntegrityNodeStatus['reading'];
}

/**
 * The FileIntegrity objects of both groups; empty if the groups are not installed. @throws {KubeError} also if they may
 * not be read
 */
export async function readIntegrities({
  list,
  namespace: asked,
}: Pick<StatusContext, 'list' | 'namespace'>): Promise<IntegrityView[]> {
  const views: IntegrityView[] = [];
  for (const { group, integrities, nodeStatuses } of bothGroups) {
    const found: FileIntegrity[] = [];
    await list(integrities, (integrity) => found.push(integrity), { namespace: asked });
    if (found.length === 0) continue;
    const nodes = new Map<string, IntegrityNodeView[]>();
    // Reduces each item as it arrives: items may have 256 KiB, and about a hundredth of that is kept.
    const keep = (status: FileIntegrityNodeStatus): void => {
      const key = `${status.metadata.namespace}/${ownerOf(status)}`;
      const of = nodes.get(key) ?? [];
      nodes.set(key, of);
      of.push(nodeView(status));
    };
    await list(nodeStatuses, keep, { namespace: asked });
    for (const integrity of found) {
      const { namespace, name = '' } = integrity.metadata;
      views.push({ group, integrity, nodes: nodes.get(`${namespace}/${labelValue(name)}`) ?? [] });
    }
  }
  return views;
}

/** The name of the FileIntegrity as a label value. Statuses written by FIO have only an owner reference. */
function ownerOf({ metadata, nodeName }: FileIntegrityNodeStatus): string {
  const owner = metadata.ownerReferences?.find(({ kind }) => kind === 'FileIntegrity')?.name;
  const { name = '' } = metadata;
  const suffix = `-${nodeName}`;
  return (
    metadata.labels?.[names.ownerLabel] ??
    labelValue(owner ?? (name.endsWith(suffix) ? name.slice(0, -suffix.length) : name))
  );
}

function nodeView(status: FileIntegrityNodeStatus): IntegrityNodeView {
  const { nodeName, lastResult, detection, findings = [], omittedFindings = 0 } = status;
  const { packageUpdates = [], reading } = status;
  return {
    nodeName,
    lastResult,
    detection,
    findings: findings.filter(({ explained }) => explained === undefined).slice(0, SHOWN_FINDINGS),
    findingCount: findings.length + omittedFindings,
    packageUpdates,
    reading,
  };
}
