/**
 * What file access has in `rampart status --format json`. Within `rampart.dev/status/v1` fields keep their names and meanings.
 */
import type { HolderReport } from '../../../guard/lease-holder.ts';

/** At the top level. */
export interface FileAccessFields {
  /** By namespace and name. */
  readonly policies: readonly PolicyReport[];
  /** `null` where it may not be read. */
  readonly kiveData: {
    readonly total: number | null;
    /** Of policies that are not there any more; `null` also where one namespace was asked for. */
    readonly orphans: number | null;
  };
}

/** In `nodes[]`. */
export interface FileAccessNodeFields {
  /** Its boot id; `null` where nobody tells. */
  readonly kernel: string | null;
  /** Who alerts on its kernel. */
  readonly loader: HolderReport;
  /** Containers with watched files, and these files, of policies of any namespace; `null` where KiveData may not be read. */
  readonly containers: number | null;
  readonly files: number | null;
}

export interface PolicyReport {
  readonly namespace: string;
  readonly name: string;
  /** No problem is known, and a container matches. */
  readonly guarded: boolean;
  /** It is being deleted: nothing is asked for any more. */
  readonly deleting: boolean;
  /** The condition of that type; `null` before the operator has looked at it. */
  readonly ready: {
    readonly status: string;
    readonly reason: string;
    readonly message: string;
    /** Whether it is about the policy as it is now. */
    readonly isCurrent: boolean;
  } | null;
  readonly traps: number;
  /** Running containers that a trap is for. */
  readonly containers: number;
  readonly files: number;
  readonly kiveData: number | null;
  readonly lastAlertTime: string | null;
  readonly problems: readonly PolicyProblemReport[];
  readonly nodes: readonly PolicyNodeReport[];
}

export interface PolicyNodeReport {
  readonly name: string;
  readonly containers: number;
  readonly files: number;
  readonly problemCount: number;
  readonly isCurrent: boolean;
  readonly lastAlertTime: string | null;
}

/**
 * Why a policy does not guard all that it asks for:
 *
 * - `trap-refused`: a trap cannot work; the others do.
 * - `file-missing`: a file in a container is not watched.
 * - `no-match`: no running container matches.
 * - `node-silent`: containers match on a node whose agent has said nothing of the policy.
 * - `node-behind`: what the agent of a node says is of an older version of the policy.
 * - `no-loader`: on the node's kernel nobody alerts.
 * - `callback-failing`: files are watched, and a callback takes no alerts of the node.
 * - `not-ready`: the operator says so for another reason.
 */
export type ProblemKind =
  | 'trap-refused'
  | 'file-missing'
  | 'no-match'
  | 'node-silent'
  | 'node-behind'
  | 'no-loader'
  | 'callback-failing'
  | 'not-ready';

export interface PolicyProblemReport {
  readonly kind: ProblemKind;
  readonly message: string;
  readonly node?: string;
  /** `namespace/pod/container`. */
  readonly container?: string;
  readonly path?: string;
  /** Which of `spec.traps`. */
  readonly trap?: number;
}
