/** File access's part of `rampart status -o json`. */
import type { HolderReport } from '../../../guard/lease-holder.ts';

/** At the top level. */
export interface FileAccessFields {
  /** Sorted by namespace and name; `null` if they may not be read. */
  readonly policies: readonly PolicyReport[] | null;
  /** `null` if it may not be read. */
  readonly kiveData: {
    readonly total: number | null;
    /** Objects of policies that are gone; `null` also if one namespace was requested. */
    readonly orphans: number | null;
  };
  /** Accesses that raised no alert because of the processes of their trap, since the agents started. */
  readonly filteredAccesses: number;
}

/** In `nodes[]`. */
export interface FileAccessNodeFields {
  /** Its boot id; `null` if unknown. */
  readonly kernel: string | null;
  /** Who alerts on its kernel. */
  readonly loader: HolderReport;
  /** Containers with watched files, and these files, of policies of any namespace; `null` if KiveData may not be read. */
  readonly containers: number | null;
  readonly files: number | null;
}

export interface PolicyReport {
  readonly namespace: string;
  readonly name: string;
  /** Without an entry in `problems[]`. */
  readonly guarded: boolean;
  /** Whether it is being deleted: its requests no longer count. */
  readonly deleting: boolean;
  /** The condition of that type; `null` before the operator has looked at it. */
  readonly ready: {
    readonly status: string;
    readonly reason: string;
    readonly message: string;
    /** Whether it is about the present version of the policy. */
    readonly isCurrent: boolean;
  } | null;
  readonly traps: number;
  /** Running containers that a trap is for. */
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

/** Before it is decided what is guarded. */
export interface Unjudged extends Pick<FileAccessFields, 'filteredAccesses' | 'kiveData'> {
  readonly policies: readonly Omit<PolicyReport, 'guarded'>[];
}
