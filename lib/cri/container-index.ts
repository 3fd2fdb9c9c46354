/**
 * Where a process is, by what the kernel says of it: in a container, or on the node itself.
 *
 * The path of the process's cgroup has the id of the container from the first moment on, and keeps it whatever
 * mounts the process makes its own. A process that enters a container's mount namespace from outside (nsenter)
 * counts as in that container, too.
 */
import { type CgroupPlace, cgroupPlace } from './cgroup-place.ts';

/** A container as findings name it. */
export interface IndexedContainer {
  /** With its runtime: `containerd://da9e46...`. */
  readonly id: string;
  readonly name: string;
  readonly podName: string;
  readonly podNamespace: string;
}

export type ProcessPlace =
  /** As reported by a container runtime. */
  | ({ readonly relation: 'container' } & IndexedContainer)
  | {
      readonly relation: 'host';
      /** The unit of systemd: `system.slice/cron.service`. */
      readonly unit: string | undefined;
      /** In a mount namespace that is not that of the node. */
      readonly hasOwnMounts: boolean;
    }
  /** In a container by its cgroup, but no runtime has reported it; without an id if the cgroup has none. */
  | { readonly relation: 'unknown'; readonly id: string | undefined };

/** The kernel's facts about a process. */
export interface KernelProcess {
  /** The inode number of `/proc/PID/ns/mnt`. */
  readonly mountNamespace: number;
  /** From the root of its hierarchy: `/` for the root; empty if it is not known. */
  readonly cgroup: string;
}

/** How the kernel identifies a container, besides by its cgroup. */
export interface KernelPlace {
  readonly mountNamespace?: number | undefined;
  /**
   * When its first process was started, on a monotonic clock; anything before that was not done by this
   * container.
   */
  readonly startedMs?: number | undefined;
}

interface Entry<V> {
  readonly value: V;
  readonly place: KernelPlace;
}

/** How many ended containers are remembered: changes and accesses of their last seconds may still arrive. */
const maxGone = 256;
const maxPaths = 4096;
const maxElsewhere = 1024;

/** The kernel gives the start time of a process in steps of 10 ms. */
const startedToMs = 20;

/** The containers of a kernel. Holds memory only. */
export class ContainerIndex<V> {
  readonly #hostMountNamespace: number;
  readonly #valueOf: (place: ProcessPlace) => V;
  /** Keyed by the id without its runtime, as cgroups have it. */
  readonly #byId = new Map<string, Entry<V>>();
  readonly #byMountNamespace = new Map<number, Entry<V>>();
  /** The latest last. */
  readonly #gone = new Map<string, V>();
  readonly #paths = new Map<string, CgroupPlace>();
  /** Places of processes in no known container. */
  readonly #elsewhere = new Map<string, V>();

  /**
   * @param hostMountNamespace - The inode number of `/proc/1/ns/mnt` of the node.
   * @param valueOf - Makes the result of {@link find} for a place, once for each place.
   */
  constructor(hostMountNamespace: number, valueOf: (place: ProcessPlace) => V) {
    this.#hostMountNamespace = hostMountNamespace;
    this.#valueOf = valueOf;
  }

  set(container: IndexedContainer, place: KernelPlace = {}): void {
    const { id, name, podName, podNamespace } = container;
    this.#remove(bareId(id));
    const value = this.#valueOf({ relation: 'container', id, name, podName, podNamespace });
    const entry = { value, place };
    this.#byId.set(bareId(id), entry);
    if (place.mountNamespace !== undefined) this.#byMountNamespace.set(place.mountNamespace, entry);
  }

  /** Earlier events of the container are still attributed by its cgroup for a while: ids are never reused. */
  delete(containerId: string): void {
    const id = bareId(containerId);
    const entry = this.#remove(id);
    if (entry === undefined) return;
    this.#gone.delete(id);
    forgetFirst(this.#gone, maxGone);
    this.#gone.set(id, entry.value);
  }

  #remove(id: string): Entry<V> | undefined {
    const entry = this.#byId.get(id);
    const mountNamespace = entry?.place.mountNamespace;
    this.#byId.delete(id);
    // The kernel may have given the number to a newer container already.
    if (mountNamespace !== undefined && this.#byMountNamespace.get(mountNamespace) === entry)
      this.#byMountNamespace.delete(mountNamespace);
    return entry;
  }

  /**
   * Where a process is, as `valueOf` made it.
   *
   * @param atMs - Time of the process's action, on the clock of `startedMs`; default: now.
   */
  find({ mountNamespace, cgroup }: KernelProcess, atMs?: number): V {
    const { containers, unit, isPod } = this.#placeOf(cgroup);
    for (const id of containers) {
      const known = this.#byId.get(id)?.value ?? this.#gone.get(id);
      if (known !== undefined) return known;
    }
    // A process in another container has not entered this one: the namespace number may have been reused.
    const entered = containers.length > 0 ? undefined : this.#byMountNamespace.get(mountNamespace);
    if (entered !== undefined && hadStarted(entered.place, atMs)) return entered.value;
    const isHost = mountNamespace === this.#hostMountNamespace;
    const id = containers.at(-1);
    if (!isHost && (id !== undefined || isPod || cgroup === ''))
      return this.#other(`?${id ?? ''}`, { relation: 'unknown', id });
    return this.#other(`${isHost ? '' : '*'}${unit ?? ''}`, {
      relation: 'host',
      unit,
      hasOwnMounts: !isHost,
    });
  }

  #placeOf(cgroup: string): CgroupPlace {
    let place = this.#paths.get(cgroup);
    if (place === undefined) {
      place = cgroupPlace(cgroup);
      forgetFirst(this.#paths, maxPaths);
      this.#paths.set(cgroup, place);
    }
    return place;
  }

  #other(key: string, place: ProcessPlace): V {
    let value = this.#elsewhere.get(key);
    if (value === undefined) {
      value = this.#valueOf(place);
      forgetFirst(this.#elsewhere, maxElsewhere);
      this.#elsewhere.set(key, value);
    }
    return value;
  }
}

function bareId(id: string): string {
  return id.slice(id.lastIndexOf('/') + 1);
}

function forgetFirst(map: Map<string, unknown>, max: number): void {
  if (map.size < max) return;
  const [first = ''] = map.keys();
  map.delete(first);
}

/** The numbers of mount namespaces are reused. */
function hadStarted({ startedMs }: KernelPlace, atMs: number | undefined): boolean {
  return startedMs === undefined || atMs === undefined || atMs >= startedMs - startedToMs;
}
