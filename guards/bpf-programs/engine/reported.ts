/** The outcome of one wanted program. */
import type { NodeCondition } from './node-condition.ts';
import type { Wanted } from './wanted.ts';

export interface Reported {
  readonly wanted: Wanted;
  readonly condition: NodeCondition;
  /** The kernel's ID of the running version. */
  readonly programId: number | undefined;
  /** Whether the previous version still runs, because the wanted one cannot. */
  readonly isKept: boolean;
  /** Whether it does not run because its attach point is occupied by a program, filter or qdisc that is not Rampart's. */
  readonly isDisplaced: boolean;
  /** Complete sentences about contents of its maps that were lost. */
  readonly lost: readonly string[];
  /** The failed step, if any: loading, attaching, or finding the place. */
  readonly trouble: 'attach' | 'load' | 'place' | undefined;
}
