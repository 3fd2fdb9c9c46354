/**
 * The report for people.
 *
 * @module
 */
import { printable } from '../../shared/observe/printable.ts';
import { type Cell, indentText, paint, renderTable, type Row, wrapText } from '../../shared/observe/table.ts';
import { agoText } from './ago.ts';
import { holderName } from './nodes.ts';
import { integrityHeadline, integrityTable } from './render-integrity.ts';
import type { HolderReport, NodeReport, PolicyProblemReport, PolicyReport, StatusReport } from './report.ts';

export interface RenderOptions {
  /** Where sentences wrap. */
  readonly widthColumns: number;
  readonly colour: boolean;
}

const INDENT = 4;
/** Of more nodes only those are shown that something is the matter with. */
const MANY_NODES = 20;

/** The report, ending with a newline. */
export function renderStatus(report: StatusReport, options: RenderOptions): string {
  const nowMs = Date.parse(report.time);
  return `${[
    headline(report, options),
    policyTable(report, nowMs, options),
    integrityTable(report.fileIntegrities ?? [], nowMs, options),
    nodeTable(report, options),
    foot(report, options),
  ]
    .filter((part) => part !== '')
    .join('\n\n')}\n`;
}

function headline(
  { policies, fileIntegrities, server, namespace }: StatusReport,
  { widthColumns, colour }: RenderOptions,
): string {
  const integrity = integrityHeadline(fileIntegrities ?? [], colour);
  if (policies.length === 0 && integrity !== '') return `${integrity}\n${paint('dim', server, colour)}`;
  const failing = policies.filter((policy) => !policy.guarded).length;
  const all = policies.length;
  const where = namespace === null ? '' : ` in namespace ${namespace}`;
  let text = `There is no policy${where}: nothing is asked for.`;
  if (failing > 0) {
    text = `${failing} of ${all} ${all === 1 ? 'policy' : 'policies'}${where} ${failing === 1 ? 'does' : 'do'} not guard all that is asked for.`;
  } else if (all === 1) text = `The policy${where} guards all that it asks for.`;
  else if (all > 1) text = `All ${all} policies${where} guard what they ask for.`;
  const line = paint(all === 0 ? 'yellow' : failing === 0 ? 'green' : 'red', text, colour);
  // On a line of its own where both do not fit.
  const first =
    text.length + 2 + server.length <= widthColumns
      ? `${line}  ${paint('dim', server, colour)}`
      : `${line}\n${paint('dim', server, colour)}`;
  return integrity === '' ? first : `${first}\n${integrity}`;
}

function policyTable({ policies }: StatusReport, nowMs: number, options: RenderOptions): string {
  if (policies.length === 0) return '';
  const rows = policies.map((policy): Row => ({
    cells: [
      `${policy.namespace}/${policy.name}`,
      String(policy.traps),
      String(policy.containers),
      String(policy.files),
      policy.lastAlertTime === null ? '-' : agoText(nowMs - Date.parse(policy.lastAlertTime)),
      readiness(policy),
    ],
  }));
  const head = ['POLICY', 'TRAPS', 'CONTAINERS', 'FILES', 'LAST ALERT', 'GUARDED'];
  const [title = '', ...lines] = renderTable(rows, { head, ...options }).split('\n');
  const out = [title];
  lines.forEach((line, index) => {
    out.push(line);
    const policy = policies[index];
    if (policy === undefined) return;
    const texts = [...partTexts(policy, nowMs), ...policy.problems.map(problemText)];
    out.push(...texts.map((text) => indentText(text, INDENT, options.widthColumns)));
  });
  return out.join('\n');
}

/** What each node has of it, where there are several. */
function partTexts({ nodes }: PolicyReport, nowMs: number): string[] {
  if (nodes.length < 2) return [];
  const texts = nodes.slice(0, MANY_NODES).map(({ name, containers, files, lastAlertTime }) => {
    const alert = lastAlertTime === null ? '' : `, last alert ${agoText(nowMs - Date.parse(lastAlertTime))}`;
    return `node ${name}: ${count(files, 'file')} in ${count(containers, 'container')}${alert}`;
  });
  const more = nodes.length - texts.length;
  return more === 0 ? texts : [...texts, `and ${count(more, 'more node')}`];
}

function count(number: number, one: string): string {
  return `${number} ${one}${number === 1 ? '' : 's'}`;
}

