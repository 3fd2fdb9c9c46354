/**
 * Which container a process is in, by what the kernel says of it.
 *
 * Each container has a mount namespace of its own, and what `kubectl exec` starts in it is in the same. A process that makes
 * itself another one stays in the cgroup (version 2) of the container; on nodes with cgroup version 1 nothing tells then.
 *
 * @module
 */

/** A container as findings name it. */
export interface IndexedContainer {
  readonly id: string;
  readonly name: string;
  readonly podName: string;
  readonly podNamespace: string;
}

/** What the kernel knows a container by. */
export interface KernelPlace {
  /** The inode number of `/proc/PID/ns/mnt`. */
  readonly mountNamespace?: number | undefined;
  /** The inode number of the directory in the cgroup2 filesystem. */
  readonly cgroupId?: bigint | undefined;
}

/** `host`: none, a process of the node; `unknown`: a mount namespace and cgroup of which no container is known. */
export type NoContainer = 'host' | 'unknown';

interface Entry<V> {
  readonly value: V;
  readonly place: KernelPlace;
}

/** The containers of a kernel by what its processes have. Holds memory only. */
export class ContainerIndex<V extends object> {
  readonly #hostMountNamespace: number;
  readonly #valueOf: (container: IndexedContainer) => V;
  readonly #byId = new Map<string, Entry<V>>();
  readonly #byMountNamespace = new Map<number, Entry<V>>();
  readonly #byCgroup = new Map<bigint, Entry<V>>();

  /**
   * @param hostMountNamespace - The inode number of `/proc/1/ns/mnt` of the node.
   * @param valueOf - What {@link find} is to give for a container; made once for each.
   */
  constructor(hostMountNamespace: number, valueOf: (container: IndexedContainer) => V) {
    this.#hostMountNamespace = hostMountNamespace;
    this.#valueOf = valueOf;
  }

  set(container: IndexedContainer, place: KernelPlace): void {
    this.delete(container.id);
    const entry = { value: this.#valueOf(container), place };
    this.#byId.set(container.id, entry);
    if (place.mountNamespace !== undefined) this.#byMountNamespace.set(place.mountNamespace, entry);
    if (place.cgroupId !== undefined) this.#byCgroup.set(place.cgroupId, entry);
  }

  delete(id: string): void {
    const entry = this.#byId.get(id);
    if (entry === undefined) return;
    const { mountNamespace, cgroupId } = entry.place;
    this.#byId.delete(id);
    // The kernel may have given the number to a newer container already.
    if (mountNamespace !== undefined && this.#byMountNamespace.get(mountNamespace) === entry) {
      this.#byMountNamespace.delete(mountNamespace);
    }
    if (cgroupId !== undefined && this.#byCgroup.get(cgroupId) === entry) this.#byCgroup.delete(cgroupId);
  }

  /** The container of a process that is there. */
  find(process: { readonly mountNamespace: number; readonly cgroupId: bigint }): V | NoContainer {
    const entry = this.#byMountNamespace.get(process.mountNamespace) ?? this.#byCgroup.get(process.cgroupId);
    if (entry !== undefined) return entry.value;
    return process.mountNamespace === this.#hostMountNamespace ? 'host' : 'unknown';
  }
}
