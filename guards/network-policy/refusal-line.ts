/** The line of a packet that was refused, or would be without monitor mode, and how it is shown to people. */
import type { Decision, LineKind, PrettyLineOptions } from '../../guard/line-kind.ts';
import { findingLine } from '../../guard/stream/finding.ts';
import { type ReadFinding, readFinding } from '../../guard/stream/read-finding.ts';
import { dateBefore } from '../../lib/output/date-before.ts';
import { clockTime, printable } from '../../lib/output/printable.ts';
import { paint } from '../../lib/output/table.ts';
import type { Direction, PolicyKey, RefusalVerdict } from './engine/rules.ts';
import { endsText, endText, type LineEnd, podReference, portText, referenceOf } from './line-ends.ts';

/** The verdict, and the keys of the line that follow those of a FindingHead. */
export interface Refusal {
  readonly verdict: RefusalVerdict;
  /** `ingress`: the policies of the destination do not allow it; `egress`: those of the source. */
  readonly direction: Direction;
  /** `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6`, or IANA's number. */
  readonly protocol: string;
  readonly source: LineEnd;
  readonly destination: LineEnd;
  /** `namespace/name` of the policies that isolate the pod in this direction. Empty: the address belongs to no known pod. */
  readonly policies: readonly PolicyKey[];
  /** The closest rule. */
  readonly nearest?: {
    readonly policy: PolicyKey;
    /** `spec.ingress[0]` */
    readonly field: string;
    /** Which part of the rule matches; the other part does not. */
    readonly fits: 'peer' | 'port';
  };
  /** A sentence or two. */
  readonly reason: string;
}

const kind = 'NetworkPolicyRefusal';

/**
 * The line that an agent writes. Its policy is the one that came closest, or else the first that isolates the pod;
 * its object is the pod whose policies do not allow the packet.
 *
 * @param timeMs - When the agent read the packet, some 50 ms after the kernel decided.
 */
export function refusalLine(refusal: Refusal, { nodeName, timeMs }: RefusalContext): string {
  const { verdict, ...rest } = refusal;
  const { direction, policies, nearest, source, destination } = rest;
  const own = direction === 'ingress' ? destination : source;
  const what = verdict === 'refused' ? 'was refused' : 'would have been refused';
  return findingLine(
    {
      ...{ guard: 'network-policy', kind, severity: 'low', verdict },
      time: new Date(timeMs).toISOString(),
      node: { name: nodeName },
      object: podReference(own),
      policy: referenceOf('NetworkPolicy', nearest?.policy ?? policies[0]),
      message: `A packet ${what}, ${direction} of ${endText(own)}: ${endsText(refusal)}.`,
    },
    rest,
  );
}

interface RefusalContext {
  readonly nodeName: string;
  readonly timeMs: number;
}

export const refusalLines: LineKind = {
  kind,
  view(finding) {
    const refusal = refusalOf(finding);
    return (
      refusal && {
        next: explainWords(refusal),
        ...(refusal.verdict === 'refused' && { decision: decisionOf(refusal) }),
        pretty: (options) => formatRefusal(refusal, finding.timeNs, options),
      }
    );
  },
};

/** One packet may be a mistake; a client that tries again is missing a rule, or is not allowed there. */
const REPEATED = 3;

function decisionOf({ source, destination, protocol }: Refusal): Decision {
  return {
    key: [endName(source), endName(destination), portText({ protocol, destination })].join('\0'),
    isOpen: true,
    what: ['repeated refusal', 'repeated refusals'],
    times: REPEATED,
  };
}

function explainWords({ source, destination, protocol }: Refusal): string[] {
  const port = portText({ protocol, destination });
  return ['network', 'explain', '--from', endName(source), '--to', endName(destination), '--port', port];
}

/** An end in the form that `rampart network explain` accepts. */
function endName({ namespace, pod, address }: LineEnd): string {
  return pod === undefined ? address : `${namespace}/${pod}`;
}

/** The refusal in a line of an agent's output; undefined for its other lines. */
export function parseRefusal(line: string): Refusal | undefined {
  const finding = readFinding(line);
  return finding && refusalOf(finding);
}

/** Undefined if keys are missing, or for another kind of finding. */
export function refusalOf({ head, keys }: ReadFinding): Refusal | undefined {
  const refusal = keys as Partial<Refusal>;
  const isWhole =
    head.kind === kind &&
    typeof refusal.source?.address === 'string' &&
    typeof refusal.destination?.address === 'string' &&
    typeof refusal.protocol === 'string' &&
    typeof refusal.reason === 'string' &&
    (refusal.direction === 'ingress' || refusal.direction === 'egress') &&
    Array.isArray(refusal.policies);
  const verdict = head.verdict === 'would-refuse' ? 'would-refuse' : 'refused';
  return isWhole ? { ...(refusal as Refusal), verdict } : undefined;
}

const ENDS_COLUMNS = 44;

/**
 * @example
 * // 10:00:00.123   refused  ingress  shop/web (10.0.0.3) -> shop/db (10.0.0.4) 5432/TCP   Policy shop/db isolates shop/db for ...
 */
function formatRefusal(refusal: Refusal, timeNs: bigint, { colour, nowMs }: PrettyLineOptions): string {
  const { verdict, direction, reason } = refusal;
  const timeMs = Number(timeNs / 1_000_000n);
  const ends = printable(endsText(refusal)).padEnd(ENDS_COLUMNS);
  const subject = `  ${verdict}  ${direction.padEnd(7)}  ${ends}`;
  const style = verdict === 'refused' ? 'red' : 'yellow';
  return `${dateBefore(timeMs, nowMs)}${clockTime(timeMs)} ${paint(style, subject, colour)}  ${printable(reason)}`;
}
