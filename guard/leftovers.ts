/** What a guard leaves behind in a cluster and on its nodes, for `rampart uninstall`. */
import type { KubeObject, ResourceType } from '../lib/kube/object/object.ts';

/**
 * @example
 * export const doorLeftovers = defineLeftovers({
 *   finalizers: [{ type: doorPolicyType, finalizers: ['doors.example.com/lock'] }],
 *   objects: [{ type: configMaps, labelSelector: 'app.kubernetes.io/managed-by=door-watch' }],
 *   cleanNode: async (_options, { hostRoot }) => (await removeLocks(hostRoot)).map((name) => `removed the lock ${name}`),
 * });
 */
export interface Leftovers<Options = unknown> {
  /** They are removed first: the API server calls them for other clients' writes. */
  readonly webhooks?: readonly ObjectSelection[];
  /** Finalizers on objects of the guard's kinds. Only the guard's processes remove them, so they do it when Rampart is being removed. */
  readonly finalizers?: readonly HeldKind[];
  /**
   * Objects that its processes create outside of the namespace that Rampart is deployed in, or that users
   * never write themselves.
   */
  readonly objects?: readonly ObjectSelection[];
  /** Namespaces that it creates. They may contain users' objects: those that do are kept. */
  readonly namespaces?: readonly ObjectSelection[];
  /**
   * Removes what it leaves in the kernel of this node. Its directory, and `directories`, are removed after it.
   *
   * @returns a line for each thing that was removed
   */
  readonly cleanNode?: (options: Options, node: NodePlace) => Promise<readonly string[]>;
  /** Directories to remove besides {@link Guard.directory}. */
  readonly directories?: (options: Options) => readonly string[];
}

interface NodePlace {
  readonly hostRoot: string;
  readonly signal: AbortSignal;
}

/** Objects of a kind; all of them without a selector. */
export interface ObjectSelection {
  readonly type: ResourceType;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface HeldKind {
  readonly type: ResourceType;
  readonly finalizers: readonly string[];
  /** For finalizers that agents set: selects the objects of one node. */
  readonly ofNode?: (nodeName: string) => HeldObjects;
}

interface HeldObjects {
  readonly labelSelector?: string;
  /** Which of the selected objects are meant. Default: all. */
  readonly includes?: (object: KubeObject) => boolean;
}

/** Drops the type of the options, as `defineGuard` does. */
export function defineLeftovers<Options>(leftovers: Leftovers<Options>): Leftovers {
  return leftovers as Leftovers;
}
