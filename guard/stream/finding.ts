/**
 * The one shape that findings of all guards have in common. Each is one line of JSON that begins with the keys of
 * {@link FindingHead}, in this order, whoever reads it: stdout, `rampart alerts`, callbacks, OTLP. Keys of the guard follow.
 */
import { visibleJson } from '../../lib/output/printable.ts';

/** From least to most. */
export const severities = ['info', 'low', 'medium', 'high', 'critical'] as const;
export type Severity = (typeof severities)[number];

/** How each line of a finding begins, and no other line of a log. */
export const headStart = '{"guard":"';

/** `namespace` is empty for what is cluster-scoped, or on no cluster. */
export interface ObjectReference {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

export interface FindingHead {
  /** Its name, as in `--guards`. */
  readonly guard: string;
  /** Defines the other keys of the line: `KiveAlert`, `IntegrityFinding`, `NetworkPolicyRefusal`. */
  readonly kind: string;
  /** RFC 3339, UTC, with nanoseconds if known. */
  readonly time: string;
  /** Where it happened; empty if it happened on no node. An object since Kive's alerts have it as one. */
  readonly node: { readonly name: string };
  readonly severity: Severity;
  /**
   * The object of the finding: the pod whose file was accessed, the violating object; `null` if it is not an
   * object of the API.
   */
  readonly object: ObjectReference | null;
  /** The user's policy that requests it; `null` without a cluster. */
  readonly policy: ObjectReference | null;
  /** The outcome, in one word: `allowed`, `refused`, `changed`. */
  readonly verdict: string;
  /** One sentence for a person, without line breaks. */
  readonly message: string;
}

/** Undefined for a line that is not a finding. Of all findings of a process, so without parsing them: quotes in texts are escaped. */
export function severityOf(line: string): Severity | undefined {
  const start = line.indexOf(severityKey) + severityKey.length;
  const text = line.slice(start, line.indexOf('"', start));
  return severities.find((one) => one === text);
}

const severityKey = '"severity":"';

/** Undefined for a line that is not a finding; without parsing it, as {@link severityOf}. */
export function kindOf(line: string): string | undefined {
  return kindAtStart.exec(line)?.[1];
}

const kindAtStart = /^\{"guard":"[^"]*","kind":"([^"]*)"/;

/**
 * The line of a finding, without a newline.
 *
 * @param rest - What the guard adds. A key of the head in it is a mistake of the caller, and is not written twice.
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
