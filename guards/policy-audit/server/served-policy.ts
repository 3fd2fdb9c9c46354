/** A policy as served, under its ID. */
import type { ObjectReference } from '../../../guard/stream/finding.ts';
import type { PolicyProgram } from '../engine/program.ts';

export interface ServedPolicy {
  /**
   * `clusterwide-X`, `namespaced-NS-X`, `clusterwide-group-X` or `namespaced-group-NS-X`; in a file that was
   * written by hand, any name without a slash.
   */
  readonly id: string;
  readonly program: PolicyProgram;
  /** `monitor` allows everything, and only counts what would be refused. */
  readonly mode: 'monitor' | 'protect';
  readonly mayMutate: boolean;
  /** Replaces the message of the policy's module, which becomes a cause. */
  readonly message: string | undefined;
  /** The object that the entry was made from, with its severity; undefined in a file that was written by hand. */
  readonly origin: PolicyFileOrigin | undefined;
}

/** Origin of an entry that the operator writes. */
export interface PolicyFileOrigin extends ObjectReference {
  readonly severity?: string;
}
