/**
 * The volumes of pods: each is a separate bpffs with maps of one program or application, mounted where the kubelet requests it.
 *
 * Everything here is synchronous, so that no two calls for a volume overlap.
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

/** A request of the kubelet to mount a volume. */
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
  /** Where the agent of this node keeps its programs. */
  readonly place: ReadOptions;
  /** A directory on tmpfs for the records of mounted volumes. */
  readonly directory: string;
  /** The mount namespace of the node: the kubelet sees mounts made in it. */
  readonly mountNamespace: MountNamespace;
  /** Absolute, without a slash at the end. */
  readonly kubeletDirectory: string;
  /** Namespaces whose pods may use maps of cluster-scoped programs. */
  readonly clusterNamespaces: readonly string[];
  readonly logger: Logger;
}

/**
 * The only directory of a volume's bpffs that pods see: the kernel puts lists of all programs and maps of the node into the root
 * (CONFIG_BPF_PRELOAD), where they cannot be removed.
 */
const TOP = 'maps';
/** The name under which a map's replacement is pinned before it is renamed; no map can have this name. */
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

  /** The number of mounted volumes. */
  get size(): number {
    return this.#records.all.length;
  }

  /**
   * Mounts a volume, unless it is already mounted.
   *
   * @throws {GrpcError} `INVALID_ARGUMENT`, `ALREADY_EXISTS` if the volume is mounted with other attributes, and as {@link findMaps}.
   * @throws {RampartError} if the kernel refuses.
   */
  publish({ targetPath, uid, ...request }: PublishRequest): void {
    const place = this.#targetOf(targetPath);
    // The kubelet puts the pod's uid into the path and into the attributes. Without podInfoOnMount, the author of the pod could set the
    // attributes, and so choose the namespace, but does not know the uid.
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

  /** Unmounts a volume if it is mounted, and removes its directory. @throws as {@link publish} */
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

  /** Pins the maps of the running versions in volumes whose programs were replaced. */
  refresh(): void {
    for (const volume of this.#records.all) {
      try {
        this.#refresh(volume);
      } catch (error) {
        // The program is no longer loaded: the volume keeps its maps.
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
      // The volume is no longer mounted, and the kubelet does not unmount it again.
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
      // A mount of an earlier attempt, or of bpfman's driver with the same name.
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

  /** @throws {GrpcError} `INVALID_ARGUMENT` for a path outside the kubelet's volumes. */
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
   * Runs `work` in the mount namespace of the node. `path` names the target through its open parent directory, which was reached without
   * following links; `open` opens the target, or a file in it. Undefined if the parent directory does not exist.
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
  /** Relative to the kubelet's directory. */
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

/** The path of a file through an open directory: it stays valid even if the directory's own path changes. */
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
