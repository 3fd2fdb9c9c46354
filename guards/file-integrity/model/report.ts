/** The findings of a scan as reported: the same from AIDE's own report and from our comparison. */
import type { AttributeSet } from './attributes.ts';
import type { ByteString, FileType, ScanProblem } from './entry.ts';

/** As in `report_level` of aide.conf, the least detailed first. */
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
  /** No output without findings. */
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
  /** As in AIDE's JSON report: `link_name`, `sha256`. */
  readonly name: string;
  /** Empty if it was missing. Not yet printable, like a name. */
  readonly old: readonly ByteString[];
  readonly now: readonly ByteString[];
}

export interface ReportedChange {
  readonly kind: 'added' | 'removed' | 'changed';
  readonly path: ByteString;
  /** Its current type, or the last one if it is gone. Undefined if a report of AIDE does not say it. */
  readonly type: FileType | undefined;
  /** AIDE's line: `f>....mc..H....`. Empty if a report of AIDE has none. */
  readonly summary: string;
  readonly details: readonly AttributeDetail[];
}

export interface ReportCounts {
  /** Entries that were examined. */
  readonly total: number;
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
  /** Paths that could not be read, or not wholly. */
  readonly problems: number;
}

export interface Report {
  readonly counts: ReportCounts;
  /** In the order of AIDE's tree. */
  readonly changes: readonly ReportedChange[];
  /** Entries with other attributes than before, and the difference: `+acl-sha256`. */
  readonly redefined: readonly { readonly path: ByteString; readonly difference: string }[];
  readonly problems: readonly {
    readonly path: ByteString;
    readonly code: string;
    readonly message: string;
  }[];
  /** Findings that are counted but not listed, because there are too many. */
  readonly omitted: number;
}

/** The result for a large file, which is read after a scan. */
export interface LargeFile {
  readonly path: ByteString;
  /** Undefined if it is as in the baseline. */
  readonly change?: ReportedChange | undefined;
  /** Why it could not be compared. */
  readonly problem?: ScanProblem | undefined;
}

/** A report's facts about the run. */
export interface RunFacts {
  /** `check`: with the file system; `compare`: two databases; `init`: a baseline was made; `update`: checked and made. */
  readonly action: 'check' | 'compare' | 'init' | 'update';
  /** `Rampart 0.1.0` */
  readonly program: string;
  readonly startedMs: number;
  readonly endedMs: number;
  /** Where the new baseline is, for `init` and `update`. */
  readonly written?: string | undefined;
  /** `config_version` of aide.conf. */
  readonly configVersion?: string | undefined;
}
