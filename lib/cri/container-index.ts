/**
 * Which container a process is in, by what the kernel says of it.
 *
 * Each container has a mount namespace of its own, and what `kubectl exec` starts in it is in the same. A process that makes
 * itself another one stays in the cgroup (version 2) of the container; on nodes with cgroup version 1 nothing tells then.
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
  /** When its first process was started, on a clock that nobody sets; what was done before is not its own. */
  readonly startedMs?: number | undefined;
}

/** `host`: none, a process of the node; `unknown`: a mount namespace and cgroup of which no container is known. */
type NoContainer = 'host' | 'unknown';

interface Entry<V> {
  readonly value: V;
  readonly place: KernelPlace;
}

/** Containers that are gone, of which changes and accesses may still be told: those of some seconds. */
const mostGone = 256;

/** The kernel tells the start of a process in steps of 10 ms. */
const startedToMs = 20;

/** The containers of a kernel by what its processes have. Holds memory only. */
export class ContainerIndex<V extends object> {
  readonly #hostMountNamespace: number;
  readonly #valueOf: (container: IndexedContainer) => V;
  readonly #byId = new Map<string, Entry<V>>();
  readonly #byMountNamespace = new Map<number, Entry<V>>();
  readonly #byCgroup = new Map<bigint, Entry<V>>();
  /** By the mount namespace, the latest last. */
  readonly #gone = new Map<number, Entry<V> & { readonly goneMs: number }>();

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

  /** @param goneMs - When it was seen to be gone, on a clock that nobody sets: what was done before that is still its own. Default: nothing is. */
  delete(id: string, goneMs?: number): void {
    const entry = this.#byId.get(id);
    if (entry === undefined) return;
    const { mountNamespace, cgroupId } = entry.place;
    this.#byId.delete(id);
    // The kernel may have given the number to a newer container already.
    if (mountNamespace !== undefined && this.#byMountNamespace.get(mountNamespace) === entry) {
      this.#byMountNamespace.delete(mountNamespace);
      if (goneMs !== undefined) this.#remember(mountNamespace, { ...entry, goneMs });
    }
    if (cgroupId !== undefined && this.#byCgroup.get(cgroupId) === entry) this.#byCgroup.delete(cgroupId);
  }

  /**
   * The container of a process.
   *
   * @param atMs - When the process did what is told of it, on the clock of `goneMs`, to the millisecond; default: it is there now.
   */
  find(
    process: { readonly mountNamespace: number; readonly cgroupId: bigint },
    atMs?: number,
  ): V | NoContainer {
    const { mountNamespace, cgroupId } = process;
    const there = this.#byMountNamespace.get(mountNamespace);
    const entry = there && hadBegun(there.place, atMs) ? there : this.#byCgroup.get(cgroupId);
    if (entry !== undefined) return entry.value;
    if (mountNamespace === this.#hostMountNamespace) return 'host';
    return this.#ofGone(process, atMs) ?? 'unknown';
  }

  #ofGone(
    process: { readonly mountNamespace: number; readonly cgroupId: bigint },
    atMs: number | undefined,
  ): V | undefined {
    const gone = this.#gone.get(process.mountNamespace);
    if (gone === undefined || atMs === undefined || atMs > gone.goneMs + 1) return undefined;
    if (!hadBegun(gone.place, atMs)) return undefined;
    // The kernel gives the number of a mount namespace again at once, that of a cgroup never.
    const { cgroupId = process.cgroupId } = gone.place;
    return cgroupId === process.cgroupId ? gone.value : undefined;
  }

  #remember(mountNamespace: number, gone: Entry<V> & { readonly goneMs: number }): void {
    this.#gone.delete(mountNamespace);
    this.#gone.set(mountNamespace, gone);
    const [first] = this.#gone.keys();
    if (this.#gone.size > mostGone && first !== undefined) this.#gone.delete(first);
  }
}

/** The number of a mount namespace may have been another's before. */
function hadBegun({ startedMs }: KernelPlace, atMs: number | undefined): boolean {
  return startedMs === undefined || atMs === undefined || atMs >= startedMs - startedToMs;
}
