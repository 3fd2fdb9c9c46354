/** File integrity in the report as text. */
import { agoText } from '../../../lib/output/ago.ts';
import { printable } from '../../../lib/output/printable.ts';
import { type Cell, paint, renderTable, type Row, type RenderOptions } from '../../../lib/output/table.ts';
import { problemTexts } from '../../../guard/problem-text.ts';
import type { Verdict } from '../../../guard/verdict.ts';
import type { IntegrityFindingReport, IntegrityNodeReport, Unjudged } from './report.ts';
import { counted, someOf } from '../../../lib/output/words.ts';

/** If there are more nodes, only those with changes or errors are shown. */
const MANY_NODES = 20;
const NAMED_NODES = 3;
/** Limit of the accepted updates shown for a node; the API has more. */
const SHOWN_ACCEPTED = 3;

/** One line about all FileIntegrity objects; empty if there is no FileIntegrity. */
export function integrityHeadline(
  reports: readonly Unjudged[],
  { failing, problems }: Verdict,
  colour: boolean,
): string {
  if (reports.length === 0) return '';
  const nodes = new Map<string, boolean>();
  for (const { nodes: of } of reports) {
    for (const { name, condition } of of) nodes.set(name, nodes.get(name) === true || condition === 'Failed');
  }
  const changed = [...nodes.values()].filter((isChanged) => isChanged).length;
  const sentences: string[] = [];
  if (changed > 0) sentences.push(`Files have changed on ${changed} of ${counted(nodes.size, 'node')}.`);
  if (failing > 0) {
    const all = `${failing} of ${reports.length} FileIntegrity objects`;
    sentences.push(
      problems.every(({ kind }) => kind === 'initializing')
        ? `The first results of ${all} are not there yet.`
        : `${all} ${failing === 1 ? 'is' : 'are'} not being checked.`,
    );
  }
  if (sentences.length > 0) return paint('red', sentences.join(' '), colour);
  return paint('green', `No file has changed on ${counted(nodes.size, 'node')}.`, colour);
}

/** A row for each node; empty if there is no FileIntegrity. */
export function integrityTable(
  reports: readonly Unjudged[],
  verdict: Verdict,
  nowMs: number,
  options: RenderOptions,
): string {
  if (reports.length === 0) return '';
  const rows = reports.flatMap((report): Row[] => {
    const shown = report.nodes.length <= MANY_NODES ? report.nodes : report.nodes.filter(isDoubtful);
    const name = `${report.namespace}/${report.name}`;
    const hidden = report.nodes.length - shown.length;
    const problems = report.deleting ? [] : verdict.of({ kind: 'FileIntegrity', ...report });
    const texts = [...problemTexts(problems, nowMs), ...detectionTexts(report)];
    if (shown.length === 0) {
      const cells = [name, phase(report), hidden > 0 ? `${hidden} nodes` : '-'];
      return [{ cells, note: texts.join('\n') }];
    }
    if (hidden > 0) texts.push(`${hidden} more nodes without changes`);
    return shown.map((node, at) => ({
      cells: nodeCells(name, report, node, nowMs),
      // Lines about a node follow its row; those about all nodes follow the last row.
      note: [...findingTexts(node, nowMs), ...(at === shown.length - 1 ? texts : [])].join('\n'),
    }));
  });
  const head = ['FILE INTEGRITY', 'PHASE', 'NODE', 'RESULT', 'CHECKED', 'CHANGES', 'AT ONCE'];
  return renderTable(rows, { head, ...options });
}

function nodeCells(
  name: string,
  report: Unjudged,
  node: IntegrityNodeReport,
  nowMs: number,
): readonly Cell[] {
  return [
    name,
    phase(report),
    node.name,
    result(node, nowMs),
    node.lastProbeTime === null ? '-' : agoText(nowMs - Date.parse(node.lastProbeTime)),
    changes(node),
    atOnce(node),
  ];
}

function phase({ phase: is, deleting, paused }: Unjudged): Cell {
  if (deleting) return 'deleting';
  if (paused && is !== 'Error') return { text: 'paused', style: 'yellow' };
  if (is === null) return { text: 'waiting for the operator', style: 'yellow' };
  return is === 'Error' ? { text: is, style: 'red' } : is;
}

function result({ condition, progress }: IntegrityNodeReport, nowMs: number): Cell {
  switch (condition) {
    case null:
      return {
        text: progress === null ? 'not yet' : `not yet: ${progressText(progress, nowMs)}`,
        style: 'yellow',
      };
    case 'Succeeded':
      return { text: condition, style: 'green' };
    case 'Failed':
    case 'Errored':
      return { text: condition, style: 'red' };
  }
}

function progressText(
  { entries, entriesPerSecond, since }: NonNullable<IntegrityNodeReport['progress']>,
  nowMs: number,
): string {
  return `${counted(entries, 'entry', 'entries')}, ${entriesPerSecond}/s, began ${agoText(nowMs - Date.parse(since))}`;
}

