import type { ObjectSelection } from '../../guard/leftovers.ts';

export interface Selected extends ObjectSelection {
  /** Default: all namespaces. */
  readonly namespace?: string;
}
