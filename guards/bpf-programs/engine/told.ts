/** The outcome of one wanted program. */
import type { NodeCondition } from './node-condition.ts';
import type { Wanted } from './wanted.ts';

export interface Told {
  readonly wanted: Wanted;
  readonly condition: NodeCondition;
  /** Id of the running version. */
  readonly programId: number | undefined;
  /** Whether the last version that ran does, because this one cannot. */
  readonly isKept: boolean;
  /** Whether it does not run because what is not Rampart's is in its place. */
  readonly isDisplaced: boolean;
  /** The lost contents of its maps, in complete sentences. */
  readonly lost: readonly string[];
  /** The failed step, if any: loading, attaching, or finding the place. */
  readonly trouble: 'attach' | 'load' | 'place' | undefined;
}
