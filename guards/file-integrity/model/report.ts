/** The findings of a scan in the form of a report, whether AIDE reported them or our own comparison. */
import type { AttributeSet } from './attributes.ts';
import type { ByteString, FileType, ScanProblem } from './entry.ts';

/** The levels of `report_level` in aide.conf, the least detailed first. */
export const reportLevels = [
  'minimal',
  'summary',
  'database_attributes',
  'list_entries',
  'changed_attributes',
  'added_removed_attributes',
  'added_removed_entries',
] as const;

export type ReportLevel = (typeof reportLevels)[number];

export interface ReportOptions {
  readonly level: ReportLevel;
  readonly base16: boolean;
  readonly grouped: boolean;
  readonly summarizeChanges: boolean;
  /** No output if nothing was found. */
  readonly quiet: boolean;
  readonly ignoredAdded: AttributeSet;
  readonly ignoredRemoved: AttributeSet;
  readonly ignoredChanged: AttributeSet;
  readonly forced: AttributeSet;
  /** The bits of `report_ignore_e2fsattrs`. */
  readonly ignoredE2fs: number;
}

export const defaultReportOptions: ReportOptions = {
  level: 'changed_attributes',
  ...{ base16: false, grouped: true, summarizeChanges: true, quiet: false },
  ...{ ignoredAdded: 0, ignoredRemoved: 0, ignoredChanged: 0, forced: 0, ignoredE2fs: 0 },
};

export interface AttributeDetail {
  /** Name as in AIDE's JSON report: `link_name`, `sha256`. */
  readonly name: string;
  /** Values; empty if the attribute was absent. Not yet escaped for printing, and neither are names. */
  readonly old: readonly ByteString[];
  readonly now: readonly ByteString[];
}

export interface ReportedChange {
  readonly kind: 'added' | 'removed' | 'changed';
  readonly path: ByteString;
  /** The current type; for a removed file, the last one. Undefined if AIDE's report does not contain it. */
  readonly type: FileType | undefined;
  /** The summary in AIDE's notation: `f>....mc..H....`. Empty if AIDE's report has none. */
  readonly summary: string;
  readonly details: readonly AttributeDetail[];
}

export interface ReportCounts {
  /** Number of examined entries. */
  readonly total: number;
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
  /** Number of paths that could not be read completely. */
  readonly problems: number;
}

export interface Report {
  readonly counts: ReportCounts;
  /** In AIDE's order, that of its tree. */
  readonly changes: readonly ReportedChange[];
  /** Entries whose set of recorded attributes has changed, with the difference: `+acl-sha256`. */
  readonly redefined: readonly { readonly path: ByteString; readonly difference: string }[];
  readonly problems: readonly {
    readonly path: ByteString;
    readonly code: string;
    readonly message: string;
  }[];
  /** Number of findings that are not listed because there are too many. */
  readonly omitted: number;
}

/** The result for a large file, which is read after the scan. */
export interface LargeFile {
  readonly path: ByteString;
  /** Undefined if the file is as in the baseline. */
  readonly change?: ReportedChange | undefined;
  /** Why it could not be compared. */
  readonly problem?: ScanProblem | undefined;
}

/** A report's information about the run itself. */
export interface RunFacts {
  /**
   * `check`: the files were checked; `compare`: two databases were compared; `init`: a baseline was created; `update`:
   * the files were checked and a baseline was created.
   */
  readonly action: 'check' | 'compare' | 'init' | 'update';
  /** Such as `Rampart 0.1.0`. */
  readonly program: string;
  readonly startedMs: number;
  readonly endedMs: number;
  /** Path of the new baseline, for `init` and `update`. */
  readonly written?: string | undefined;
  /** `config_version` of aide.conf. */
  readonly configVersion?: string | undefined;
}
