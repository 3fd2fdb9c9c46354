/** Which maps a pod's volume has: those of a program or application, selected by name. */
import { join } from 'node:path';

import { GrpcError, grpcStatus } from '../../../lib/grpc/status.ts';
import { type Kept, readKept, type ReadOptions } from '../kernel/running/kept.ts';
import type { ProgramRecord } from '../kernel/records.ts';

/** The maps that a volume requests. */
export interface VolumeMaps {
  /** Namespace of the pod. */
  readonly namespace: string;
  readonly pod: string;
  /** The name of the object that requested the programs. */
  readonly program: string;
  /** The names in C. */
  readonly maps: readonly string[];
}

export interface PinnedMap {
  readonly name: string;
  /** The kernel's ID of the map. */
  readonly id: number;
  /** The path in the node's bpffs. */
  readonly path: string;
}

/**
 * Whether pods of a namespace may have maps of cluster-scoped programs: whoever may create a pod there can then read and change them.
 *
 * @param allowed - Names of namespaces; `*` stands for all.
 */
export function mayUseClusterMaps(namespace: string, allowed: readonly string[]): boolean {
  return allowed.includes('*') || allowed.includes(namespace);
}

/**
 * The maps of programs in the pod's namespace or, if there is no such program and the namespace may use them, of cluster-scoped programs.
 *
 * @throws {GrpcError} `NOT_FOUND` if no such program runs, or it has no such map; the kubelet tries again. `FAILED_PRECONDITION` if several
 * maps have the same name.
 */
export function findMaps(
  place: ReadOptions,
  wanted: VolumeMaps,
  clusterNamespaces: readonly string[],
): readonly PinnedMap[] {
  const kept = readKept(place);
  const programs = programsOf(kept, wanted, mayUseClusterMaps(wanted.namespace, clusterNamespaces));
  return wanted.maps.map((name) => mapNamed(kept, programs, wanted, name));
}

function programsOf(
  { programs }: Kept,
  { namespace, program }: VolumeMaps,
  mayUseCluster: boolean,
): readonly ProgramRecord[] {
  const named = [...programs.values()].filter(({ name }) => name === program);
  const own = named.filter((one) => one.namespace === namespace);
  if (own.length > 0) return own;
  const ofCluster = mayUseCluster ? named.filter((one) => one.namespace === undefined) : [];
  if (ofCluster.length > 0) return ofCluster;
  const others = mayUseCluster
    ? ', nor a cluster-scoped one'
    : `. Maps of cluster-scoped programs are for pods of the namespaces in --bpf-csi-namespaces, and ${namespace} is not one of them`;
  throw new GrpcError(
    grpcStatus.NOT_FOUND,
    `no program of an object ${program} of namespace ${namespace} is loaded on this node${others}`,
  );
}

function mapNamed(
  { pins }: Kept,
  programs: readonly ProgramRecord[],
  { namespace, pod }: VolumeMaps,
  wanted: string,
): PinnedMap {
  const found = programs.flatMap((record) =>
    record.maps
      .filter(({ name }) => name === wanted)
      .map(({ id, pin }) => ({ record, id, path: join(pins.program(record), 'maps', pin) })),
  );
  // In v0.5.5, an object has separate maps in each pod that it selects.
  const inPod = found.filter(({ record }) => record.pod === `${namespace}/${pod}`);
  const candidates = inPod.length > 0 ? inPod : found;
  const [first] = candidates;
  const owners = [...new Set(candidates.map(({ record }) => record.owner))].join(', ');
  if (first === undefined) {
    const has = [...new Set(programs.flatMap(({ maps }) => maps.map(({ name }) => name)))].toSorted();
    const all = [...new Set(programs.map(({ owner }) => owner))].join(', ');
    throw new GrpcError(
      grpcStatus.NOT_FOUND,
      `${all} has no map ${wanted} on this node. It has: ${has.join(', ') || 'none'}`,
    );
  }
  const ids = new Set(candidates.map(({ id }) => id));
  if (ids.size > 1)
    throw new GrpcError(
      grpcStatus.FAILED_PRECONDITION,
      `${owners} has ${ids.size} maps ${wanted} on this node, one for each place where it is attached: use an application, whose programs share their maps`,
    );
  return { name: wanted, id: first.id, path: first.path };
}
