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
import { type Examined, isUnread, verdictOf } from './examine.ts';
import type { ReadGuard } from './reader.ts';
import type { GuardReport, NodeReport, StatusReport } from './report.ts';
import { counted, someOf } from '../../lib/output/words.ts';

const INDENT = 4;
/** Beyond this number, only nodes with a problem are shown. */
const MANY_NODES = 20;
const NAMED_NODES = 3;

/** The report, ending with a newline; the tables are those of the guards' sections. */
export function renderStatus(
  examined: Examined,
  guards: readonly ReadGuard[],
  options: RenderOptions & { readonly isWide?: boolean },
): string {
  return `${[
    headline(examined, guards, options),
    ...guards.map((one) => one.section?.table(verdictOf(examined.verdicts, one), options) ?? ''),
    nodeTable(examined.report, guards, options),
    foot(examined.report, guards, options),
  ]
    .filter((part) => part !== '')
    .join('\n\n')}\n`;
}

function headline(
  { report: { server, namespace }, verdicts }: Examined,
  guards: readonly ReadGuard[],
  options: RenderOptions,
): string {
  const { widthColumns, colour } = options;
  const lines = guards
    .map((one) => one.section?.headline(verdictOf(verdicts, one), options) ?? '')
    .filter((line) => line !== '');
  if (lines.length === 0) {
    const where = namespace === null ? '' : ` in namespace ${namespace}`;
    const text = guards.some(isUnread)
      ? `There are no policies${where} that you may read: whether anything is guarded is unknown.`
      : `There are no policies${where}: nothing is guarded.`;
    lines.push(paint('yellow', text, colour));
  }
  const [first = '', ...more] = lines;
  // On a line of its own where both do not fit.
  const gap = displayWidth(first) + 2 + server.length <= widthColumns ? '  ' : '\n';
  return [`${first}${gap}${paint('dim', server, colour)}`, ...more].join('\n');
}

function nodeTable(
  { nodes, guards: reports }: StatusReport,
  guards: readonly ReadGuard[],
  options: RenderOptions & { readonly isWide?: boolean },
): string {
  if (nodes.length === 0) return '';
  const sections = guards.flatMap(({ installed, section }) =>
    installed === false ? [] : (section?.nodes ?? []),
  );
  const lines = new Map<string, string[]>();
  for (const guard of reports) {
    for (const node of guard.notOn) {
      // A guard that is switched off is mentioned only if users have objects for it.
      if (node.state === 'starting' || (node.state === 'off' && !guard.objects)) continue;
      lines.set(node.name, [...(lines.get(node.name) ?? []), problemText(guard, node)]);
    }
  }
  for (const { name, losses } of nodes) {
    const texts = losses.map(
      ({ guard, what, count }) => `${guard === null ? '' : `${guard}: `}${count} ${what}`,
    );
    if (texts.length === 0) continue;
    const line = printable(`node ${name}: lost since its agent started: ${texts.join(', ')}`);
    lines.set(name, [...(lines.get(name) ?? []), line]);
  }
  const all = nodes.map((node) => ({
    node,
    parts: sections.map((section) => section.of(node.name)),
    texts: lines.get(node.name) ?? [],
  }));
  const shown =
    nodes.length <= MANY_NODES || options.isWide === true
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
  { name, state, reason }: GuardReport['notOn'][number],
): string {
  const what = { starting: 'is starting', waiting: 'waits', unavailable: 'is not available', off: 'is off' }[
    state
  ];
  const why = reason.replace(/\s*\n\s*/g, ' ');
  return printable(`node ${name}: ${guard} ${what}${why === '' ? '.' : `: ${why}`}`);
}

function agentCell({ agent, agentPod }: NodeReport): Cell {
  // An agent that runs but is not ready says why in its log.
  if (agent === 'running' && agentPod?.ready === false)
    return { text: 'running, not ready', style: 'yellow' };
  const style = { running: 'green', dead: 'red', stopped: 'red', 'not-seen': 'yellow' } as const;
  return { text: agent === 'not-seen' ? 'not seen' : agent, style: style[agent] };
}

function foot(
  report: StatusReport,
  guards: readonly ReadGuard[],
  { widthColumns, colour }: RenderOptions,
): string {
  const lines: FootLine[] = [...operatorLines(report)];
  const missing: string[] = [];
  const off: string[] = [];
  for (const [at, { guard, installed, section }] of guards.entries()) {
    if (installed === false) missing.push(guard.name);
    else lines.push(...(section?.foot ?? []).map((text) => ({ text })));
    if (report.guards[at]?.state === 'off') off.push(guard.name);
  }
  lines.push(...modeLines(report).map((text) => ({ text })));
  if (off.length > 0) lines.push({ text: `Switched off by --guards: ${off.join(', ')}.` });
  if (missing.length > 0) {
    lines.push({ text: `Not in use here: ${missing.join(', ')}. The API does not serve their resources.` });
  }
  const unread = guards.filter(isUnread).map(({ guard }) => guard.name);
  if (unread.length > 0) {
    const text = `Unknown: what ${unread.join(', ')} ${unread.length === 1 ? 'is' : 'are'} asked for may not be read.`;
    lines.push({ text, isDoubtful: true });
  }
  for (const { resource, why } of report.notRead) {
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

/** Blind spots of guards that have objects; nodes with the same mode and blind spots share a line. */
function modeLines({ guards, nodes }: StatusReport): string[] {
  return guards
    .filter(({ objects }) => objects !== null && objects > 0)
    .flatMap(({ name }) => {
      const byText = new Map<string, string[]>();
      for (const node of nodes) {
        const { mode = null, blindSpots = [] } = node.guards[name] ?? {};
        if (mode === null || blindSpots.length === 0) continue;
        const text = `by ${mode}; not covered: ${blindSpots.join(', ')}`;
        byText.set(text, [...(byText.get(text) ?? []), node.name]);
      }
      return [...byText].map(([text, names]) =>
        printable(`${name} on ${someOf(names, NAMED_NODES)}: ${text}`),
      );
    });
}

function operatorLines({ operator, guards, nodes }: StatusReport): FootLine[] {
  const agents = nodes.filter(({ agent }) => agent === 'running').length;
  const isDoubtful = operator.state !== 'held' && operator.state !== 'unknown';
  const lines: FootLine[] = [{ text: `Operator: ${operatorText(operator, agents)}`, isDoubtful }];
  for (const { name, operator: own } of guards) {
    if (own === null || own.state === 'running' || own.state === 'off') continue;
    const because = own.reason === '' ? '' : `: ${printable(own.reason)}`;
    lines.push({ text: `In the operator, ${name} is ${own.state}${because}`, isDoubtful: true });
  }
  return lines;
}

function operatorText(report: HolderReport, agents: number): string {
  const { state, renewedSecondsAgo } = report;
  const renewed = renewedSecondsAgo === null ? '' : `, ${agoText(renewedSecondsAgo * 1000)}`;
  const rest = 'conditions are not updated and nothing is cleaned up.';
  const still =
    agents === 0
      ? `No agent runs either: ${rest}`
      : `${counted(agents, 'agent')} ${agents === 1 ? 'runs' : 'run'}, but ${rest}`;
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
