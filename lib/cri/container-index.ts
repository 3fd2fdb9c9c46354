/**
 * Finds where a process is by the kernel's facts about it: in a container, or on the node itself.
 *
 * The path of the process's cgroup contains the ID of the container from the start, even if the process later changes its
 * mount namespace. A process that enters a container's mount namespace from outside (nsenter) also counts as in that
 * container.
 */
import { type CgroupPlace, cgroupPlace } from './cgroup-place.ts';

/** A container, as named in findings. */
export interface IndexedContainer {
  /** The ID with the runtime: `containerd://da9e46...`. */
  readonly id: string;
  readonly name: string;
  readonly podName: string;
  readonly podNamespace: string;
}

export type ProcessPlace =
  /** In a container that the runtime has reported. */
  | ({ readonly relation: 'container' } & IndexedContainer)
  | {
      readonly relation: 'host';
      /** The systemd unit: `system.slice/cron.service`. */
      readonly unit: string | undefined;
      /** Whether the process is in another mount namespace than the node's. */
      readonly hasOwnMounts: boolean;
    }
  /** In a container, by its cgroup, that no runtime has reported. `id` is undefined if the cgroup does not contain one. */
  | { readonly relation: 'unknown'; readonly id: string | undefined };

/** The kernel's facts about a process. */
export interface KernelProcess {
  /** The inode number of `/proc/PID/ns/mnt`. */
  readonly mountNamespace: number;
  /** The path from the root of the hierarchy, which is `/`; '' if unknown. */
  readonly cgroup: string;
}

/** How the kernel identifies a container, apart from its cgroup. */
export interface KernelPlace {
  readonly mountNamespace?: number | undefined;
  /**
   * When its first process was started, on a monotonic clock. Earlier actions are not attributed to this container.
   */
  readonly startedMs?: number | undefined;
}

interface Entry<V> {
  readonly value: V;
  readonly place: KernelPlace;
}

/** Limit of ended containers that are remembered, because events from their last seconds may still arrive. */
const maxGone = 256;
const maxPaths = 4096;
const maxElsewhere = 1024;

/** Tolerance: the kernel gives the start time of a process in steps of 10 ms. */
const startedToMs = 20;

/** The containers on one kernel. Holds only memory. */
export class ContainerIndex<V> {
  readonly #hostMountNamespace: number;
  readonly #valueOf: (place: ProcessPlace) => V;
  /** Keyed by the ID without the runtime, as in cgroups. */
  readonly #byId = new Map<string, Entry<V>>();
  readonly #byMountNamespace = new Map<number, Entry<V>>();
  /** Ended containers, keyed by ID, the latest last. */
  readonly #gone = new Map<string, V>();
  readonly #paths = new Map<string, CgroupPlace>();
  /** Results for processes that are in no known container. */
  readonly #elsewhere = new Map<string, V>();

  /**
   * @param hostMountNamespace - The inode number of `/proc/1/ns/mnt` of the node.
   * @param valueOf - Makes the result of {@link find} for a place; called once for each place.
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

  /** Removes an ended container. For a while, its late events are still attributed by its cgroup: IDs are never reused. */
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
    // The kernel may already have reused the number for a newer container.
    if (mountNamespace !== undefined && this.#byMountNamespace.get(mountNamespace) === entry)
      this.#byMountNamespace.delete(mountNamespace);
    return entry;
  }

  /**
   * Where a process is: the value that `valueOf` made for the place.
   *
   * @param atMs - Time of the process's action, on the clock of `startedMs`; default: now.
   */
  find({ mountNamespace, cgroup }: KernelProcess, atMs?: number): V {
    const { containers, unit, isPod } = this.#placeOf(cgroup);
    for (const id of containers) {
      const known = this.#byId.get(id)?.value ?? this.#gone.get(id);
      if (known !== undefined) return known;
    }
    // Only for a process outside the cgroups of containers: if one in an unknown container has a known namespace number, that was reused.
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

/** Whether the container existed at that time; before, its mount namespace number may have belonged to another one. */
function hadStarted({ startedMs }: KernelPlace, atMs: number | undefined): boolean {
  return startedMs === undefined || atMs === undefined || atMs >= startedMs - startedToMs;
}
