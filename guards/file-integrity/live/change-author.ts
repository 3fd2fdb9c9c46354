/** The process that the sensor saw, as shown in findings. */
import type { ContainerSource } from '../../../lib/cri/container-source.ts';
import type { ProcessPlace } from '../../../lib/cri/container-index.ts';
import { NodeContainerIndex } from '../../../lib/cri/node-container-index.ts';
import type { Change, ChangeProcess } from '../../../lib/sensor/changes/change.ts';
import type { ChangeAuthor } from '../model/finding.ts';

type Place = Pick<ChangeAuthor, 'relation' | 'container' | 'pod' | 'unit' | 'mounts'>;

export interface ChangedBy {
  /** Who changed its content or name last. */
  readonly author: ChangeAuthor | undefined;
  /** Who changed attributes alone, after that. */
  readonly touchedBy: ChangeAuthor | undefined;
}

/** Follows the containers of a node until it is disposed. */
export class ChangeAuthors implements Disposable {
  readonly #source: ContainerSource;
  readonly #containers: NodeContainerIndex<Place>;

  constructor(source: ContainerSource) {
    this.#source = source;
    this.#containers = new NodeContainerIndex(source, placeIn);
  }

  /** Who made the changes of one path. */
  by({ author: last, contentAuthor, atMs }: Change): ChangedBy {
    const author = contentAuthor && this.authorOf(contentAuthor, atMs);
    const touchedBy = last === contentAuthor ? undefined : last && this.authorOf(last, atMs);
    return { author, touchedBy };
  }

  /**
   * Undefined for this agent itself: that it reads and writes is nobody's finding.
   *
   * @param atMs wall clock: when it made the change. Its container may be gone by now.
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

  /** Calls `listener` after a container came, changed or went. Dispose what is returned to end it. */
  onContainer(listener: () => void): Disposable {
    return this.#source.subscribe(() => listener());
  }

  [Symbol.dispose](): void {
    this.#containers[Symbol.dispose]();
  }
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
