/**
 * An agent's result for one FileIntegrity on its node. It goes to the operator as the temporary ConfigMap
 * `aide-<fi>-<node>` (result-config-map.ts), the operator makes status, kept logs, events and reports of it.
 */
import type { Detection, Finding, Reading, Unread } from '../model/finding.ts';
import type { PackageUpdate } from '../model/explanation.ts';
import type { FittedLog } from '../report/log-limit.ts';
import type { BaselineIdentity } from '../database/newest-baseline.ts';

export type NodeOutcome =
  | { readonly kind: 'succeeded' }
  | {
      readonly kind: 'failed';
      readonly added: number;
      readonly changed: number;
      readonly removed: number;
      readonly log: FittedLog;
    }
  /** Nothing is known of the files: `message` says why and what to do. */
  | {
      readonly kind: 'errored';
      readonly message: string;
      /** The same word for errors of one kind, for metrics: `BaselineDamaged`, or a code of `errorCodes`. */
      readonly reason?: string;
    };

export interface NodeResult {
  readonly fileIntegrity: { readonly namespace: string; readonly name: string };
  readonly nodeName: string;
  /**
   * Grows with each result of this node for this FileIntegrity, also over restarts, so that two of one second
   * can be distinguished.
   */
  readonly sequence: number;
  /** The number is not from an agent: FIO wrote the result, or its writer is unknown. */
  readonly isUnnumbered?: true;
  /** ms since 1970. */
  readonly atMs: number;
  readonly outcome: NodeOutcome;
  /** At most {@link maxFindings}, the latest first. */
  readonly findings: readonly Finding[];
  readonly omittedFindings: number;
  /** Absent if all files were read, or if nothing is known. */
  readonly unread?: Unread;
  /** Absent once all large files of the last scan have been read. */
  readonly reading?: Reading;
  /** Updates of packages that explain findings, and the latest that were accepted; at most {@link maxUpdates}. */
  readonly updates?: readonly PackageUpdate[];
  readonly detection: Detection;
  /** Ids of the requests (re-init, accept) that this result is made after; see {@link NodeRequest}. */
  readonly doneRequests: readonly string[];
  /** When the baseline was made, if it was made for an earlier FileIntegrity of the same name; ms since 1970. */
  readonly continuedFromMs?: number;
  /** See `configurationId`; absent before the first result with a configuration. */
  readonly configuration?: string;
  /** The baseline that the result was made with; absent if it cannot be used. */
  readonly baseline?: BaselineIdentity;
}

/**
 * How many files of one result that could not be read, or are still being read, are listed; the log has more.
 */
export const maxUnreadFiles = 20;

/** How many updates of packages are listed in one result: the latest. */
export const maxUpdates = 100;

/** How many findings are listed in one result; the log has more. */
export const maxFindings = 200;

/**
 * A request of the operator or `rampart integrity accept` to one node. It is an annotation on the
 * FileIntegrityNodeStatus of that node, `file-integrity.openshift.io/request-<id>` with this as JSON, until a
 * result of the node names its id; so nothing is lost while the node is away.
 */
export type NodeRequest =
  | {
      readonly kind: 're-init';
      /** Lower case hexadecimal. */
      readonly id: string;
      /** `annotation`, `failure`: why, for metrics and events. */
      readonly by: string;
    }
  | {
      readonly kind: 'accept';
      readonly id: string;
      /** A glob over host paths, as `rampart alerts` has them; empty for all findings. */
      readonly path: string;
      /**
       * Later findings stay, by the clock of the node: they have not been reviewed. Without it, none are
       * left, as for a request written by hand.
       */
      readonly seenUntilMs?: number;
      /** Who says so, and why. */
      readonly author: string;
      readonly reason: string;
    };

export const requestAnnotationPrefix = 'file-integrity.openshift.io/request-';
