import type { ObjectSelection } from '../../guard/leftovers.ts';

export interface Selected extends ObjectSelection {
  /** Default: all. */
  readonly namespace?: string;
}
