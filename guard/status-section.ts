import type { RenderOptions } from '../lib/output/table.ts';
import type { KubeObject, ResourceType } from '../lib/kube/object/object.ts';
import type { Cell } from '../lib/output/table.ts';
import type { AgentLease } from './agent-lease-names.ts';
import type { GuardedObject, ProcessView } from './guarded.ts';
import type { LeaseView } from './lease-holder.ts';
import type { Verdict } from './verdict.ts';

/**
 * A guard's section. It reads the API once, changes nothing, and leaves out what may not be read.
 *
 * @example
 * export const doorStatus: StatusSection = {
 *   async read({ list, namespace }) {
 *     const objects: GuardedObject[] = [];
 *     await list(doorPolicyType, (policy) => objects.push(guardedObject(policy)), { namespace });
 *     return {
 *       objects,
 *       foot: [],
 *       fields: () => ({ doors: objects.length }),
 *       headline: ({ failing }) => (failing === 0 ? 'All doors are watched.' : `${failing} doors are not watched.`),
 *       table: () => '',
 *     };
 *   },
 * };
 */
export interface StatusSection {
  /** @throws {KubeError} if the API does not answer. */
  read(context: StatusContext): Promise<SectionReport>;
}

export interface StatusContext {
  /** The namespace whose objects are requested; undefined: all. */
  readonly namespace: string | undefined;
  readonly signal: AbortSignal;
  /** When it was asked: ages in the report count from here. */
  readonly timeMs: number;
  /** All of a kind, item by item. Of a kind that is not served (404): none. @throws {KubeError} what is forbidden too */
  list<T extends KubeObject>(
    type: ResourceType<T>,
    onItem: (object: T) => void,
    target?: { readonly namespace?: string | undefined; readonly labelSelector?: string },
  ): Promise<void>;
  /**
   * The result of `read`; undefined if this user may not read it, which the report then says under `notRead`.
   */
  orForbidden<T>(resource: string, read: () => Promise<T>): Promise<T | undefined>;
  /** Locks in the system's namespace, read once; undefined if they may not be read. */
  leases(): Promise<readonly LeaseView[] | undefined>;
  /** The agents' reports on their nodes, read once for all sections; undefined if they may not be read. */
  agents(): Promise<readonly AgentView[] | undefined>;
  /** `null`: there is no operator; undefined if its lease may not be read. */
  operator(): Promise<ProcessView | null | undefined>;
  /** Read once for all sections; undefined if they may not be read. */
  nodes(): Promise<readonly NodeView[] | undefined>;
}

export interface AgentView extends AgentLease, ProcessView {
  readonly renewedSecondsAgo: number | null;
}

export interface NodeView {
  readonly name: string;
  /** Its boot id. */
  readonly kernel: string | undefined;
  /** Whether its kubelet reports, as the node controller says. */
  readonly isReady?: boolean;
  readonly labels?: Readonly<Record<string, string>>;
  readonly taints?: readonly { readonly key: string; readonly value?: string; readonly effect: string }[];
}

export interface SectionReport {
  /** The users' objects for the guard, without those being deleted. Undefined: they may not be read. */
  readonly objects: readonly GuardedObject[] | undefined;
  /**
   * Fields at the top level of `-o json`, with names of its own. They are present even if the guard has nothing to do.
   */
  fields(verdict: Verdict): Readonly<Record<string, unknown>>;
  /** A sentence or two over all; empty if nothing is asked. */
  headline(verdict: Verdict, options: RenderOptions): string;
  /** Its table, without a newline at the end; empty if nothing is asked. */
  table(verdict: Verdict, options: RenderOptions): string;
  /** Lines at the end of the report: `KiveData: 12`. */
  readonly foot: readonly string[];
  /** The guard's facts about each node. */
  readonly nodes?: SectionNodes;
}

interface SectionNodes {
  readonly names: readonly string[];
  /** Heads of its columns in the table of nodes. */
  readonly columns: readonly string[];
  /** Fields in `nodes[]` of `-o json`, cells for the columns, and whether a person should look at the node. */
  of(name: string): {
    readonly fields: Readonly<Record<string, unknown>>;
    readonly cells: readonly Cell[];
    readonly isDoubtful: boolean;
  };
}
