/**
 * The volumes of pods: each is a bpffs of its own with maps of one program or application, mounted where kubelet asks for it.
 *
 * Nothing here waits for anything, so that no two calls for a volume meet.
 */
import { chmodSync, chownSync, mkdirSync, renameSync, rmdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

import {
  AT_FDCWD,
  type Fd,
  openat2,
  openFlags,
  resolveFlags,
  SystemCallError,
} from '../../../lib/ebpf/libc.ts';
import {
  attachMount,
  cloneMount,
  createMount,
  type MountNamespace,
  setReadOnly,
  unmount,
} from '../../../lib/ebpf/mount.ts';
import { GrpcError, grpcStatus } from '../../../lib/grpc/status.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { isBpffs, openPin, pin, unpin } from '../kernel/pins/pin.ts';
import type { ReadOptions } from '../kernel/running/kept.ts';
import { findMaps, type PinnedMap, type VolumeMaps } from './volume-maps.ts';
import { type Volume, VolumeRecords } from './volume-records.ts';

/** A request of kubelet. */
export interface PublishRequest extends VolumeMaps {
  readonly volumeId: string;
  readonly targetPath: string;
  /** Uid of the pod. */
  readonly uid: string;
  readonly readOnly: boolean;
  /** fsGroup of the pod. */
  readonly group: number | undefined;
}

export interface VolumesOptions {
  /** Where the programs of this node are. */
  readonly place: ReadOptions;
  /** On tmpfs: holds the mounted volumes. */
  readonly directory: string;
  /** The namespace of the node: kubelet sees its mounts. */
  readonly mountNamespace: MountNamespace;
  /** Absolute, without a slash at its end. */
  readonly kubeletDirectory: string;
  /** Whose pods may have maps of cluster-scoped programs. */
  readonly clusterNamespaces: readonly string[];
  readonly logger: Logger;
}

/**
 * The part of a bpffs that pods see: in its root the kernel puts lists of all programs and maps of the node
 * (CONFIG_BPF_PRELOAD), which stay.
 */
const TOP = 'maps';
/** In the place of a map that is replaced; no map can have this name. */
const NEXT = 'rampart-next';
const directoryFlags = openFlags.PATH | openFlags.DIRECTORY;
const noLinks = resolveFlags.BENEATH | resolveFlags.NO_SYMLINKS | resolveFlags.NO_MAGICLINKS;

export class Volumes {
  readonly #options: VolumesOptions;
  readonly #records: VolumeRecords;

  constructor(options: VolumesOptions) {
    this.#options = options;
    this.#records = new VolumeRecords(options.directory);
  }

  /** How many are mounted. */
  get size(): number {
    return this.#records.all.length;
  }

  /**
   * Mounts a volume, unless it is mounted already.
   *
   * @throws {GrpcError} `INVALID_ARGUMENT`, `ALREADY_EXISTS` for a volume that is mounted with something else, and as {@link findMaps}.
   * @throws {RampartError} of the kernel.
   */
  publish({ targetPath, uid, ...request }: PublishRequest): void {
    const place = this.#targetOf(targetPath);
    // Kubelet writes both. If the CSIDriver does not have podInfoOnMount, the author of the pod chooses the namespace, but does not know this.
    if (place.uid !== uid)
      throw new GrpcError(
        grpcStatus.INVALID_ARGUMENT,
        'the target path is not that of the pod: the CSIDriver csi.bpfman.io must have podInfoOnMount: true',
      );
    const known = this.#records.get(request.volumeId);
    if (known !== undefined && this.#visit(place, (path) => isBpffs(path)) === true) {
      if (isSame(known, request, targetPath)) return;
      throw new GrpcError(
        grpcStatus.ALREADY_EXISTS,
        `volume ${request.volumeId} is mounted already, with ${known.maps.join(', ')} of ${known.program}`,
      );
    }
    const { place: programs, clusterNamespaces } = this.#options;
    const maps = findMaps(programs, request, clusterNamespaces);
    using mount = createMount('bpf');
    mkdirSync(at(mount, TOP));
    for (const map of maps) pinCopy(map, at(mount, TOP, map.name), request.group);
    own(at(mount, TOP), request.group, 0o750);
    if (request.readOnly) setReadOnly(mount, true);
    const volume = { ...request, targetPath, mapIds: maps.map(({ id }) => id) };
    // Recorded before it is mounted, so that mounts are known even after a crash.
    this.#records.put(volume);
    try {
      this.#mount(place, mount);
    } catch (error) {
      this.#records.drop(volume.volumeId);
      throw error;
    }
  }

  /** Unmounts a volume, if it is mounted, and removes the directory. @throws as {@link publish} */
  unpublish(volumeId: string, targetPath: string): void {
    this.#visit(this.#targetOf(targetPath), (path) => {
      while (isBpffs(path)) unmount(path);
      try {
        rmdirSync(path);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      }
    });
    this.#records.drop(volumeId);
  }

  /** Pins the maps of the running version, if a new version of a program has others. */
  refresh(): void {
    for (const volume of this.#records.all) {
      try {
        this.#refresh(volume);
      } catch (error) {
        // No longer loaded: the volume keeps its maps.
        if (error instanceof GrpcError) continue;
        this.#options.logger.error(
          { err: error, volume: volume.volumeId },
          'cannot renew the maps of a volume',
        );
      }
    }
  }

  #refresh(volume: Volume): void {
    const { place, clusterNamespaces, logger } = this.#options;
    const maps = findMaps(place, volume, clusterNamespaces);
    const changed = maps.filter(({ id }, index) => volume.mapIds[index] !== id);
    if (changed.length === 0) return;
    using root = this.#visit(this.#targetOf(volume.targetPath), (path, open) =>
      isBpffs(path) ? open() : undefined,
    );
    if (root === undefined) {
      // Kubelet does not unmount a volume that is gone.
      this.#records.drop(volume.volumeId);
      return;
    }
    if (volume.readOnly) setReadOnly(root, false);
    try {
      for (const map of changed) {
        unpin(at(root, NEXT));
        pinCopy(map, at(root, NEXT), volume.group);
        renameSync(at(root, NEXT), at(root, map.name));
      }
    } finally {
      if (volume.readOnly) setReadOnly(root, true);
    }
    this.#records.put({ ...volume, mapIds: maps.map(({ id }) => id) });
    const { namespace, pod } = volume;
    logger.info(
      { pod: `${namespace}/${pod}`, maps: changed.map(({ name }) => name) },
      'a volume has the maps of the new version',
    );
  }

  #mount(place: Target, mount: Fd): void {
    const exists = this.#visit(place, (path, open) => {
      // From an earlier attempt, or from the previous owner of this driver.
      while (isBpffs(path)) unmount(path);
      try {
        mkdirSync(path, { mode: 0o750 });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
      using directory = open();
      attachMount(mount, directory, place.path);
      using top = open(TOP);
      using maps = cloneMount(top);
      unmount(path, true);
      attachMount(maps, directory, place.path);
      return true;
    });
    if (exists !== true)
      throw new GrpcError(
        grpcStatus.FAILED_PRECONDITION,
        `there is no directory ${dirname(place.path)} on this node`,
      );
  }

  /** @throws {GrpcError} `INVALID_ARGUMENT` for a path that is not one of kubelet's volumes. */
  #targetOf(path: string): Target {
    const { kubeletDirectory } = this.#options;
    const below = path.startsWith(`${kubeletDirectory}/`) ? path.slice(kubeletDirectory.length + 1) : '';
    const [, uid] = /^pods\/([\w-]+)\/volumes\/kubernetes\.io~csi\/[\w-][\w.-]*\/mount$/.exec(below) ?? [];
    if (uid !== undefined) return { path, below, uid };
    throw new GrpcError(
      grpcStatus.INVALID_ARGUMENT,
      `${JSON.stringify(path)} is not a volume of a pod below ${kubeletDirectory}: --bpf-csi must name the directory of kubelet`,
    );
  }

  /**
   * Runs `work` in the mount namespace of the node, with the path of the target in its directory, to which no link on the way leads, and with
   * what opens the target itself, or what is in it. Undefined if that directory does not exist.
   */
  #visit<T>({ below }: Target, work: (path: string, open: (name?: string) => Fd) => T): T | undefined {
    const { mountNamespace, kubeletDirectory } = this.#options;
    return mountNamespace.visit(() => {
      using top = openat2(AT_FDCWD, kubeletDirectory, { flags: directoryFlags });
      const open = (path: string): Fd => openat2(top, path, { flags: directoryFlags, resolve: noLinks });
      try {
        using directory = open(dirname(below));
        return work(at(directory, basename(below)), (name = '.') => open(join(below, name)));
      } catch (error) {
        if (error instanceof SystemCallError && error.errno === 'ENOENT') return undefined;
        throw error;
      }
    });
  }
}

