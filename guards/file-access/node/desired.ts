/** The desired KiveData of this node, and the changes to get there. */
import { type KiveData, kiveDataNamespace } from '../api.ts';
import {
  type FoundFile,
  type FoundOn,
  kiveDataFinalizer,
  kiveDataOf,
  nodeOf,
  ourAnnotations,
} from '../kive-data.ts';
import type { PodView } from '../policy/matching.ts';

/** Whether no container of this pod runs now, or will run later. */
export function isOver({ status }: PodView): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

export function desiredData(files: Iterable<FoundFile>, on: FoundOn): Map<string, KiveData> {
  const desired = new Map<string, KiveData>();
  for (const file of files) desired.set(file.name, kiveDataOf(file, on));
  return desired;
}

/** The changes to make. Apply them in this order, so that watched files stay watched. */
export interface DataChanges {
  readonly create: readonly KiveData[];
  /** Whole objects to put in place of the stored ones, with their resourceVersion. */
  readonly update: readonly KiveData[];
  /** KiveData of traps and containers that are gone, of relabelled pods, and of earlier boots of this node. */
  readonly remove: readonly KiveData[];
  /** Names that are wanted, but still in use by an object that is being deleted: create them when it is gone. */
  readonly blocked: readonly string[];
}

/**
 * Compares existing and desired KiveData. Once the changes are applied, the next comparison finds none.
 *
 * @param existing - All KiveData or those of this node: those of other nodes are ignored.
 * @param nodeName - This node. Objects that it wrote are deleted whichever kernel they belong to.
 */
export function diffData(
  desired: ReadonlyMap<string, KiveData>,
  existing: Iterable<KiveData>,
  nodeName: string,
): DataChanges {
  const update: KiveData[] = [];
  const remove: KiveData[] = [];
  const blocked: string[] = [];
  const seen = new Set<string>();
  for (const stored of existing) {
    const { metadata } = stored;
    if (metadata.namespace !== kiveDataNamespace) continue;
    const name = metadata.name ?? '';
    const wanted = desired.get(name);
    const deleting = metadata.deletionTimestamp !== undefined;
    if (wanted === undefined) {
      if (!deleting && nodeOf(stored) === nodeName) remove.push(stored);
      continue;
    }
    seen.add(name);
    if (deleting) blocked.push(name);
    else if (!says(stored, wanted)) update.push(merged(stored, wanted));
  }
  const create = [...desired].filter(([name]) => !seen.has(name)).map(([, data]) => data);
  return { create, update, remove, blocked };
}

/** Whether the stored object contains all of the wanted one; it may have more labels and annotations. */
function says(stored: KiveData, wanted: KiveData): boolean {
  return (
    holds(stored.metadata.labels, wanted.metadata.labels) &&
    holds(stored.metadata.annotations, wanted.metadata.annotations) &&
    optional.every((key) => stored.metadata.annotations?.[key] === wanted.metadata.annotations?.[key]) &&
    stored.metadata.finalizers?.includes(kiveDataFinalizer) === true &&
    stored.spec.inodeNo === wanted.spec.inodeNo &&
    stored.spec.devId === wanted.spec.devId &&
    stored.spec.kernelId === wanted.spec.kernelId &&
    Object.keys(stored.spec.metadata ?? {}).length === Object.keys(wanted.spec.metadata ?? {}).length &&
    holds(stored.spec.metadata, wanted.spec.metadata)
  );
}

/** Annotations that are omitted if they have no value. */
const optional = [
  ourAnnotations.callbackSecret,
  ourAnnotations.host,
  ourAnnotations.movedFiles,
  ourAnnotations.operations,
  ourAnnotations.processes,
] as const;

type Texts = Readonly<Record<string, string>> | undefined;

function holds(all: Texts, some: Texts): boolean {
  for (const key in some) {
    if (all === undefined || !Object.hasOwn(all, key) || all[key] !== some[key]) return false;
  }
  return true;
}

function merged(stored: KiveData, wanted: KiveData): KiveData {
  const finalizers = stored.metadata.finalizers ?? [];
  const annotations = { ...stored.metadata.annotations };
  for (const key of optional) delete annotations[key];
  return {
    ...stored,
    metadata: {
      ...stored.metadata,
      labels: { ...stored.metadata.labels, ...wanted.metadata.labels },
      annotations: { ...annotations, ...wanted.metadata.annotations },
      finalizers: finalizers.includes(kiveDataFinalizer) ? finalizers : [...finalizers, kiveDataFinalizer],
    },
    spec: wanted.spec,
  };
}
