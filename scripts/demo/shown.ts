/** The parameters of a part of the demo, and its result. */
import type { Screen } from './screen.ts';

export interface PartOptions {
  /** A sensor mode, or `auto`. */
  readonly mode: string;
  readonly screen: Screen;
  /** Ends the part at once; what it started is cleaned up before it rejects with the signal's reason. */
  readonly signal: AbortSignal;
}

export interface Shown {
  /** How much was compared with what it should be. */
  readonly total: number;
  readonly failed: number;
}
