/** What a scan found, as it is told: the same from AIDE's own report and from a comparison of ours. */
import type { AttributeSet } from '../model/attributes.ts';
import type { ByteString, FileType } from '../model/entry.ts';

/** As in `report_level` of aide.conf, the least first. */
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

/** The `report_*` options of aide.conf. */
export interface ReportOptions {
  readonly level: ReportLevel;
  readonly base16: boolean;
  readonly grouped: boolean;
  readonly summarizeChanges: boolean;
  /** Nothing is told where nothing was found. */
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

export function isAtLeast(level: ReportLevel, least: ReportLevel): boolean {
  return reportLevels.indexOf(level) >= reportLevels.indexOf(least);
}

export interface AttributeDetail {
  /** As in AIDE's JSON report: `link_name`, `sha256`. */
  readonly name: string;
  /** Empty where there was nothing. Not yet printable, as a name is not. */
  readonly old: readonly ByteString[];
  readonly now: readonly ByteString[];
}

export interface ReportedChange {
  readonly kind: 'added' | 'removed' | 'changed';
  readonly path: ByteString;
  /** As it is now, or was. Undefined where a report of AIDE does not say it. */
  readonly type: FileType | undefined;
  /** AIDE's line: `f>....mc..H....`. Empty where a report of AIDE has none. */
  readonly summary: string;
  readonly details: readonly AttributeDetail[];
}

export interface ReportCounts {
  /** Entries that were looked at. */
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
  /** Entries that are not looked at as they were, and how: `+acl-sha256`. */
  readonly redefined: readonly { readonly path: ByteString; readonly difference: string }[];
  readonly problems: readonly {
    readonly path: ByteString;
    readonly code: string;
    readonly message: string;
  }[];
  /** Findings that are counted and not told, because there are too many. */
  readonly omitted: number;
}

/** What a report says of the run. */
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

/** AIDE's exit code for it: 1 added, 2 removed, 4 changed. */
export function exitBits({ added, removed, changed }: ReportCounts): number {
  return (added > 0 ? 1 : 0) + (removed > 0 ? 2 : 0) + (changed > 0 ? 4 : 0);
}

/** The sentence that everybody looks for in a report. */
export function outline({ action }: RunFacts, counts: ReportCounts): string {
  if (action === 'init') return 'AIDE successfully initialized database.';
  const where = action === 'compare' ? 'the two databases' : 'database and filesystem';
  return exitBits(counts) === 0
    ? `AIDE found NO differences between ${where}. Looks okay!!`
    : `AIDE found differences between ${where}!!`;
}

/** The order of AIDE's tree: what is in a directory comes before its next sibling. */
export function compareInTree(one: ByteString, other: ByteString): number {
  const most = Math.min(one.length, other.length);
  for (let at = 0; at < most; at++) {
    const a = one.charCodeAt(at);
    const b = other.charCodeAt(at);
    if (a !== b) return a === 0x2f ? -1 : b === 0x2f ? 1 : a - b;
  }
  return one.length - other.length;
}
