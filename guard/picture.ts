/**
 * The picture behind a guard's card in `rampart ui`. All guards use one data model, so that the page can draw any picture, and show it as a
 * table, without knowing the guard.
 */
import type { StatusContext } from './status-section.ts';
import type { ReadFinding } from './stream/read-finding.ts';

/** Reads once, changes nothing, and leaves out what the user may not read. */
export interface PictureSource {
  /** @throws {KubeError} if the API does not answer. */
  read(context: PictureContext): Promise<Picture>;
}

export interface PictureContext extends StatusContext {
  /** The kept findings of the guard, oldest first. */
  readonly findings: readonly ReadFinding[];
  /**
   * Whether the API is that of a `rampart standalone` on this machine: then the kernel of the only node is the one that this process runs
   * on.
   */
  readonly isThisMachine: boolean;
}

/**
 * - `grid`: rows and columns, in the order in which `items` first name them
 * - `chains`: one below the other, each in the order of `items`
 * - `tree`: by the parts of a path
 * - `lanes`: one lane for each pair of names, over time
 */
export type PictureForm = 'chains' | 'grid' | 'lanes' | 'tree';

/**
 * `ok`: as it should be; `none`: neutral; `bad`, `warn`: needs attention; `level1` to `level4`: from few to many; `blank`: nothing to
 * report.
 */
export type PictureTone =
  'bad' | 'blank' | 'level1' | 'level2' | 'level3' | 'level4' | 'none' | 'ok' | 'warn';

export interface Picture {
  readonly form: PictureForm;
  /** Its title, without a full stop: `Who may talk to whom`. */
  readonly title: string;
  /** What the names in `at` mean: `from`, `to`. */
  readonly axes: readonly string[];
  /** The unit of `value`: `packets refused`. */
  readonly unit: string;
  readonly items: readonly PictureItem[];
  readonly legend: readonly { readonly tone: PictureTone; readonly words: string }[];
  /** Sentences about what is left out, and what is unknown. */
  readonly notes: readonly string[];
  /** Time axis of lanes, in ms since 1970. */
  readonly span?: { readonly fromMs: number; readonly toMs: number };
}

export interface PictureItem {
  /** From the outermost name to the innermost: row and column; chain and program; directories and file; file and process. */
  readonly at: readonly string[];
  /** Decides the size of the item, in forms that have sizes. */
  readonly value: number;
  /** The time of an item in lanes, in ms since 1970. */
  readonly timeMs?: number;
  readonly tone: PictureTone;
  /** A few characters that are drawn in it; may be empty. */
  readonly mark: string;
  /** In a chain: the verdict that leads from this item to the next one. */
  readonly proceedOn?: string;
  /** The item's details, in sentences. */
  readonly text: string;
  /** The words of a `rampart` command that shows more about it, without options that name the cluster. */
  readonly next?: readonly string[];
  /** Like `next`, but the command has to be run on the node. */
  readonly nextOnNode?: readonly string[];
}

/** Does not depend on the other items of the picture: an item that pales over time is good news. */
export function levelOf(value: number): PictureTone {
  return value >= 50 ? 'level4' : value >= 10 ? 'level3' : value >= 3 ? 'level2' : 'level1';
}
