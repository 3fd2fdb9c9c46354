/** File access in the report as text. */
import { holderName } from '../../../guard/lease-holder.ts';
import { agoText } from '../../../lib/output/ago.ts';
import { printable } from '../../../lib/output/printable.ts';
import { type Cell, paint, renderTable, type Row, type RenderOptions } from '../../../lib/output/table.ts';
import { problemTexts } from '../../../guard/problem-text.ts';
import type { Verdict } from '../../../guard/verdict.ts';
import type { FileAccessFields, FileAccessNodeFields, Unjudged } from './report.ts';
import { counted } from '../../../lib/output/words.ts';

type UnjudgedPolicy = Unjudged['policies'][number];

/** Maximum number of nodes listed for one policy. */
const MANY_NODES = 20;

/** One line about all policies; empty if there is no policy. */
export function policyHeadline(
  all: number,
  failing: number,
  namespace: string | undefined,
  colour: boolean,
): string {
  if (all === 0) return '';
  const where = namespace === undefined ? '' : ` in namespace ${namespace}`;
  if (failing > 0) {
    const are = failing === 1 ? 'is' : 'are';
    return paint('red', `${failing} of ${all} policies${where} ${are} not fully in effect.`, colour);
  }
  const whose = all === 1 ? `the policy${where}` : `${all} policies${where}`;
  return paint('green', `All files of ${whose} are watched.`, colour);
}

/** A row for each policy, with its nodes and problems below it; empty if there is no policy. */
export function policyTable(
  policies: Unjudged['policies'],
  verdict: Verdict,
  nowMs: number,
  options: RenderOptions,
): string {
  if (policies.length === 0) return '';
  const rows = policies.map((policy): Row => {
    const problems = policy.deleting ? [] : verdict.of({ kind: 'KivePolicy', ...policy });
    return {
      cells: [
        `${policy.namespace}/${policy.name}`,
        String(policy.traps),
        String(policy.containers),
        String(policy.files),
        policy.lastAlertTime === null ? '-' : agoText(nowMs - Date.parse(policy.lastAlertTime)),
        readiness(policy, problems.length === 0),
      ],
      note: [...partTexts(policy, nowMs), ...problemTexts(problems, nowMs)].join('\n'),
    };
  });
  const head = ['POLICY', 'TRAPS', 'CONTAINERS', 'FILES', 'LAST ALERT', 'GUARDED'];
  return renderTable(rows, { head, ...options });
}

/** A line for each node, if there are several. */
function partTexts({ nodes }: UnjudgedPolicy, nowMs: number): string[] {
  if (nodes.length < 2) return [];
  const texts = nodes.slice(0, MANY_NODES).map(({ name, containers, host, files, lastAlertTime }) => {
    const alert = lastAlertTime === null ? '' : `, last alert ${agoText(nowMs - Date.parse(lastAlertTime))}`;
    const where = [
      ...(containers > 0 || !host ? [`in ${counted(containers, 'container')}`] : []),
      ...(host ? ['of its own'] : []),
    ].join(' and ');
    return `node ${name}: ${counted(files, 'file')} ${where}${alert}`;
  });
  const more = nodes.length - texts.length;
  return more === 0 ? texts : [...texts, `and ${counted(more, 'more node')}`];
}

function readiness({ deleting, ready }: UnjudgedPolicy, guarded: boolean): Cell {
  if (deleting) return { text: 'deleting', style: 'yellow' };
  if (!guarded) return { text: 'no', style: 'red' };
  // The operator has not reported the policy yet, or only an earlier version of it.
  if (ready?.isCurrent !== true) return { text: 'yes, unconfirmed', style: 'yellow' };
  return { text: 'yes', style: 'green' };
}

export const nodeColumns: readonly string[] = ['WATCHED BY', 'KERNEL', 'CONTAINERS', 'FILES'];

export function nodeCells(name: string, { kernel, loader, containers, files }: FileAccessNodeFields): Cell[] {
  return [
    loaderCell(name, loader),
    kernel?.slice(0, 8) ?? '-',
    String(containers ?? '-'),
    String(files ?? '-'),
  ];
}

/** Which agent watches the files of the node: usually its own. */
function loaderCell(name: string, loader: FileAccessNodeFields['loader']): Cell {
  const renewed = loader.renewedSecondsAgo === null ? '' : `, ${agoText(loader.renewedSecondsAgo * 1000)}`;
  if (loader.state === 'unknown') return 'not known';
  if (loader.state === 'free') return { text: 'no agent', style: 'red' };
  const who = printable(holderName(loader));
  const text = `${who === name ? 'this agent' : who}${renewed}`;
  return loader.state === 'held' ? text : { text: `no agent (${text})`, style: 'red' };
}

/** Empty if KiveData may not be read. */
export function kiveDataLines({ total, orphans }: FileAccessFields['kiveData']): string[] {
  if (total === null) return [];
  const of = orphans === null || orphans === 0 ? '' : `, ${orphans} of deleted policies`;
  return [`KiveData: ${total}${of}`];
}

/** Empty if no access was left out. */
export function filteredLines(count: number): string[] {
  return count === 0
    ? []
    : [`Not reported because of \`processes\`: ${counted(count, 'access', 'accesses')}`];
}
