/** The containers of this node, from the watch of the container runtime; in tests, from directories. */

import type { IndexedContainer } from './container-index.ts';

/** A running container of any kind, including init and ephemeral containers. */
export interface SourceContainer {
  /** The ID with the runtime: `containerd://da9e46...`. */
  readonly id: string;
  readonly name: string;
  readonly podName: string;
  readonly podNamespace: string;
  /** The pod's UID in the runtime, which for a static pod differs from that in the API. */
  readonly podUid: string;
  /** '' as long as the pod has no address. */
  readonly podIp: string;
  /** PID of its first process, in the agent's PID namespace. */
  readonly pid: number;
  /** Its root directory: `/proc/PID/root`. */
  readonly root: string;
}

/** The current containers and their changes. Its owner disposes it, not its readers. */
export interface ContainerSource {
  /** Resolves when the runtime has given its first answer. */
  readonly synced: Promise<void>;
  /**
   * Why a machine that may have no runtime seems to have none: it was queried, and has never answered. Undefined if there is
   * a runtime, even if it does not answer now.
   */
  readonly absence?: string | undefined;
  list(): Iterable<SourceContainer>;
  get(id: string): SourceContainer | undefined;
  /** Finds a container in any state, even if it has not started yet or has ended. */
  reported(id: string): IndexedContainer | undefined;
  /** Calls the listener with the ID of each container that was added, changed or removed, until the result is disposed. */
  subscribe(listener: (id: string) => void): Disposable;
}

/** For a machine whose containers are not queried. */
export const noContainers: ContainerSource = {
  synced: Promise.resolve(),
  list: () => [],
  get: () => undefined,
  reported: () => undefined,
  subscribe: () => ({ [Symbol.dispose]: () => undefined }),
};
