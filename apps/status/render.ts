import { type HolderReport, holderName } from '../../guard/lease-holder.ts';
import { agoText } from '../../lib/output/ago.ts';
import { printable } from '../../lib/output/printable.ts';
import {
  type Cell,
  displayWidth,
  paint,
  renderTable,
  type Row,
  wrapText,
  type RenderOptions,
} from '../../lib/output/table.ts';
import type { ReadGuard } from './reader.ts';
import type { GuardReport, NodeReport, StatusReport } from './report.ts';
import { counted } from '../../lib/output/words.ts';

const INDENT = 4;
/** Of more nodes only those are shown that something is the matter with. */
const MANY_NODES = 20;

/** The report, ending with a newline; the tables are those of the guards' sections. */
export function renderStatus(
  report: StatusReport,
  guards: readonly ReadGuard[],
  options: RenderOptions,
): string {
  return `${[
    headline(report, guards, options),
    ...guards.map(({ section }) => section?.table(options) ?? ''),
    nodeTable(report, guards, options),
    foot(report, guards, options),
  ]
    .filter((part) => part !== '')
    .join('\n\n')}\n`;
}

function headline(
  { guards: reports, server, namespace }: StatusReport,
  guards: readonly ReadGuard[],
  options: RenderOptions,
): string {
  const { widthColumns, colour } = options;
  const lines = guards.map(({ section }) => section?.headline(options) ?? '').filter((line) => line !== '');
  if (lines.length === 0) {
    const where = namespace === null ? '' : ` in namespace ${namespace}`;
    lines.push(paint('yellow', `There are no policies${where}: nothing is guarded.`, colour));
  }
  for (const { name, guarded, nodes } of reports) {
    if (guarded || nodes.length === 0) continue;
    lines.push(paint('red', `${name} does not work on ${counted(nodes.length, 'node')}.`, colour));
  }
  const [first = '', ...more] = lines;
  // On a line of its own where both do not fit.
  const gap = displayWidth(first) + 2 + server.length <= widthColumns ? '  ' : '\n';
  return [`${first}${gap}${paint('dim', server, colour)}`, ...more].join('\n');
}

function nodeTable(
  { nodes, guards: reports }: StatusReport,
  guards: readonly ReadGuard[],
  options: RenderOptions,
): string {
  if (nodes.length === 0) return '';
  const sections = guards.flatMap(({ installed, section }) =>
    installed === false ? [] : (section?.nodes ?? []),
  );
  const lines = new Map<string, string[]>();
  for (const guard of reports) {
    for (const node of guard.nodes) {
      lines.set(node.name, [...(lines.get(node.name) ?? []), problemText(guard, node)]);
    }
  }
  const all = nodes.map((node) => ({
    node,
    parts: sections.map((section) => section.of(node.name)),
    texts: lines.get(node.name) ?? [],
  }));
  const shown =
    nodes.length <= MANY_NODES
      ? all
      : all.filter(
          ({ node, parts, texts }) =>
            node.agent !== 'running' || texts.length > 0 || parts.some((part) => part.isDoubtful),
        );
  const hidden = nodes.length - shown.length;
  const rest =
    hidden === 0
      ? ''
      : `${shown.length > 0 ? '\n' : ''}${hidden} ${shown.length > 0 ? 'more ' : ''}nodes without problems`;
  if (shown.length === 0) return rest;
  const rows = shown.map(({ node, parts, texts }): Row => ({
    cells: [node.name, agentCell(node), ...parts.flatMap(({ cells }) => cells)],
    note: texts.join('\n'),
  }));
  const head = ['NODE', 'AGENT', ...sections.flatMap(({ columns }) => columns)];
  return renderTable(rows, { head, ...options }) + rest;
}

function problemText(
  { name: guard }: GuardReport,
  { name, state, reason }: GuardReport['nodes'][number],
): string {
  const what = state === 'waiting' ? 'waits' : 'is not available';
  const why = reason.replace(/\s*\n\s*/g, ' ');
  return printable(`node ${name}: ${guard} ${what}${why === '' ? '.' : `: ${why}`}`);
}

function agentCell({ agent, agentPod }: NodeReport): Cell {
  if (agent === 'running') return { text: 'running', style: 'green' };
  if (agentPod !== null) return { text: 'not ready', style: 'red' };
  return { text: 'not seen', style: 'yellow' };
}

function foot(
  { guards: reports, operator, notRead }: StatusReport,
  guards: readonly ReadGuard[],
  { widthColumns, colour }: RenderOptions,
): string {
  const lines: FootLine[] = operatorLines(reports, operator);
  const missing: string[] = [];
  for (const { guard, installed, section } of guards) {
    if (installed === false) missing.push(guard.name);
    else lines.push(...(section?.foot ?? []).map((text) => ({ text })));
  }
  if (missing.length > 0)
    lines.push({ text: `Not installed: ${missing.join(', ')}. The API does not serve their resources.` });
  for (const { resource, why } of notRead) {
    lines.push({ text: `Not read: ${resource}. ${printable(why)}`, isDoubtful: true });
  }
  return lines
    .map(({ text, isDoubtful }) => {
      const [first = '', ...more] = wrapText(text, widthColumns - INDENT);
      const wrapped = [first, ...more.map((one) => ' '.repeat(INDENT) + one)].join('\n');
      return isDoubtful === true ? paint('yellow', wrapped, colour) : wrapped;
    })
    .join('\n');
}

interface FootLine {
  readonly text: string;
  readonly isDoubtful?: boolean;
}

/** One line where it is the same for all guards, which mostly one process looks after. */
function operatorLines(reports: readonly GuardReport[], operator: HolderReport): FootLine[] {
  const lineOf = (what: string, holder: HolderReport): FootLine => ({
    text: `${what}: ${operatorText(holder)}`,
    isDoubtful: holder.state !== 'held' && holder.state !== 'unknown',
  });
  if (reports.every((guard) => guard.operator === null || guard.operator.state === operator.state)) {
    return [lineOf('Operator', operator)];
  }
  return reports.flatMap(({ name, operator: holder }) =>
    holder === null ? [] : [lineOf(`Operator of ${name}`, holder)],
  );
}

function operatorText(report: HolderReport): string {
  const { state, renewedSecondsAgo } = report;
  const renewed = renewedSecondsAgo === null ? '' : `, ${agoText(renewedSecondsAgo * 1000)}`;
  const still = 'Guards on nodes keep working; conditions and clean-up are not updated.';
  switch (state) {
    case 'held':
      return `${printable(holderName(report))}${renewed}`;
    case 'stale':
      return `none appears to be running: ${printable(holderName(report))} has not renewed its lease${renewed.replace(/^, (.*) ago$/, ' for $1')}. ${still}`;
    case 'free':
      return `none. ${still}`;
    case 'unknown':
      return 'unknown';
  }
}
