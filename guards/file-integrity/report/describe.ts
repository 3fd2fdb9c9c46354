/** Describes a difference for a report, following AIDE's `report_*` options. */
import { type AttributeSet, setOf } from '../model/attributes.ts';
import type { Difference } from '../compare/compare.ts';
import type { Entry } from '../model/entry.ts';
import { attributeDifference, fields, summaryColumns } from './fields.ts';
import { isAtLeast } from './report.ts';
import type { AttributeDetail, ReportedChange, ReportOptions } from '../model/report.ts';

const e2fs = setOf('e2fsattrs');
const size = setOf('s', 'S');

type Changed = Extract<Difference, { kind: 'changed' }>;

/** Undefined if the options ignore all differing attributes. */
export function describeDifference(
  difference: Extract<Difference, { kind: 'added' | 'removed' | 'changed' }>,
  options: ReportOptions,
): ReportedChange | undefined {
  const { kind, path } = difference;
  const isDescribed = isAtLeast(options.level, 'added_removed_entries');
  if (kind === 'added') {
    const { now } = difference;
    const details = isDescribed
      ? describe(undefined, now, now.attributes & ~options.ignoredAdded, options)
      : [];
    return { kind, path, type: now.type, summary: now.type + '+'.repeat(summaryColumns.length), details };
  }
  if (kind === 'removed') {
    const { old } = difference;
    const details = isDescribed
      ? describe(old, undefined, old.attributes & ~options.ignoredRemoved, options)
      : [];
    return { kind, path, type: old.type, summary: old.type + '-'.repeat(summaryColumns.length), details };
  }
  const reported = reportedAttributes(difference, options);
  if (reported === 0) return undefined;
  const { old, now } = difference;
  const summary = summarize(difference, options);
  if (!isAtLeast(options.level, 'changed_attributes'))
    return { kind, path, type: now.type, summary, details: [] };
  let set = reported | options.forced;
  if (isAtLeast(options.level, 'added_removed_attributes')) {
    set |= now.attributes & ~old.attributes & ~options.ignoredAdded;
    set |= old.attributes & ~now.attributes & ~options.ignoredRemoved;
  }
  return { kind, path, type: now.type, summary, details: describe(old, now, set, options) };
}

/** The difference of the entries' attributes, such as `+acl-sha256`; undefined if the options ignore it. */
export function describeRedefinition(old: Entry, now: Entry, options: ReportOptions): string | undefined {
  const before = old.attributes & ~options.ignoredRemoved;
  const after = now.attributes & ~options.ignoredAdded;
  if (((before ^ after) & (old.attributes ^ now.attributes)) === 0) return undefined;
  return attributeDifference(before, after);
}

function reportedAttributes({ old, now, changed }: Changed, options: ReportOptions): AttributeSet {
  let reported = changed & ~options.ignoredChanged;
  if ((reported & e2fs) !== 0 && ((old.e2fsAttributes ^ now.e2fsAttributes) & ~options.ignoredE2fs) === 0) {
    reported &= ~e2fs;
  }
  return reported;
}

function describe(
  old: Entry | undefined,
  now: Entry | undefined,
  set: AttributeSet,
  options: ReportOptions,
): AttributeDetail[] {
  const details: AttributeDetail[] = [];
  for (const field of fields) {
    if ((field.bit & set) === 0) continue;
    const values = (entry: Entry | undefined): readonly string[] =>
      entry === undefined || (entry.attributes & field.bit) === 0 ? [] : field.values(entry, options);
    details.push({ name: field.name, old: values(old), now: values(now) });
  }
  return details;
}

/** The summary, letter by letter: see `report_summarize_changes` in aide.conf(5). */
function summarize({ old, now, changed }: Changed, options: ReportOptions): string {
  const { ignoredAdded, ignoredRemoved, ignoredChanged, forced } = options;
  const gone = old.attributes & ~now.attributes;
  const come = now.attributes & ~old.attributes;
  const both = old.attributes & now.attributes;
  let summary: string = now.type;
  for (const [letter, set] of summaryColumns) {
    if (set & changed & (forced | ~ignoredChanged)) {
      summary += set === size && old.sizeBytes > now.sizeBytes ? '<' : letter;
    } else if (set & gone & (forced | ~ignoredRemoved)) summary += '-';
    else if (set & come & (forced | ~ignoredAdded)) summary += '+';
    else if (set & ((gone & ignoredRemoved) | (come & ignoredAdded) | (both & ignoredChanged)))
      summary += ':';
    else if (set & both) summary += set === size ? '=' : '.';
    else summary += ' ';
  }
  return summary;
}
