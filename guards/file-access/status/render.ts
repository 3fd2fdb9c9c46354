/** File access in the report as text. */
import { holderName } from '../../../guard/lease-holder.ts';
import { agoText } from '../../../lib/output/ago.ts';
import { printable } from '../../../lib/output/printable.ts';
import { type Cell, paint, renderTable, type Row, type RenderOptions } from '../../../lib/output/table.ts';
import type { FileAccessFields, FileAccessNodeFields, PolicyProblemReport, PolicyReport } from './report.ts';
import { counted } from '../../../lib/output/words.ts';

/** Nodes of a policy that are named. */
const MANY_NODES = 20;

/** One line over all; empty where there is no policy. */
export function policyHeadline(
  policies: readonly PolicyReport[],
  namespace: string | undefined,
  colour: boolean,
): string {
  const all = policies.length;
  if (all === 0) return '';
  const failing = policies.filter((policy) => !policy.guarded).length;
  const where = namespace === undefined ? '' : ` in namespace ${namespace}`;
  let text = `All ${all} policies${where} guard everything they request.`;
  if (failing > 0) {
    text = `${failing} of ${all} ${all === 1 ? 'policy' : 'policies'}${where} ${failing === 1 ? 'does' : 'do'} not guard everything requested.`;
  } else if (all === 1) text = `The policy${where} guards everything it requests.`;
  return paint(failing === 0 ? 'green' : 'red', text, colour);
}

/** A row for each, with its nodes and problems below; empty where there is none. */
export function policyTable(
  policies: readonly PolicyReport[],
  nowMs: number,
  options: RenderOptions,
): string {
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
    note: [...partTexts(policy, nowMs), ...policy.problems.map(problemText)].join('\n'),
  }));
  const head = ['POLICY', 'TRAPS', 'CONTAINERS', 'FILES', 'LAST ALERT', 'GUARDED'];
  return renderTable(rows, { head, ...options });
}

/** What each node has of it, where there are several. */
function partTexts({ nodes }: PolicyReport, nowMs: number): string[] {
  if (nodes.length < 2) return [];
  const texts = nodes.slice(0, MANY_NODES).map(({ name, containers, files, lastAlertTime }) => {
    const alert = lastAlertTime === null ? '' : `, last alert ${agoText(nowMs - Date.parse(lastAlertTime))}`;
    return `node ${name}: ${counted(files, 'file')} in ${counted(containers, 'container')}${alert}`;
  });
  const more = nodes.length - texts.length;
  return more === 0 ? texts : [...texts, `and ${counted(more, 'more node')}`];
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

export const nodeColumns: readonly string[] = ['ALERTED BY', 'KERNEL', 'CONTAINERS', 'FILES'];

export function nodeCells(name: string, { kernel, loader, containers, files }: FileAccessNodeFields): Cell[] {
  return [
    loaderCell(name, loader),
    kernel?.slice(0, 8) ?? '-',
    String(containers ?? '-'),
    String(files ?? '-'),
  ];
}

/** Who alerts there: mostly the agent of the node itself. */
function loaderCell(name: string, loader: FileAccessNodeFields['loader']): Cell {
  const renewed = loader.renewedSecondsAgo === null ? '' : `, ${agoText(loader.renewedSecondsAgo * 1000)}`;
  if (loader.state === 'unknown') return 'not known';
  if (loader.state === 'free') return { text: 'nobody', style: 'red' };
  const who = printable(holderName(loader));
  const text = `${who === name ? 'itself' : who}${renewed}`;
  return loader.state === 'held' ? text : { text: `nobody? ${text}`, style: 'red' };
}

/** Nothing where KiveData may not be read. */
export function kiveDataLines({ total, orphans }: FileAccessFields['kiveData']): string[] {
  if (total === null) return [];
  const of = orphans === null || orphans === 0 ? '' : `, ${orphans} of deleted policies`;
  return [`KiveData: ${total}${of}`];
}
