/** File access's part of `rampart status -o json`. */
import type { HolderReport } from '../../../guard/lease-holder.ts';

/** The fields at the top level. */
export interface FileAccessFields {
  /** Sorted by namespace and name; `null` if they may not be read. */
  readonly policies: readonly PolicyReport[] | null;
  /** `null` if it may not be read. */
  readonly kiveData: {
    readonly total: number | null;
    /** Number of KiveData whose policy is gone; `null` also if only one namespace was requested. */
    readonly orphans: number | null;
  };
  /** Accesses that raised no alert because of the processes of their trap, since the agents started. */
  readonly filteredAccesses: number;
}

/** The fields of each item of `nodes[]`. */
export interface FileAccessNodeFields {
  /** The boot id of the node's kernel; `null` if unknown. */
  readonly kernel: string | null;
  /** The agent that raises alerts on this kernel. */
  readonly loader: HolderReport;
  /**
   * Containers with watched files (`containers`), and watched files (`files`), over policies of all namespaces; `null`
   * if KiveData may not be read.
   */
  readonly containers: number | null;
  readonly files: number | null;
}

export interface PolicyReport {
  readonly namespace: string;
  readonly name: string;
  /** Whether no entry in `problems[]` is about this policy. */
  readonly guarded: boolean;
  /** Whether it is being deleted: its traps no longer count. */
  readonly deleting: boolean;
  /** The condition `Ready`; `null` if the operator has not examined the policy yet. */
  readonly ready: {
    readonly status: string;
    readonly reason: string;
    readonly message: string;
    /** Whether it is about the current version of the policy. */
    readonly isCurrent: boolean;
  } | null;
  readonly traps: number;
  /** Running containers that a trap matches. */
  readonly containers: number;
  readonly files: number;
  readonly kiveData: number | null;
  readonly lastAlertTime: string | null;
  readonly nodes: readonly PolicyNodeReport[];
}

export interface PolicyNodeReport {
  readonly name: string;
  readonly containers: number;
  /** Whether a trap is for the node itself. */
  readonly host: boolean;
  readonly files: number;
  readonly problemCount: number;
  readonly isCurrent: boolean;
  readonly lastAlertTime: string | null;
}

/** The report before it is decided which policies are guarded. */
export interface Unjudged extends Pick<FileAccessFields, 'filteredAccesses' | 'kiveData'> {
  readonly policies: readonly Omit<PolicyReport, 'guarded'>[];
}
