/** The network namespaces of the node in which interfaces are discovered, and the interfaces in them. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

import { SystemCallError } from '../../../lib/ebpf/libc.ts';
import { interfaceNames } from '../../../lib/netlink/interface.ts';
import { RouteSocket } from '../../../lib/netlink/route.ts';
import type { DiscoveredNetwork } from '../engine/interface-discovery.ts';
import type { ContainerPlace } from '../kernel/desired.ts';
import { ProgramFailure } from '../kernel/failure.ts';
import { NetworkPlace } from '../kernel/place/network-place.ts';

const DIRECTORY = 'run/netns';

/** The node's own network namespace, and the named ones; each only once, even if it has several names. */
export function networksOf(hostRoot: string): DiscoveredNetwork[] {
  using own = NetworkPlace.own();
  const seen = new Set([own.inode]);
  const named = namesIn(join(hostRoot, DIRECTORY)).flatMap((path): DiscoveredNetwork[] => {
    const found = unlessGone(() => {
      using network = NetworkPlace.at(path);
      if (seen.has(network.inode)) return undefined;
      seen.add(network.inode);
      return namesOf(network);
    });
    return found === undefined ? [] : [{ path, interfaces: found }];
  });
  return [{ path: undefined, interfaces: namesOf(own) }, ...named];
}

/** The interfaces in a container's network namespace; empty if the namespace is gone. */
export function interfacesIn(container: ContainerPlace): string[] {
  const found = unlessGone(() => {
    using network = NetworkPlace.of({ container });
    return namesOf(network);
  });
  return found ?? [];
}

function namesOf(network: NetworkPlace): string[] {
  return network.visit(() => {
    using socket = new RouteSocket();
    return interfaceNames(socket);
  });
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory)
      .toSorted()
      .map((name) => join(directory, name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** Undefined if a namespace disappeared between listing and opening, or only its name is left. */
function unlessGone<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof ProgramFailure || error instanceof SystemCallError) return undefined;
    throw error;
  }
}
