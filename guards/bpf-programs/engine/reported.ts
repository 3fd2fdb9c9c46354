/** The outcome of one wanted program. */
import type { NodeCondition } from './node-condition.ts';
import type { Wanted } from './wanted.ts';

export interface Reported {
  readonly wanted: Wanted;
  readonly condition: NodeCondition;
  /** Id of the running version. */
  readonly programId: number | undefined;
  /** Whether the last version that ran still runs, because the wanted one cannot. */
  readonly isKept: boolean;
  /**
   * Whether it does not run because something that is not Rampart's (a program, filter or qdisc)
   * occupies its attach point.
   */
  readonly isDisplaced: boolean;
  /** Which contents of the program's maps were lost, in complete sentences. */
  readonly lost: readonly string[];
  /** The failed step, if any: loading, attaching, or finding the place. */
  readonly trouble: 'attach' | 'load' | 'place' | undefined;
}
