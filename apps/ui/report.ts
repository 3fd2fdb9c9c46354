/** The data of the page: `status.json`, `pictures/GUARD.json`, and the data of each event of `findings`. */
import type { Decision } from '../../guard/line-kind.ts';
import type { Picture, PictureItem } from '../../guard/picture.ts';
import type { HourCount } from '../../guard/stream/finding-counts.ts';
import type { FindingHead } from '../../guard/stream/finding.ts';
import type { StatusReport } from '../status/report.ts';

export interface UiReport {
  /** `null` if it cannot be read, or a stopped `rampart standalone` has nothing that users asked for. */
  readonly status: StatusReport | null;
  /** Why the API cannot be read; with a status, that is what the files of `--data` say. */
  readonly failure: string | null;
  /** As the API or the kubeconfig names this user; `null` before it is known. */
  readonly who: string | null;
  /** The guards that have a picture. */
  readonly pictures: readonly string[];
  readonly findings: FindingsState;
}

export interface FindingsState {
  /** Whether a new finding would be seen. */
  readonly isLive: boolean;
  /** Why not, or the last note about the source. */
  readonly note: string;
  /** Lines of the source that could not be had. */
  readonly missed: number;
  readonly hours: readonly HourCount[];
}

export interface UiFinding {
  /** All of the line, beside the keys that findings have in common. */
  readonly finding: FindingHead & Readonly<Record<string, unknown>>;
  /** The next command; `null` if there is nothing left to do. */
  readonly command: NextCommand | null;
  /** `null` if no decision is needed. */
  readonly decision: Decision | null;
}

export interface NextCommand {
  /** Ready for a shell. */
  readonly line: string;
  /** It has to be run on the node, where it happened. */
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
