/** The facts about the node that the engine needs. */
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
  /** Inode of its network namespace; undefined if it cannot be determined: then `problem` says why. */
  readonly network: bigint | undefined;
  /** Whether it is in the network namespace of the node itself. */
  readonly hostNetwork: boolean;
  readonly problem?: string;
}

export interface PrimaryInterface {
  readonly name: string;
  /** A phrase for people: `eth0 is the primary interface: it has 10.0.0.5, an InternalIP of the Node`. */
  readonly why: string;
}

/** The known facts about the node. */
export interface NodeView {
  readonly name: string;
  readonly primaryInterface: () => PrimaryInterface | undefined;
  /** The node's own network namespace first, and those that have a name. */
  readonly networks: () => readonly DiscoveredNetwork[];
  /** Interfaces in the container's network namespace; empty if that is gone. */
  readonly interfacesIn: (container: ContainerPlace) => readonly string[];
  /** In an order that is stable while they run. @throws {SelectorError} */
  readonly select: (parent: Parent, selector: ContainerSelector) => readonly SelectedContainer[];
}
