/** How lines of guards are shown to people, as by `rampart alerts`. Keys of all lines: stream/finding.ts. */
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
  /** The `kind` of each of its lines. */
  readonly kind: string;
  /**
   * The parts after the head; undefined if keys of the guard are missing, as in a line of another program.
   */
  view(finding: ReadFinding): LineView | undefined;
}

export interface LineView {
  /** The file that it is about; undefined if it is about none. */
  readonly path?: string;
  /** The pod that did it, if the `object` of the finding is not that pod. */
  readonly by?: PodName;
  /** The words of a `rampart` command that says more of it, without those that name the cluster: `network`, `explain`, ... */
  readonly next?: readonly string[];
  /** The same of a command that is run on the node where it happened. */
  readonly nextOnNode?: readonly string[];
  /** Whether a person has to decide on it. */
  readonly decision?: Decision;
  /** Lines with the same key that follow each other are shown to a person as one. */
  readonly fold?: LineFold;
  /** As one line for a person, without a newline. */
  pretty(options: PrettyLineOptions): string;
}

/** A finding that stays until a person decides about it. */
export interface Decision {
  /** Lines with the same key are about the same thing: the newest one says whether it is open. */
  readonly key: string;
  /** `false`: it was decided, or is gone. */
  readonly isOpen: boolean;
  /** One, and several: `changed file`, `changed files`. */
  readonly what: readonly [one: string, several: string];
  /** How many findings in 24 hours call for a decision. Default: 1. */
  readonly times?: number;
}

export interface LineFold {
  readonly key: string;
  /** The line in place of those behind the first. */
  rest(count: number): string;
}

export interface PodName {
  readonly namespace: string;
  readonly name: string;
}

export interface PrettyLineOptions {
  readonly colour: boolean;
  /** Lines of another day begin with their date. */
  readonly nowMs: number;
}
