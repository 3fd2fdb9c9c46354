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
  /** When the status was requested: ages in the report are relative to it. */
  readonly timeMs: number;
  /** Passes all objects of a kind, one by one; none if the kind is not served (404). @throws {KubeError} also if listing is forbidden */
  list<T extends KubeObject>(
    type: ResourceType<T>,
    onItem: (object: T) => void,
    target?: { readonly namespace?: string | undefined; readonly labelSelector?: string },
  ): Promise<void>;
  /** The result of `read`; undefined if this user may not read it: the report then lists `resource` under `notRead`. */
  orForbidden<T>(resource: string, read: () => Promise<T>): Promise<T | undefined>;
  /** Locks in the system's namespace, read once; undefined if they may not be read. */
  leases(): Promise<readonly LeaseView[] | undefined>;
  /** The agents' reports on their nodes, read once for all sections; undefined if they may not be read. */
  agents(): Promise<readonly AgentView[] | undefined>;
  /** `null`: there is no operator; undefined: its lease may not be read. */
  operator(): Promise<ProcessView | null | undefined>;
  /** All nodes, read once for all sections; undefined if they may not be read. */
  nodes(): Promise<readonly NodeView[] | undefined>;
}

export interface AgentView extends AgentLease, ProcessView {
  readonly renewedSecondsAgo: number | null;
}

export interface NodeView {
  readonly name: string;
  /** The boot ID of its kernel. */
  readonly kernel: string | undefined;
  /** Whether its kubelet reports, according to the node controller. */
  readonly isReady?: boolean;
  readonly labels?: Readonly<Record<string, string>>;
  readonly taints?: readonly { readonly key: string; readonly value?: string; readonly effect: string }[];
}

export interface SectionReport {
  /** The users' objects for the guard, without those being deleted. Undefined: they may not be read. */
  readonly objects: readonly GuardedObject[] | undefined;
  /** The guard's fields at the top level of `-o json`, under names of its own. They are present even if the guard has nothing to do. */
  fields(verdict: Verdict): Readonly<Record<string, unknown>>;
  /** One or two sentences about all objects; empty if users request nothing. */
  headline(verdict: Verdict, options: RenderOptions): string;
  /** Its table, without a newline at the end; empty if users request nothing. */
  table(verdict: Verdict, options: RenderOptions): string;
  /** Lines at the end of the report: `KiveData: 12`. */
  readonly foot: readonly string[];
  /** The guard's facts about each node. */
  readonly nodes?: SectionNodes;
}

interface SectionNodes {
  readonly names: readonly string[];
  /** Headings of the guard's columns in the table of nodes. */
  readonly columns: readonly string[];
  /** Fields in `nodes[]` of `-o json`, cells for the columns, and whether a person should look at the node. */
  of(name: string): {
    readonly fields: Readonly<Record<string, unknown>>;
    readonly cells: readonly Cell[];
    readonly isDoubtful: boolean;
  };
}
