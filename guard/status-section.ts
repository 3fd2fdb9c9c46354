import type { RenderOptions } from '../lib/output/table.ts';
import type { KubeObject, ResourceType } from '../lib/kube/object/object.ts';
import type { Cell } from '../lib/output/table.ts';
import type { AgentLease } from './agent-lease-names.ts';
import type { LeaseView } from './lease-holder.ts';

/** A guard's section. It reads the API once, changes nothing, and leaves out what may not be read. */
export interface StatusSection {
  /** @throws {KubeError} where the API does not answer. */
  read(context: StatusContext): Promise<SectionReport>;
}

export interface StatusContext {
  /** Whose objects are asked for; undefined: of all. */
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
  /** What `read` found; undefined where this user may not read it, which the report then says under `notRead`. */
  orForbidden<T>(resource: string, read: () => Promise<T>): Promise<T | undefined>;
  /** Locks in the system's namespace, read once; undefined where they may not be read. */
  leases(): Promise<readonly LeaseView[] | undefined>;
  /** What agents say of their nodes, read once for all sections; undefined where they may not be read. */
  agents(): Promise<readonly AgentView[] | undefined>;
  /** Read once for all sections; undefined where they may not be read. */
  nodes(): Promise<readonly NodeView[] | undefined>;
}

export interface AgentView extends AgentLease, Pick<LeaseView, 'isRenewed' | 'renewedSecondsAgo'> {}

export interface NodeView {
  readonly name: string;
  /** Its boot id. */
  readonly kernel: string | undefined;
  readonly labels?: Readonly<Record<string, string>>;
  readonly taints?: readonly { readonly key: string; readonly value?: string; readonly effect: string }[];
}

export interface SectionReport {
  /**
   * At the top level of `--format json`: names of its own, which keep their meaning within `rampart.dev/status/v1`.
   * They are there also where nothing is asked of the guard.
   */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Whether somebody asks the guard for something. */
  readonly isAsked: boolean;
  /** Whether all that is asked for is guarded: the exit code is 0 then. */
  readonly guarded: boolean;
  /** A sentence or two over all; empty where nothing is asked. */
  headline(options: RenderOptions): string;
  /** Its table, without a newline at the end; empty where nothing is asked. */
  table(options: RenderOptions): string;
  /** Lines at the end of the report: `KiveData: 12`. */
  readonly foot: readonly string[];
  /** What it has to say of each node. */
  readonly nodes?: SectionNodes;
}

interface SectionNodes {
  readonly names: readonly string[];
  /** Heads of its columns in the table of nodes. */
  readonly columns: readonly string[];
  /** Fields in `nodes[]` of `--format json`, cells for the columns, and whether a person should look at the node. */
  of(name: string): {
    readonly fields: Readonly<Record<string, unknown>>;
    readonly cells: readonly Cell[];
    readonly isDoubtful: boolean;
    /** Whether it knows that an agent works there. */
    readonly isRunning: boolean;
  };
}
