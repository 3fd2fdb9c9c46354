/**
 * An agent's result for one FileIntegrity on its node. The agent passes it to the operator in the temporary ConfigMap
 * `aide-<fi>-<node>` (result-config-map.ts), and the operator derives the status, kept logs, events and reports from
 * it.
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
  /** Nothing is known about the files: `message` has the reason and the remedy. */
  | {
      readonly kind: 'errored';
      readonly message: string;
      /** One word for each kind of error, for metrics: `BaselineDamaged`, or a code of `errorCodes`. */
      readonly reason?: string;
    };

export interface NodeResult {
  readonly fileIntegrity: { readonly namespace: string; readonly name: string };
  readonly nodeName: string;
  /**
   * Increases with each result of this node for this FileIntegrity, also across restarts, to order results of the same
   * second.
   */
  readonly sequence: number;
  /** Set if `sequence` is not from an agent: FIO wrote the result, or its writer is unknown. */
  readonly isUnnumbered?: true;
  /** Time of the result, in ms since 1970. */
  readonly atMs: number;
  readonly outcome: NodeOutcome;
  /** At most {@link maxFindings}, the latest first. */
  readonly findings: readonly Finding[];
  readonly omittedFindings: number;
  /** Absent if all files were read, or if nothing is known about them. */
  readonly unread?: Unread;
  /** Absent if all large files have been read since the last scan. */
  readonly reading?: Reading;
  /** Package updates that explain findings, and the latest ones that were accepted; at most {@link maxUpdates}. */
  readonly updates?: readonly PackageUpdate[];
  readonly detection: Detection;
  /** Ids of the requests (re-init, accept) that were carried out before this result; see {@link NodeRequest}. */
  readonly doneRequests: readonly string[];
  /** When the baseline was made, in ms since 1970, if it was made for an earlier FileIntegrity with the same name. */
  readonly continuedFromMs?: number;
  /** See `configurationId`; absent until there was a configuration. */
  readonly configuration?: string;
  /** The baseline that the result is based on; absent if it cannot be used. */
  readonly baseline?: BaselineIdentity;
}

/** Maximum number of files listed in a result as unreadable, and of those listed as not read yet; the log has more. */
export const maxUnreadFiles = 20;

/** Maximum number of package updates listed in a result: the latest ones. */
export const maxUpdates = 100;

/** Maximum number of findings listed in a result; the log has more. */
export const maxFindings = 200;

/**
 * A request to one node, made by the operator or by `rampart integrity accept`. It is JSON in an annotation of the
 * node's FileIntegrityNodeStatus, `file-integrity.openshift.io/request-<id>`, until a result of the node lists its id:
 * so it is not lost while the node is away.
 */
export type NodeRequest =
  | {
      readonly kind: 're-init';
      /** In lower-case hexadecimal. */
      readonly id: string;
      /** Why the request was made, for metrics and events: `annotation` or `failure`. */
      readonly by: string;
    }
  | {
      readonly kind: 'accept';
      readonly id: string;
      /** A glob that selects paths on the host, as shown by `rampart alerts`; empty for all findings. */
      readonly path: string;
      /**
       * Findings seen later than this, by the node's clock, are not accepted, because they were not reviewed. If it is
       * absent, as in a request written by hand, all are accepted.
       */
      readonly seenUntilMs?: number;
      /** Who accepts the findings, and why. */
      readonly author: string;
      readonly reason: string;
    };

export const requestAnnotationPrefix = 'file-integrity.openshift.io/request-';
