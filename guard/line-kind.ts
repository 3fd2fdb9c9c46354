/** How lines of guards are shown to people, for example by `rampart alerts`. The keys that all lines have are in stream/finding.ts. */
import type { ReadFinding } from './stream/read-finding.ts';

/**
 * One kind of line of a guard.
 *
 * @example
 * export const openDoorKind: LineKind = {
 *   kind: 'OpenDoor',
 *   view({ head, keys }) {
 *     const door = keys['door'];
 *     if (typeof door !== 'string') return undefined;
 *     return { path: door, next: ['door', door], pretty: () => `${head.time}  opened  ${printable(door)}` };
 *   },
 * };
 */
export interface LineKind {
  /** The value of the key `kind` in these lines. */
  readonly kind: string;
  /**
   * The parts after the head; undefined if keys of the guard are missing, as in a line of another program.
   */
  view(finding: ReadFinding): LineView | undefined;
}

export interface LineView {
  /** The file that the line is about; undefined if it is not about a file. */
  readonly path?: string;
  /** The pod that caused it, if that is not the `object` of the finding. */
  readonly by?: PodName;
  /** The words of a `rampart` command that shows more about it, without options that name the cluster: `network`, `explain`, ... */
  readonly next?: readonly string[];
  /** Like `next`, but the command has to be run on the node of the finding. */
  readonly nextOnNode?: readonly string[];
  /** Set if a person has to decide about it. */
  readonly decision?: Decision;
  /** Consecutive lines with the same key are shown as one. */
  readonly fold?: LineFold;
  /** The finding as one line for people, without a newline. */
  pretty(options: PrettyLineOptions): string;
}

/** A finding that stays until a person decides about it. */
export interface Decision {
  /** Lines with the same key are about the same thing: the newest one says whether it is open. */
  readonly key: string;
  /** `false`: a person has decided, or the cause is gone. */
  readonly isOpen: boolean;
  /** Singular and plural: `changed file`, `changed files`. */
  readonly what: readonly [one: string, several: string];
  /** How many findings in 24 hours call for a decision. Default: 1. */
  readonly times?: number;
}

export interface LineFold {
  readonly key: string;
  /** The line that replaces all folded lines after the first. */
  rest(count: number): string;
}

export interface PodName {
  readonly namespace: string;
  readonly name: string;
}

export interface PrettyLineOptions {
  readonly colour: boolean;
  /** The current time: lines of another day begin with their date. */
  readonly nowMs: number;
}
