/** The containers of this node, from the watch of the container runtime; in tests, from directories. */

import type { IndexedContainer } from './container-index.ts';

/** A container that runs, of whichever kind: init containers and ephemeral ones too. */
export interface SourceContainer {
  /** With its runtime: `containerd://da9e46...`. */
  readonly id: string;
  readonly name: string;
  readonly podName: string;
  readonly podNamespace: string;
  /** As the runtime has it: of a static pod it is not the one in the API. */
  readonly podUid: string;
  /** Empty while it has none. */
  readonly podIp: string;
  /** Its first process, in the agent's pid namespace. */
  readonly pid: number;
  /** The directory that is its `/`: `/proc/PID/root`. */
  readonly root: string;
}

/** The current containers, and changes. The owner of the source disposes it, not its readers. */
export interface ContainerSource {
  /** Resolves when the first answer of the runtime is in. */
  readonly synced: Promise<void>;
  /**
   * Why there is nothing to list, on a machine that may have no runtime: it was asked for, and has never answered. Undefined: there is
   * one, even if it does not answer now.
   */
  readonly absence?: string | undefined;
  list(): Iterable<SourceContainer>;
  get(id: string): SourceContainer | undefined;
  /** Finds containers that have not started yet or have ended, too. */
  reported(id: string): IndexedContainer | undefined;
  /** Calls the listener with the id of each container that was added, changed or removed, until the result is disposed. */
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
