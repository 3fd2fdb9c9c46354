/** What became of one wanted program. */
import type { NodeCondition } from './node-condition.ts';
import type { Wanted } from './wanted.ts';

export interface Told {
  readonly wanted: Wanted;
  readonly condition: NodeCondition;
  /** Of the version that runs. */
  readonly programId: number | undefined;
  /** Whether the last version that ran does, because this one cannot. */
  readonly isKept: boolean;
  /** Whether it does not run because what is not Rampart's is in its place. */
  readonly isDisplaced: boolean;
  /** What is gone of the contents of its maps, in complete sentences. */
  readonly lost: readonly string[];
  /** What failed, if something did: to load it, to attach it, or to find where to. */
  readonly trouble: 'attach' | 'load' | 'place' | undefined;
}
