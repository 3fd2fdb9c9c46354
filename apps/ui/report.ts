/** The data of the page: `status.json`, `pictures/GUARD.json`, and the data of each event of `findings`. */
import type { Decision } from '../../guard/line-kind.ts';
import type { Picture, PictureItem } from '../../guard/picture.ts';
import type { HourCount } from '../../guard/stream/finding-counts.ts';
import type { FindingHead } from '../../guard/stream/finding.ts';
import type { StatusReport } from '../status/report.ts';

export interface UiReport {
  /** `null` if the API cannot be read, or a stopped `rampart standalone` has no objects of users. */
  readonly status: StatusReport | null;
  /** Why the API cannot be read; if `status` is given all the same, it comes from the files of `--data`. */
  readonly failure: string | null;
  /** As the API or the kubeconfig names this user; `null` before it is known. */
  readonly who: string | null;
  /** The guards that have a picture. */
  readonly pictures: readonly string[];
  readonly findings: FindingsState;
}

export interface FindingsState {
  /** Whether new findings are being received. */
  readonly isLive: boolean;
  /** Why not, or the last note about the source. */
  readonly note: string;
  /** How many lines of the source could not be read. */
  readonly missed: number;
  readonly hours: readonly HourCount[];
}

export interface UiFinding {
  /** The whole line: the keys that all findings have, and those of its guard. */
  readonly finding: FindingHead & Readonly<Record<string, unknown>>;
  /** The next command; `null` if there is nothing left to do. */
  readonly command: NextCommand | null;
  /** `null` if no decision is needed. */
  readonly decision: Decision | null;
}

export interface NextCommand {
  /** Quoted for a shell. */
  readonly line: string;
  /** Whether the command has to be run on the node that it is about. */
  readonly isOnNode: boolean;
}

/** `pictures/GUARD.json` */
export interface UiPicture {
  /** `null` if it cannot be read. */
  readonly picture: DrawnPicture | null;
  /** Why the picture cannot be read; `null` if it can. */
  readonly failure: string | null;
}

export interface DrawnPicture extends Omit<Picture, 'items'> {
  readonly items: readonly DrawnItem[];
}

export interface DrawnItem extends Omit<PictureItem, 'next' | 'nextOnNode'> {
  readonly command: NextCommand | null;
}
