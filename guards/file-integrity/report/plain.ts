/** Writes the report in the default format of AIDE 0.18, which users of the File Integrity Operator know. */
import { attributeExpression, describeTime, fields, typeNames } from './fields.ts';
import { e2fsLetters } from '../model/e2fs-attributes.ts';
import { printable } from './printable.ts';
import { exitBits, isAtLeast, outline } from './report.ts';
import type { AttributeDetail, Report, ReportedChange, ReportOptions, RunFacts } from '../model/report.ts';

/** AIDE's lines have 80 characters: a label, and two columns of values. */
const labelWidth = 10;
const columnWidth = 33;
const valueWidth = columnWidth - 1;
const ruler = '-'.repeat(51);
const labels = new Map(fields.map(({ name, label }) => [name, label]));

/** Yields the report in pieces, since it may be long. Empty if the report is quiet and there are no findings. */
export function* plainReport(report: Report, options: ReportOptions, facts: RunFacts): Generator<string> {
  const { counts, changes, redefined, problems, omitted } = report;
  const { level } = options;
  const bits = exitBits(counts);
  if (options.quiet && bits === 0 && counts.problems === 0) return;
  const summarized = isAtLeast(level, 'summary');
  const listed = isAtLeast(level, 'list_entries');
  const compared = facts.action !== 'init';

  if (listed) {
    for (const { path, difference } of redefined) {
      yield `Entry ${printable(path)} in databases has different attributes: ${difference}\n`;
    }
  }
  if (summarized)
    yield `Start timestamp: ${describeTime(Math.floor(facts.startedMs / 1000))} (${facts.program})\n`;
  yield `${outline(facts, counts)}\n`;
  if (summarized) {
    if (facts.written !== undefined) yield `New AIDE database written to ${facts.written}\n`;
    yield configLine(options, facts);
  }
  if (listed) yield reportOptionLines(options);
  if (summarized) {
    yield compared && bits !== 0
      ? `\nSummary:\n  Total number of entries:\t${counts.total}\n  Added entries:\t\t${counts.added}\n` +
        `  Removed entries:\t\t${counts.removed}\n  Changed entries:\t\t${counts.changed}`
      : `\nNumber of entries:\t${counts.total}`;
    if (counts.problems > 0) yield `\n  Entries that could not be read:\t${counts.problems}`;
  }
  if (listed && compared) yield* lists(report, options);
  if (compared) {
    const reported = changes.filter(({ details }) => details.length > 0);
    if (reported.length > 0) yield headline('Detailed information about changes');
    for (const change of reported) yield* detailLines(change);
  }
  if (listed && problems.length > 0) {
    yield headline('Entries that could not be read: their state is unknown');
    for (const { path, code, message } of problems) {
      yield `\n${printable(path)}: ${printable(Buffer.from(message).toString('latin1'))} (${code})`;
    }
  }
  if (omitted > 0) yield `\n\n${omitted} more findings are counted above but not shown here.`;
  if (summarized) {
    const seconds = Math.floor(facts.endedMs / 1000) - Math.floor(facts.startedMs / 1000);
    const runTime = `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
    yield `\n\nEnd timestamp: ${describeTime(Math.floor(facts.endedMs / 1000))} (run time: ${runTime})\n`;
  }
}

function headline(text: string): string {
  return `\n\n${ruler}\n${text}:\n${ruler}\n`;
}

function configLine(options: ReportOptions, { configVersion }: RunFacts): string {
  const parts = [];
  if (configVersion !== undefined) parts.push(`Config version used: ${configVersion}`);
  if (options.level !== 'changed_attributes') parts.push(`Report level: ${options.level}`);
  return parts.length === 0 ? '' : `${parts.join(' | ')}\n`;
}

function reportOptionLines(options: ReportOptions): string {
  const sets: [string, number][] = [
    ['Ignored added attributes', options.ignoredAdded],
    ['Ignored removed attributes', options.ignoredRemoved],
    ['Ignored changed attributes', options.ignoredChanged],
    ['Forced attributes', isAtLeast(options.level, 'changed_attributes') ? options.forced : 0],
  ];
  let lines = '';
  for (const [name, set] of sets) if (set !== 0) lines += `${name}: ${attributeExpression(set)}\n`;
  if (options.ignoredE2fs !== 0) lines += `Ignored e2fs attributes: ${e2fsLetters(options.ignoredE2fs)}\n`;
  return lines;
}

const kinds = ['added', 'removed', 'changed'] as const;

function* lists({ changes, counts }: Report, options: ReportOptions): Generator<string> {
  const present = kinds.filter((kind) => counts[kind] > 0);
  if (present.length === 0) return;
  if (!options.grouped) {
    yield headline(capitalized(`${listOf(present)} entries`));
    for (const change of changes) yield line(change, options);
    return;
  }
  for (const kind of present) {
    yield headline(capitalized(`${kind} entries`));
    for (const change of changes) if (change.kind === kind) yield line(change, options);
  }
}

function listOf(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1) ?? ''}`;
}

function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function line({ kind, path, summary }: ReportedChange, { summarizeChanges }: ReportOptions): string {
  return `\n${summarizeChanges && summary !== '' ? summary : kind}: ${printable(path)}`;
}

function* detailLines({ path, type, details }: ReportedChange): Generator<string> {
  yield `\n${type === undefined ? '' : `${typeNames[type]}: `}${printable(path)}\n`;
  for (const detail of details) yield* columns(detail);
}

/** Old and new values side by side, on several lines if they are too long. */
function* columns({ name, old, now }: AttributeDetail): Generator<string> {
  let label = `${(labels.get(name) ?? name).padEnd(labelWidth)}:`;
  for (let at = 0; at < Math.max(old.length, now.length); at++) {
    const before = broken(printable(old[at] ?? ''));
    const after = broken(printable(now[at] ?? ''));
    for (let row = 0; row < Math.max(before.length, after.length); row++) {
      const left = (before[row] ?? '').padEnd(columnWidth);
      const right = after[row] ?? '';
      if (old.length === 0) yield ` ${label} ${' '.repeat(columnWidth)}  ${right}\n`;
      else if (now.length === 0) yield ` ${label} ${before[row] ?? ''}\n`;
      else yield ` ${label} ${left}| ${right}\n`;
      label = ' '.repeat(labelWidth + 1);
    }
  }
}

function broken(value: string): string[] {
  // Split by characters, so that surrogate pairs stay together.
  const characters = value.length > valueWidth ? Array.from(value) : undefined;
  if (characters === undefined) return [value];
  const rows: string[] = [];
  for (let at = 0; at < characters.length; at += valueWidth)
    rows.push(characters.slice(at, at + valueWidth).join(''));
  return rows;
}