/** Where a volume is mounted. */
interface Target {
  readonly path: string;
  /** From the directory of kubelet. */
  readonly below: string;
  /** Uid of the pod. */
  readonly uid: string;
}

function isSame(
  known: Volume,
  request: Omit<PublishRequest, 'targetPath' | 'uid'>,
  targetPath: string,
): boolean {
  const text = ({
    namespace,
    program,
    maps,
    readOnly,
    group,
  }: Omit<Volume, 'mapIds' | 'targetPath'>): string =>
    JSON.stringify([namespace, program, maps.toSorted(), readOnly, group ?? null]);
  return known.targetPath === targetPath && text(known) === text(request);
}

/** A file of a directory that is open, whatever its path leads to by now. */
function at(directory: Fd, ...names: readonly string[]): string {
  return join(`/proc/self/fd/${directory.number}`, '.', ...names);
}

function pinCopy({ path, name }: PinnedMap, as: string, group: number | undefined): void {
  using map = openPin(path);
  if (map === undefined) throw new GrpcError(grpcStatus.NOT_FOUND, `map ${name} was removed`);
  pin(map.fd, as);
  own(as, group, group === undefined ? 0o600 : 0o660);
}

function own(path: string, group: number | undefined, mode: number): void {
  if (group !== undefined) chownSync(path, 0, group);
  chmodSync(path, mode);
}
