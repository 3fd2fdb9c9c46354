/**
 * The structure that the findings of all guards have in common. Each finding is one line of JSON that begins with the keys of {@link
 * FindingHead}, in this order, for every reader: stdout, `rampart alerts`, callbacks, OTLP. The guard's own keys follow.
 */
import { visibleJson } from '../../lib/output/printable.ts';

/** From the lowest to the highest. */
export const severities = ['info', 'low', 'medium', 'high', 'critical'] as const;
export type Severity = (typeof severities)[number];

/** How the line of every finding begins. No other line of a log begins this way. */
export const headStart = '{"guard":"';

/** `namespace` is empty for a cluster-scoped object, and without a cluster. */
export interface ObjectReference {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

export interface FindingHead {
  /** The guard's name, as in `--guards`. */
  readonly guard: string;
  /** Defines the other keys of the line: `KiveAlert`, `IntegrityFinding`, `NetworkPolicyRefusal`. */
  readonly kind: string;
  /** RFC 3339, UTC, with nanoseconds if known. */
  readonly time: string;
  /** Where it happened; empty if it concerns no node. An object, as in Kive's alerts. */
  readonly node: { readonly name: string };
  readonly severity: Severity;
  /**
   * The object of the finding: the pod whose file was accessed, the violating object; `null` if it is not an
   * object of the API.
   */
  readonly object: ObjectReference | null;
  /** The user's policy that requested it; `null` without a cluster. */
  readonly policy: ObjectReference | null;
  /** The outcome, in one word: `allowed`, `refused`, `changed`. */
  readonly verdict: string;
  /** One sentence for a person, without line breaks. */
  readonly message: string;
}

/**
 * Undefined for a line that is not a finding. It is called for every finding, so it does not parse the line; this is safe because quotes
 * inside of texts are escaped.
 */
export function severityOf(line: string): Severity | undefined {
  const start = line.indexOf(severityKey) + severityKey.length;
  const text = line.slice(start, line.indexOf('"', start));
  return severities.find((one) => one === text);
}

const severityKey = '"severity":"';

/** Undefined for a line that is not a finding; does not parse it either, see {@link severityOf}. */
export function kindOf(line: string): string | undefined {
  return kindAtStart.exec(line)?.[1];
}

const kindAtStart = /^\{"guard":"[^"]*","kind":"([^"]*)"/;

/**
 * The line of a finding, without a newline.
 *
 * @param rest - The guard's own keys. A key of the head must not be among them, and is not written twice.
 * @example
 * const line = findingLine(
 *   {
 *     ...{ guard: 'door-watch', kind: 'OpenDoor', time: new Date().toISOString(), node: { name: 'n1' } },
 *     ...{ severity: 'high', object: null, policy: null, verdict: 'allowed', message: 'The door a was opened.' },
 *   },
 *   { door: 'a' },
 * );
 */
export function findingLine(head: FindingHead, rest: object = {}): string {
  const { guard, kind, time, node, severity, object, policy, verdict, message } = head;
  return visibleJson(
    JSON.stringify({
      ...{ guard, kind, time, node: { name: node.name }, severity, object, policy, verdict, message },
      ...rest,
    }),
  );
}
