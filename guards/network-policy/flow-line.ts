/** The line of a connection that was allowed, and how it is shown to people. */
import type { LineKind, PrettyLineOptions } from '../../guard/line-kind.ts';
import { findingLine } from '../../guard/stream/finding.ts';
import type { ReadFinding } from '../../guard/stream/read-finding.ts';
import { dateBefore } from '../../lib/output/date-before.ts';
import { clockTime, printable } from '../../lib/output/printable.ts';
import { paint } from '../../lib/output/table.ts';
import type { Direction, PolicyKey } from './engine/rules.ts';
import { endsText, endText, type LineEnd, podReference, referenceOf } from './line-ends.ts';

/** Where a connection leads to. */
interface FlowDestination extends LineEnd {
  /**
   * The destination of the source's packet, if that was translated: the address of a Service, or a port of a
   * node.
   */
  readonly translatedFrom?: Pick<LineEnd, 'address' | 'port'>;
}

/** The keys of a flow's line that follow those of a FindingHead. */
export interface NetworkFlow {
  /** `ingress`: the object is the destination; `egress`: it is the source. */
  readonly direction: Direction;
  /** `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6`, or IANA's number. */
  readonly protocol: string;
  readonly source: LineEnd;
  readonly destination: FlowDestination;
  /** How many connections of the object were left out since its last line. */
  readonly folded: number;
}

const kind = 'NetworkFlow';

interface FlowContext {
  /** The policy that allows the connection; undefined: no policy isolates the pod in this direction. */
  readonly policy: PolicyKey | undefined;
  readonly nodeName: string;
  /** When the agent read the connection. */
  readonly timeMs: number;
}

/** The line that an agent writes. */
export function flowLine(flow: NetworkFlow, { policy, nodeName, timeMs }: FlowContext): string {
  const { direction, source, destination } = flow;
  const own = direction === 'ingress' ? destination : source;
  const by = policy === undefined ? '' : `, by NetworkPolicy ${policy}`;
  return findingLine(
    {
      ...{ guard: 'network-policy', kind, severity: 'info', verdict: 'allowed' },
      time: new Date(timeMs).toISOString(),
      node: { name: nodeName },
      object: podReference(own),
      policy: referenceOf('NetworkPolicy', policy),
      message: `A connection was allowed, ${direction} of ${endText(own)}${by}: ${endsText(flow)}.`,
    },
    flow,
  );
}

export const flowLines: LineKind = {
  kind,
  view(finding) {
    const flow = flowOf(finding);
    if (flow === undefined) return undefined;
    const { namespace, pod: name } = flow.source;
    return {
      ...(namespace !== undefined && name !== undefined && { by: { namespace, name } }),
      pretty: (options) => formatFlow(flow, finding, options),
    };
  },
};

/** Parses a line; undefined if keys are missing. */
export function flowOf({ head, keys }: ReadFinding): NetworkFlow | undefined {
  const flow = keys as Partial<NetworkFlow>;
  const from = flow.destination?.translatedFrom;
  const isWhole =
    head.kind === kind &&
    typeof flow.source?.address === 'string' &&
    typeof flow.destination?.address === 'string' &&
    (from === undefined || typeof from.address === 'string') &&
    typeof flow.protocol === 'string' &&
    typeof flow.folded === 'number' &&
    (flow.direction === 'ingress' || flow.direction === 'egress');
  return isWhole ? (flow as NetworkFlow) : undefined;
}

const ENDS_COLUMNS = 44;

/**
 * @example
 * // 10:00:00.123   allowed  ingress  shop/web (10.0.0.3) -> shop/db (10.0.0.4) 5432/TCP   shop/db, connected to 10.96.0.1:5432 (3 more not logged)
 */
function formatFlow(
  flow: NetworkFlow,
  { head, timeNs }: ReadFinding,
  { colour, nowMs }: PrettyLineOptions,
): string {
  const { direction, destination, folded } = flow;
  const timeMs = Number(timeNs / 1_000_000n);
  const ends = printable(endsText(flow)).padEnd(ENDS_COLUMNS);
  const subject = `  allowed  ${direction.padEnd(7)}  ${ends}`;
  const { policy } = head;
  const by = policy === null ? 'no policy' : `${policy.namespace}/${policy.name}`;
  const from = destination.translatedFrom;
  const through = from === undefined ? '' : `, connected to ${hostText(from)}`;
  const more = folded === 0 ? '' : ` (${folded} more not logged)`;
  return `${dateBefore(timeMs, nowMs)}${clockTime(timeMs)} ${paint('green', subject, colour)}  ${printable(`${by}${through}${more}`)}`;
}

/** `10.96.0.1:80`, `[fd00::1]:80` */
function hostText({ address, port }: Pick<LineEnd, 'address' | 'port'>): string {
  if (port === undefined) return address;
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
