/** What the engine needs to know about the node. */
import type { ContainerSelector } from '../spec-schema.ts';
import type { ContainerPlace } from '../kernel/desired.ts';
import type { DiscoveredNetwork } from './interface-discovery.ts';
import type { Parent } from './parent.ts';

/** A container that a selector has selected. */
export interface SelectedContainer {
  readonly namespace: string;
  readonly podName: string;
  readonly name: string;
  readonly place: ContainerPlace;
  /** Inode of its network namespace; undefined if that cannot be determined: `problem` says why. */
  readonly network: bigint | undefined;
  /** Whether it is in the network namespace of the node itself. */
  readonly hostNetwork: boolean;
  readonly problem?: string;
}

export interface PrimaryInterface {
  readonly name: string;
  /** A phrase for users: `eth0 is the primary interface: it has 10.0.0.5, an InternalIP of the Node`. */
  readonly why: string;
}

/** What is known about the node. */
export interface NodeView {
  readonly name: string;
  readonly primaryInterface: () => PrimaryInterface | undefined;
  /** The node's network namespaces: its own first, then those with a name. */
  readonly networks: () => readonly DiscoveredNetwork[];
  /** The names of interfaces in a container's network namespace; empty if the namespace is gone. */
  readonly interfacesIn: (container: ContainerPlace) => readonly string[];
  /** The selected containers; their order is stable while they run. @throws {SelectorError} */
  readonly select: (parent: Parent, selector: ContainerSelector) => readonly SelectedContainer[];
}
