/** The lines of this guard: a refused packet, and how it is shown to people. */
import type { LineKind, PrettyLineOptions } from '../../guard/line-kind.ts';
import { apiTimeNs } from '../../lib/kube/object/api-time.ts';
import { dateBefore } from '../../lib/output/date-before.ts';
import { clockTime, printable } from '../../lib/output/printable.ts';
import { paint } from '../../lib/output/table.ts';
import type { Direction, PolicyKey } from './engine/rules.ts';

/** One end of a refused packet. */
export interface RefusalEnd {
  readonly address: string;
  /** Undefined for protocols without ports, and for later fragments. */
  readonly port?: number;
  /** Undefined if the address belongs to no pod, or to one in its node's network. */
  readonly namespace?: string;
  readonly pod?: string;
}

/** As an agent writes it. */
export interface RefusalLine {
  readonly kind: 'NetworkPolicyRefusal';
  /** RFC 3339, in UTC: when the agent read it, some 50 ms after the kernel refused. */
  readonly time: string;
  readonly node: string;
  /** `ingress`: the policies of the destination refused it; `egress`: those of the source. */
  readonly direction: Direction;
  /** `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6`, or IANA's number. */
  readonly protocol: string;
  readonly source: RefusalEnd;
  readonly destination: RefusalEnd;
  /** `namespace/name` of those that isolate the pod in this direction; none: the address belongs to no known pod. */
  readonly policies: readonly PolicyKey[];
  /** What came closest to allowing it. */
  readonly nearest?: {
    readonly policy: PolicyKey;
    /** `spec.ingress[0]` */
    readonly field: string;
    /** Which part of the rule matches; the other does not. */
    readonly fits: 'peer' | 'port';
  };
  /** A sentence or two. */
  readonly reason: string;
}

const start = '{"kind":"NetworkPolicyRefusal",';

/** The policy is the one that came closest, or the first that isolates; the pod is the one whose policies refused. */
export const refusalLines: LineKind = {
  start,
  parse(line) {
    const refusal = parseRefusal(line);
    if (refusal === undefined) return undefined;
    const { direction, policies, nearest, source, destination, time } = refusal;
    const [namespace, name = ''] = (nearest?.policy ?? policies[0] ?? '').split('/');
    const own = direction === 'ingress' ? destination : source;
    return {
      timeNs: apiTimeNs(time) ?? 0n,
      policy: [namespace, name],
      pod: [own.namespace, own.pod ?? ''],
      pretty: (options) => formatRefusal(refusal, options),
    };
  },
};

/** The refusal in a line of an agent's output; undefined for its other lines. */
export function parseRefusal(line: string): RefusalLine | undefined {
  if (!line.startsWith(start)) return undefined;
  try {
    const refusal = JSON.parse(line) as Partial<RefusalLine>;
    // Truncated lines and those of other programs may lack it.
    const isWhole =
      typeof refusal.source?.address === 'string' &&
      typeof refusal.destination?.address === 'string' &&
      typeof refusal.time === 'string' &&
      typeof refusal.protocol === 'string' &&
      typeof refusal.reason === 'string' &&
      (refusal.direction === 'ingress' || refusal.direction === 'egress') &&
      Array.isArray(refusal.policies);
    if (isWhole) return refusal as RefusalLine;
  } catch {
    // No refusal then.
  }
  return undefined;
}

const ENDS_COLUMNS = 44;

/**
 * @example
 * // 10:00:00.123   refused  ingress  shop/web (10.0.0.3) -> shop/db (10.0.0.4) 5432/TCP   Policy shop/db isolates shop/db for ...
 */
function formatRefusal(refusal: RefusalLine, { colour, nowMs }: PrettyLineOptions): string {
  const { time, direction, protocol, source, destination, reason } = refusal;
  const timeMs = Date.parse(time);
  const port = destination.port === undefined ? protocol : `${destination.port}/${protocol}`;
  const ends = `${endText(source)} -> ${endText(destination)} ${port}`;
  const subject = `  refused  ${direction.padEnd(7)}  ${printable(ends).padEnd(ENDS_COLUMNS)}`;
  return `${dateBefore(timeMs, nowMs)}${clockTime(timeMs)} ${paint('red', subject, colour)}  ${printable(reason)}`;
}

function endText({ namespace, pod, address }: RefusalEnd): string {
  return pod === undefined ? address : `${namespace}/${pod} (${address})`;
}
