/** The lines of this guard: what happened to a program on a node, and how that is shown to people. */
import type { LineKind, PrettyLineOptions } from '../../../guard/line-kind.ts';
import { type FindingHead, findingLine } from '../../../guard/stream/finding.ts';
import { dateBefore } from '../../../lib/output/date-before.ts';
import { clockTime, printable } from '../../../lib/output/printable.ts';
import { paint } from '../../../lib/output/table.ts';

/**
 * `displaced`: another program, which is not Rampart's, is attached in its place. `outdated`: the previous version keeps running, because
 * the new one cannot run. `map-lost`: contents of its maps were lost with a new version.
 */
export type ProgramVerdict = 'displaced' | 'map-lost' | 'not-loaded' | 'outdated' | 'repaired' | 'running';

/** The guard's own keys, which follow those of a FindingHead. */
export interface ProgramFinding {
  /** The function in the bytecode; empty for a finding about all programs of an object. */
  readonly function: string;
  /** `eth0`, `eth0 ingress`; empty for a finding about all programs of an object. */
  readonly attachPoint: string;
  /** Why, in complete sentences; empty if it runs again. */
  readonly reason: string;
  /** How many similar findings were folded since the last one. */
  readonly folded: number;
}

const kind = 'ProgramFinding';
const severities = {
  'not-loaded': 'high',
  outdated: 'medium',
  displaced: 'medium',
  'map-lost': 'low',
  repaired: 'medium',
  running: 'info',
} as const;

export function programFindingLine(
  head: Pick<FindingHead, 'message' | 'node' | 'object' | 'policy'> & { readonly verdict: ProgramVerdict },
  finding: ProgramFinding,
  timeMs: number,
): string {
  const severity = severities[head.verdict];
  const time = new Date(timeMs).toISOString();
  return findingLine({ guard: 'bpf-programs', kind, time, severity, ...head }, finding);
}

export const programFindings: LineKind = {
  kind,
  view({ head, timeNs, keys }) {
    const { attachPoint, reason, folded } = keys as Partial<ProgramFinding>;
    const isWhole =
      typeof attachPoint === 'string' && typeof reason === 'string' && typeof folded === 'number';
    if (!isWhole) return undefined;
    return {
      nextOnNode: nextWords(head, attachPoint),
      pretty: (options) => formatFinding(head, { attachPoint, reason, folded }, timeNs, options),
    };
  },
};

/** Kinds whose programs run on interfaces of the node itself. */
const onInterfaces = /^(?:Tc|Tcx|Xdp)Program$/;

/**
 * The command that shows all programs on the interface, including those of others; without an interface, the one that shows all programs of
 * the node.
 */
function nextWords({ policy }: FindingHead, attachPoint: string): string[] {
  const [name = ''] = attachPoint.split(' ');
  const isInterface = name !== '' && onInterfaces.test(policy?.kind ?? '');
  return isInterface ? ['bpf', 'net', name] : ['bpf', 'list'];
}

/** As one line that can be printed safely on a terminal. */
export function onOneLine(reason: string): string {
  return printable(reason.replaceAll(/\s*\n\s*/g, ' '));
}

const PLACE_COLUMNS = 40;

/**
 * @example
 * // 10:00:00.123   not-loaded    n1:eth0                                   There is no interface eth0 on this node.  XdpProgram/count
 */
function formatFinding(
  { verdict, node, policy }: FindingHead,
  { attachPoint, reason, folded }: Pick<ProgramFinding, 'attachPoint' | 'folded' | 'reason'>,
  timeNs: bigint,
  { colour, nowMs }: PrettyLineOptions,
): string {
  const timeMs = Number(timeNs / 1_000_000n);
  const place = attachPoint === '' ? node.name : `${node.name}:${attachPoint}`;
  const subject = `  ${printable(verdict).padEnd(12)}  ${printable(place).padEnd(PLACE_COLUMNS)}`;
  const shown = verdict === 'running' ? subject : paint('red', subject, colour);
  const by =
    policy === null ? [] : [policy.kind, policy.namespace, policy.name].filter((part) => part !== '');
  const more = folded === 0 ? '' : ` (${folded} more like it before)`;
  const after = paint('dim', printable(by.join('/')), colour);
  return `${dateBefore(timeMs, nowMs)}${clockTime(timeMs)} ${shown}  ${onOneLine(reason)}${more}  ${after}`;
}
