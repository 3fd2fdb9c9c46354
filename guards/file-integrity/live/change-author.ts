/** Converts processes seen by the sensor to authors, as shown in findings. */
import type { ContainerSource } from '../../../lib/cri/container-source.ts';
import type { ProcessPlace } from '../../../lib/cri/container-index.ts';
import { NodeContainerIndex } from '../../../lib/cri/node-container-index.ts';
import type { Change, ChangeKind, ChangeProcess } from '../../../lib/sensor/changes/change.ts';
import type { ChangeAuthor } from '../model/finding.ts';
import { type Hand, isDiverter, isPackageManager } from '../model/hand.ts';

type Place = Pick<ChangeAuthor, 'relation' | 'container' | 'pod' | 'unit' | 'mounts'>;

export interface ChangedBy {
  /** Who last changed the content or the name. */
  readonly author: ChangeAuthor | undefined;
  /** Who changed only attributes, after the author's change. */
  readonly touchedBy: ChangeAuthor | undefined;
  /** Whether the changes were made by package managers, by others, or unseen; undefined if unknown. */
  readonly hand: Hand | undefined;
  /** Whether only dpkg-divert made the changes. */
  readonly isDiverter: boolean;
}

/** Kinds that prove that the path was changed, not only that a process had it open for writing. */
const reportsOfChange: ReadonlySet<ChangeKind> = new Set([
  ...(['created', 'deleted', 'moved-from', 'moved-to', 'attributes', 'modified'] as const),
]);

/** Follows the containers of a node until it is disposed. */
export class ChangeAuthors implements Disposable {
  readonly #source: ContainerSource;
  readonly #containers: NodeContainerIndex<Place>;

  constructor(source: ContainerSource) {
    this.#source = source;
    this.#containers = new NodeContainerIndex(source, placeIn);
  }

  /** Who made the changes of a path. */
  by(change: Change): ChangedBy {
    const { author: last, contentAuthor, otherAuthors, atMs } = change;
    const author = contentAuthor && this.authorOf(contentAuthor, atMs);
    const touchedBy = last === contentAuthor ? undefined : last && this.authorOf(last, atMs);
    const all = [author, touchedBy, ...otherAuthors.map((other) => this.authorOf(other, atMs))];
    const known = all.filter((one) => one !== undefined);
    const isDivertersAlone = known.length > 0 && known.every(isDiverter);
    return { author, touchedBy, hand: handOf(change, known), isDiverter: isDivertersAlone };
  }

  /**
   * The author for a process. Undefined for this agent itself: its reads and writes are not findings.
   *
   * @param atMs wall-clock time of the change: its container may be gone by now.
   */
  authorOf(process: ChangeProcess, atMs: number): ChangeAuthor | undefined {
    if (process.own) return undefined;
    const { executable, cwd, uid, gid, pid, ppid, parentExecutable } = process;
    const place = this.#containers.index.find(process, performance.now() - (Date.now() - atMs));
    return {
      ...{ binary: executable, arguments: process.arguments, cwd, uid, gid, pid, ppid },
      parentBinary: parentExecutable,
      ...place,
    };
  }

  /** Calls `listener` after a container was added, changed or removed. Dispose the result to end that. */
  onContainer(listener: () => void): Disposable {
    return this.#source.subscribe(() => listener());
  }

  [Symbol.dispose](): void {
    this.#containers[Symbol.dispose]();
  }
}

function handOf(
  { kinds, author, contentAuthor, others, otherAuthors }: Change,
  known: readonly ChangeAuthor[],
): Hand | undefined {
  if (known.some((one) => !isPackageManager(one))) return 'others';
  const reported = kinds.filter((kind) => reportsOfChange.has(kind));
  // If several processes are possible, their actions cannot be distinguished: one of them made the change.
  const isOneOf = author === undefined && others > 0;
  const isUnseen =
    others > otherAuthors.length ||
    (!isOneOf && author === undefined && reported.length > 0) ||
    (!isOneOf && contentAuthor === undefined && reported.some((kind) => kind !== 'attributes'));
  if (isUnseen) return 'unseen';
  return known.length > 0 ? 'packages' : undefined;
}

function placeIn(place: ProcessPlace): Place {
  const { relation } = place;
  switch (relation) {
    case 'container': {
      const { id, name, podName, podNamespace } = place;
      return { relation, container: { id, name }, pod: { namespace: podNamespace, name: podName } };
    }
    case 'host': {
      const { unit, hasOwnMounts } = place;
      return { relation, ...(unit !== undefined && { unit }), ...(hasOwnMounts && { mounts: 'own' }) };
    }
    case 'unknown': {
      const { id } = place;
      return { relation, ...(id !== undefined && { container: { id, name: '' } }) };
    }
  }
}
