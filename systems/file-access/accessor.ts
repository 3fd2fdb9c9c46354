/**
 * Which container an access came from.
 *
 * A record of the sensor has the mount namespace and the cgroup (version 2) of the process. Each container has a mount
 * namespace of its own, and what `kubectl exec` starts in it is in the same. A process that makes itself another one
 * stays in the cgroup of the container; on nodes with cgroup version 1 nothing tells then.
 *
 * @module
 */
import type { Access } from '../../shared/sensor/access.ts';
import type { AlertAccessor } from './alert.ts';

/** A container as alerts name it. */
export interface AccessorContainer {
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

interface Entry {
  readonly id: string;
  readonly place: KernelPlace;
  /** The JSON of the accessor, when the file is the container's own and when it is not. */
  readonly asOwner: string;
  readonly asOther: string;
}

const nobody = { pod: { name: '', namespace: '' }, container: { id: '', name: '' } };
const json = (accessor: AlertAccessor): string => JSON.stringify(accessor);
const host = json({ relation: 'host', ...nobody });
const unknown = json({ relation: 'unknown', ...nobody });

/** The containers of a kernel by what its records have. */
export class AccessorIndex {
  readonly #hostMountNamespace: number;
  readonly #byId = new Map<string, Entry>();
  readonly #byMountNamespace = new Map<number, Entry>();
  readonly #byCgroup = new Map<bigint, Entry>();

  /** @param hostMountNamespace - The inode number of `/proc/1/ns/mnt` of the node. */
  constructor(hostMountNamespace: number) {
    this.#hostMountNamespace = hostMountNamespace;
  }

  set({ id, name, podName, podNamespace }: AccessorContainer, place: KernelPlace): void {
    this.delete(id);
    const who = { pod: { name: podName, namespace: podNamespace }, container: { id, name } };
    const entry: Entry = {
      id,
      place,
      asOwner: json({ relation: 'owner', ...who }),
      asOther: json({ relation: 'container', ...who }),
    };
    this.#byId.set(id, entry);
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

  /** The JSON of the {@link AlertAccessor} for an access to a file of the container `ownerId`. */
  jsonOf(access: Pick<Access, 'mountNamespace' | 'cgroupId'>, ownerId: string): string {
    const entry = this.#byMountNamespace.get(access.mountNamespace) ?? this.#byCgroup.get(access.cgroupId);
    if (entry !== undefined) return entry.id === ownerId ? entry.asOwner : entry.asOther;
    return access.mountNamespace === this.#hostMountNamespace ? host : unknown;
  }
}
