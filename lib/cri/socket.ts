import { statSync } from 'node:fs';

import { errorCodes, RampartError } from '../errors/errors.ts';

/** The usual places, in the order in which they are tried. A machine has one of them. */
export const usualSockets: readonly string[] = [
  '/run/containerd/containerd.sock',
  '/run/crio/crio.sock',
  '/run/k3s/containerd/containerd.sock',
  '/var/snap/microk8s/common/run/containerd.sock',
  '/run/k0s/containerd.sock',
];

/**
 * The first of `candidates` that is a socket, or a link to one. Whether a server listens there is not
 * checked: a runtime may start later.
 *
 * @throws {RampartError} `RUNTIME_UNREACHABLE` with the places that were tried.
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

/** With or without `unix://`, as kubelet takes it. @throws {RampartError} `INPUT` for a relative path. */
export function socketPathOf(endpoint: string): string {
  const path = endpoint.startsWith('unix://') ? endpoint.slice('unix://'.length) : endpoint;
  if (path.startsWith('/')) return path;
  throw new RampartError(errorCodes.INPUT, {
    what: `container runtime at ${JSON.stringify(endpoint)}`,
    why: 'it is not the absolute path of a unix socket',
    next: `For example ${usualSockets[0] ?? ''}`,
  });
}