function readiness({ guarded, deleting, ready }: PolicyReport): Cell {
  if (deleting) return { text: 'deleting', style: 'yellow' };
  if (!guarded) return { text: 'no', style: 'red' };
  // The operator has not said so yet, or not of this version.
  if (ready?.isCurrent !== true) return { text: 'yes, unconfirmed', style: 'yellow' };
  return { text: 'yes', style: 'green' };
}

function problemText({ kind, message, node, container, path }: PolicyProblemReport): string {
  const where = node === undefined ? '' : `node ${node}: `;
  if (kind === 'file-missing' && path !== undefined) {
    return printable(`${where}${path} in ${container ?? ''}: ${message}`);
  }
  return printable(`${where}${message}`);
}

function nodeTable({ nodes, policies }: StatusReport, options: RenderOptions): string {
  if (nodes.length === 0) return '';
  const named = new Set(policies.flatMap(({ problems }) => problems.map(({ node }) => node)));
  const shown =
    nodes.length <= MANY_NODES ? nodes : nodes.filter((node) => named.has(node.name) || isDoubtful(node));
  const hidden = nodes.length - shown.length;
  const rest =
    hidden === 0
      ? ''
      : `${shown.length > 0 ? '\n' : ''}${hidden} ${shown.length > 0 ? 'more ' : ''}nodes: nothing is the matter with them`;
  if (shown.length === 0) return rest;
  const rows = shown.map((node): Row => ({
    cells: [
      node.name,
      agentCell(node),
      loaderCell(node),
      node.kernel?.slice(0, 8) ?? '-',
      String(node.containers ?? '-'),
      String(node.files ?? '-'),
    ],
  }));
  return (
    renderTable(rows, {
      head: ['NODE', 'AGENT', 'ALERTED BY', 'KERNEL', 'CONTAINERS', 'FILES'],
      ...options,
    }) + rest
  );
}

function isDoubtful({ agent, loader }: NodeReport): boolean {
  return agent !== 'running' || loader.state === 'stale' || loader.state === 'free';
}

function agentCell({ agent, agentPod }: NodeReport): Cell {
  if (agent === 'running') return { text: 'running', style: 'green' };
  if (agentPod !== null) return { text: 'not ready', style: 'red' };
  return { text: 'not seen', style: 'yellow' };
}

/** Who alerts there: mostly the agent of the node itself. */
function loaderCell({ name, loader }: NodeReport): Cell {
  const renewed = loader.renewedSecondsAgo === null ? '' : `, ${agoText(loader.renewedSecondsAgo * 1000)}`;
  if (loader.state === 'unknown') return 'not known';
  if (loader.state === 'free') return { text: 'nobody', style: 'red' };
  const who = printable(holderName(loader));
  const text = `${who === name ? 'itself' : who}${renewed}`;
  return loader.state === 'held' ? text : { text: `nobody? ${text}`, style: 'red' };
}

function foot({ operator, kiveData, notRead }: StatusReport, options: RenderOptions): string {
  const { widthColumns, colour } = options;
  const lines = [`Operator: ${operatorText(operator)}`];
  if (kiveData.total !== null) {
    const of =
      kiveData.orphans === null || kiveData.orphans === 0
        ? ''
        : `, ${kiveData.orphans} of policies that are gone`;
    lines.push(`KiveData: ${kiveData.total}${of}`);
  }
  for (const { resource, why } of notRead) lines.push(`Not read: ${resource}. ${printable(why)}`);
  return lines
    .map((line, index) => {
      const [first = '', ...more] = wrapText(line, widthColumns - INDENT);
      const doubtful =
        index === 0 ? operator.state !== 'held' && operator.state !== 'unknown' : line.startsWith('Not read');
      const text = [first, ...more.map((one) => ' '.repeat(INDENT) + one)].join('\n');
      return doubtful ? paint('yellow', text, colour) : text;
    })
    .join('\n');
}

function operatorText(report: HolderReport): string {
  const { state, renewedSecondsAgo } = report;
  const renewed = renewedSecondsAgo === null ? '' : `, ${agoText(renewedSecondsAgo * 1000)}`;
  const still = 'What is guarded stays so; conditions and the clean-up after pods stand still.';
  switch (state) {
    case 'held':
      return `${printable(holderName(report))}${renewed}`;
    case 'stale':
      return `none, as it seems: ${printable(holderName(report))} has not renewed its lease${renewed.replace(/^, (.*) ago$/, ' for $1')}. ${still}`;
    case 'free':
      return `none. ${still}`;
    case 'unknown':
      return 'not known';
  }
}
