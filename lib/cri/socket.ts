import { statSync } from 'node:fs';

import { errorCodes, RampartError } from '../errors/errors.ts';

/** The usual socket paths, in the order in which they are tried. A machine normally has only one of them. */
export const usualSockets: readonly string[] = [
  '/run/containerd/containerd.sock',
  '/run/crio/crio.sock',
  '/run/k3s/containerd/containerd.sock',
  '/var/snap/microk8s/common/run/containerd.sock',
  '/run/k0s/containerd.sock',
];

/**
 * The first of `candidates` that is a socket, or a link to one. Does not check that a server listens there: a runtime may
 * start later.
 *
 * @throws {RampartError} `RUNTIME_UNREACHABLE` with the paths that were tried.
 */
export function findSocket(candidates: readonly string[] = usualSockets): string {
  for (const path of candidates) {
    if (statSync(path, { throwIfNoEntry: false })?.isSocket() === true) return path;
  }
  throw new RampartError(errorCodes.RUNTIME_UNREACHABLE, {
    what: 'no container runtime found',
    why: `none of these is a socket: ${candidates.join(', ')}`,
    next: 'Start containerd or CRI-O, or name the socket',
  });
}

/** @param endpoint - A path with or without `unix://`, as for kubelet. @throws {RampartError} `INPUT` for a relative path. */
export function socketPathOf(endpoint: string): string {
  const path = endpoint.startsWith('unix://') ? endpoint.slice('unix://'.length) : endpoint;
  if (path.startsWith('/')) return path;
  throw new RampartError(errorCodes.INPUT, {
    what: `container runtime at ${JSON.stringify(endpoint)}`,
    why: 'it is not the absolute path of a unix socket',
    next: `For example ${usualSockets[0] ?? ''}`,
  });
}
