/** Writes the report in the JSON format of AIDE 0.18 (`report_format=json`). */
import { e2fsLetters } from '../model/e2fs-attributes.ts';
import { attributeExpression, describeTime, fields } from './fields.ts';
import { printable } from './printable.ts';
import { exitBits, isAtLeast, outline } from './report.ts';
import type { ByteString } from '../model/entry.ts';
import type { Report, ReportedChange, ReportOptions, RunFacts } from '../model/report.ts';

const numeric = new Set(fields.filter((field) => field.numeric).map(({ name }) => name));

/** Empty if the report is quiet and there are no findings. */
export function jsonReport(report: Report, options: ReportOptions, facts: RunFacts): string {
  const { counts } = report;
  const { level } = options;
  const bits = exitBits(counts);
  if (options.quiet && bits === 0 && counts.problems === 0) return '';
  const summarized = isAtLeast(level, 'summary');
  const listed = isAtLeast(level, 'list_entries');
  const seconds = (ms: number): number => Math.floor(ms / 1000);
  const object: Record<string, unknown> = {};
  if (listed && report.redefined.length > 0) {
    object['different_attributes'] = Object.fromEntries(
      report.redefined.map(({ path, difference }) => [textInJson(path), difference]),
    );
  }
  if (summarized) {
    object['start_time'] = describeTime(seconds(facts.startedMs));
    object['aide_version'] = facts.program.replace(/^AIDE /, '');
  }
  object['outline'] = outline(facts, counts);
  if (summarized) {
    if (facts.written !== undefined) object['new_database'] = facts.written;
    if (facts.configVersion !== undefined) object['config_version'] = facts.configVersion;
    if (level !== 'changed_attributes') object['report_level'] = level;
  }
  if (listed) addOptions(object, options);
  if (summarized) {
    const { total, added, removed, changed, problems } = counts;
    object['number_of_entries'] = {
      total,
      ...(facts.action !== 'init' && bits !== 0 && { added, removed, changed }),
      ...(problems > 0 && { unread: problems }),
    };
  }
  if (facts.action !== 'init') addChanges(object, report, options, listed);
  if (listed && report.problems.length > 0) {
    object['unread'] = Object.fromEntries(
      report.problems.map(({ path, code, message }) => [textInJson(path), `${message} (${code})`]),
    );
  }
  if (report.omitted > 0) object['omitted'] = report.omitted;
  if (summarized) {
    object['end_time'] = describeTime(seconds(facts.endedMs));
    object['run_time_seconds'] = seconds(facts.endedMs) - seconds(facts.startedMs);
  }
  return `${JSON.stringify(object, null, 2)}\n`;
}

/** JSON has its own escapes for control characters; bytes that are not UTF-8 are escaped as in the plain report. */
function textInJson(path: ByteString): string {
  return path.replace(/[\x80-\xff]+/g, (part) => printable(part));
}

function addOptions(object: Record<string, unknown>, options: ReportOptions): void {
  const sets: [string, number][] = [
    ['report_ignore_added_attrs', options.ignoredAdded],
    ['report_ignore_removed_attrs', options.ignoredRemoved],
    ['report_ignore_changed_attrs', options.ignoredChanged],
    ['report_force_attrs', isAtLeast(options.level, 'changed_attributes') ? options.forced : 0],
  ];
  for (const [name, set] of sets) if (set !== 0) object[name] = attributeExpression(set);
  if (options.ignoredE2fs !== 0) object['report_ignore_e2fsattrs'] = e2fsLetters(options.ignoredE2fs);
}

function addChanges(
  object: Record<string, unknown>,
  report: Report,
  options: ReportOptions,
  listed: boolean,
): void {
  const { changes, counts } = report;
  const value = ({ kind, summary }: ReportedChange): string => (options.summarizeChanges ? summary : kind);
  const asObject = (some: readonly ReportedChange[]): unknown =>
    Object.fromEntries(some.map((change) => [textInJson(change.path), value(change)]));
  if (listed && !options.grouped && exitBits(counts) !== 0) object['entries'] = asObject(changes);
  if (listed && options.grouped) {
    for (const kind of ['added', 'removed', 'changed'] as const) {
      if (counts[kind] === 0) continue;
      const some = changes.filter((change) => change.kind === kind);
      object[kind] = options.summarizeChanges ? asObject(some) : some.map(({ path }) => textInJson(path));
    }
  }
  const reported = changes.filter(({ details }) => details.length > 0);
  if (reported.length > 0)
    object['details'] = Object.fromEntries(
      reported.map((change) => [textInJson(change.path), detailsOf(change)]),
    );
}

function detailsOf({ details }: ReportedChange): unknown {
  return Object.fromEntries(
    details.map(({ name, old, now }) => [
      name,
      {
        ...(old.length > 0 && { old: valueOf(name, old) }),
        ...(now.length > 0 && { new: valueOf(name, now) }),
      },
    ]),
  );
}

function valueOf(name: string, values: readonly string[]): unknown {
  if (values.length !== 1) return values.map((value) => textInJson(value));
  const [value = ''] = values;
  // An inode has up to 64 bits.
  return numeric.has(name) && Number.isSafeInteger(Number(value)) ? Number(value) : textInJson(value);
}