function changes({ filesAdded, filesChanged, filesRemoved }: IntegrityNodeReport): string {
  const parts = [
    [filesAdded, 'added'],
    [filesChanged, 'changed'],
    [filesRemoved, 'removed'],
  ] as const;
  return (
    parts
      .filter(([number]) => number > 0)
      .map(([number, what]) => `${number} ${what}`)
      .join(', ') || '-'
  );
}

function atOnce({ detection }: IntegrityNodeReport): string {
  switch (detection?.events) {
    case 'sensor':
      return 'with author';
    case 'inotify':
      return 'without author';
    case 'none':
      return 'no';
    case undefined:
      return '-';
  }
}

/** Why changes are not detected immediately, or why their authors are unknown; each reason once, with its nodes. */
function detectionTexts({ nodes }: Unjudged): string[] {
  const byReason = new Map<string, string[]>();
  for (const node of nodes) {
    const { name, detection } = node;
    if (detection === null) continue;
    const { events, reason, unwatchedDirectories, lostEvents, lostAuthors } = detection;
    const { directoriesWithoutAuthors, packagesReason } = detection;
    const reported: string[] = [];
    if (events === 'inotify') reported.push(`The author of changes is unknown: ${reason}`);
    if (events === 'none') reported.push(`Changes are detected by scans only: ${reason}`);
    if (events !== 'none' && unwatchedDirectories > 0) {
      reported.push(
        `Changes in ${counted(unwatchedDirectories, 'directory', 'directories')} are detected by scans only${events === 'sensor' && reason !== '' ? `: ${reason}` : '.'}`,
      );
    }
    if (lostEvents > 0) reported.push('Events were lost; a full scan followed.');
    if (lostAuthors > 0 && lacksAuthors(node))
      reported.push('Records of the authors of changes were lost; these changes have no author.');
    if (events === 'sensor' && directoriesWithoutAuthors > 0) {
      const directories = counted(directoriesWithoutAuthors, 'directory', 'directories');
      reported.push(`Changes in ${directories} beyond the capacity of the sensor have no author.`);
    }
    // Without the sensor, updates are never recognized, because authors of changes are unknown.
    if (events === 'sensor' && packagesReason !== undefined)
      reported.push(`Updates of packages are not recognized: ${packagesReason}`);
    for (const text of reported) byReason.set(text, [...(byReason.get(text) ?? []), name]);
  }
  return [...byReason].map(([text, names]) =>
    printable(`${names.length === 1 ? 'node' : 'nodes'} ${someOf(names, NAMED_NODES)}: ${text}`),
  );
}

function findingTexts(node: IntegrityNodeReport, nowMs: number): string[] {
  const { findings, findingCount, packageUpdates, reading } = node;
  const texts = findings.map((finding) => findingText(finding, nowMs));
  const explained = packageUpdates.filter(({ accepted }) => !accepted);
  const more = findingCount - findings.length - explainedFiles(node);
  const newest = packageUpdates.filter(({ accepted }) => accepted).slice(-SHOWN_ACCEPTED);
  return [
    ...texts,
    ...(more > 0 ? [`and ${more} more`] : []),
    ...explained.map((one) => `${counted(one.files, 'file')} explained by ${updateText(one, nowMs)}`),
    ...newest.map((one) => `${counted(one.files, 'file')} accepted: ${updateText(one, nowMs)}`),
    ...(reading === null ? [] : [readingText(reading)]),
  ];
}

function readingText({ count, files }: NonNullable<IntegrityNodeReport['reading']>): string {
  const [first = ''] = files;
  const named = count === 1 ? first : `${first} and ${counted(count - 1, 'other large file')}`;
  return `still being read: ${named}`;
}

function explainedFiles({ packageUpdates }: IntegrityNodeReport): number {
  return packageUpdates.reduce((sum, { accepted, files }) => (accepted ? sum : sum + files), 0);
}

function updateText({ update, time }: IntegrityNodeReport['packageUpdates'][number], nowMs: number): string {
  return `${printable(update)} ${agoText(nowMs - Date.parse(time))}`;
}

function findingText(
  { path, change, attributes, seen, author, last }: IntegrityFindingReport,
  nowMs: number,
): string {
  const what = attributes.length === 0 ? '' : ` (${attributes.join(', ')})`;
  const touched =
    last === undefined || last.author === author ? '' : `; touched ${sightingText(last, nowMs)}`;
  // Paths and texts about authors are already escaped for printing.
  return `${path} ${change}${what} ${sightingText({ seen, author }, nowMs)}${touched}`;
}

function sightingText(
  { seen, author }: Pick<IntegrityFindingReport, 'seen' | 'author'>,
  nowMs: number,
): string {
  return `${agoText(nowMs - Date.parse(seen))}${author === null ? '' : ` by ${author}`}`;
}

/** Whether authors of findings may have been lost. For findings that are only counted, this is unknown: then it is true. */
function lacksAuthors(node: IntegrityNodeReport): boolean {
  const { findings, findingCount } = node;
  return (
    findingCount - explainedFiles(node) > findings.length ||
    findings.some(({ author, seenBy }) => author === null && seenBy === 'event')
  );
}

function isDoubtful({ condition }: IntegrityNodeReport): boolean {
  return condition !== 'Succeeded';
}
