/**
 * The picture of a guard behind its card of `rampart ui`. All guards use one shape, so that the page can draw it, and
 * show it as a table, without knowing the guard.
 */
import type { StatusContext } from './status-section.ts';
import type { ReadFinding } from './stream/read-finding.ts';

/** It reads once, changes nothing, and leaves out what may not be read. */
export interface PictureSource {
  /** @throws {KubeError} if the API does not answer. */
  read(context: PictureContext): Promise<Picture>;
}

export interface PictureContext extends StatusContext {
  /** The kept findings of the guard, oldest first. */
  readonly findings: readonly ReadFinding[];
  /** The API is that of a `rampart standalone` on this machine: the kernel of the one node is that of this process. */
  readonly isThisMachine: boolean;
}

/**
 * - `grid`: rows and columns; in the order in which `items` name them first
 * - `chains`: one below the other, each in the order of `items`
 * - `tree`: by the parts of a path
 * - `lanes`: a lane for each pair of names, over time
 */
export type PictureForm = 'chains' | 'grid' | 'lanes' | 'tree';

/**
 * `ok`: as it should be; `none`: neither that nor wrong; `bad`, `warn`: it needs a look; `level1` to `level4`: a few, to
 * many; `blank`: there is nothing to say.
 */
export type PictureTone =
  'bad' | 'blank' | 'level1' | 'level2' | 'level3' | 'level4' | 'none' | 'ok' | 'warn';

export interface Picture {
  readonly form: PictureForm;
  /** Its title, without a full stop: `Who may talk to whom`. */
  readonly title: string;
  /** The kinds of the names in `at`: `from`, `to`. */
  readonly axes: readonly string[];
  /** The unit of `value`: `packets refused`. */
  readonly unit: string;
  readonly items: readonly PictureItem[];
  readonly legend: readonly { readonly tone: PictureTone; readonly words: string }[];
  /** Sentences: what is left out, and what is not known. */
  readonly notes: readonly string[];
  /** Time axis of lanes, ms since 1970. */
  readonly span?: { readonly fromMs: number; readonly toMs: number };
}

export interface PictureItem {
  /** From the outermost name to the innermost: row and column; chain and program; directories and file; file and process. */
  readonly at: readonly string[];
  /** Decides how large it is drawn, where its form has sizes. */
  readonly value: number;
  /** Time of an item of lanes, ms since 1970. */
  readonly timeMs?: number;
  readonly tone: PictureTone;
  /** A few characters that are drawn in it; may be empty. */
  readonly mark: string;
  /** The verdict that leads from an item of a chain to the next one. */
  readonly proceedOn?: string;
  /** Its details, in sentences. */
  readonly text: string;
  /** The words of a `rampart` command that says more of it, without those that name the cluster. */
  readonly next?: readonly string[];
  /** The same of a command that is run on the node. */
  readonly nextOnNode?: readonly string[];
}

/** The same whatever else is in the picture: that it fades is good news. */
export function levelOf(value: number): PictureTone {
  return value >= 50 ? 'level4' : value >= 10 ? 'level3' : value >= 3 ? 'level2' : 'level1';
}
