/** A policy as a server has it, under its ID. */
import type { PolicyProgram } from '../engine/program.ts';

export interface ServedPolicy {
  /** `clusterwide-X`, `namespaced-NS-X`, `clusterwide-group-X`, `namespaced-group-NS-X`; of a file, any name without a slash. */
  readonly id: string;
  readonly program: PolicyProgram;
  /** `monitor` lets everything through, and counts. */
  readonly mode: 'monitor' | 'protect';
  readonly mayMutate: boolean;
  /** Told in place of what the policy says, which becomes a cause. */
  readonly message: string | undefined;
}
