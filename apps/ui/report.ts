/** What the page gets: `status.json`, and the data of each event of `findings`. */
import type { HourCount } from '../../guard/stream/finding-counts.ts';
import type { FindingHead } from '../../guard/stream/finding.ts';
import type { StatusReport } from '../status/report.ts';

export interface UiReport {
  /** `null` if it cannot be read, or a stopped `rampart standalone` has nothing that users asked for. */
  readonly status: StatusReport | null;
  /** Why the API cannot be read; with a status, that is what the files of `--data` say. */
  readonly failure: string | null;
  readonly findings: FindingsState;
}

export interface FindingsState {
  /** Whether a new finding would be seen. */
  readonly isLive: boolean;
  /** Why not, or what was last said of the source. */
  readonly note: string;
  /** Lines of the source that could not be had. */
  readonly missed: number;
  readonly hours: readonly HourCount[];
}

export interface UiFinding {
  /** All of the line, beside the keys that findings have in common. */
  readonly finding: FindingHead & Readonly<Record<string, unknown>>;
  /** To go on with, ready for a shell; `null` if there is none. */
  readonly command: string | null;
}
