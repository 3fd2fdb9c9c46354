/** Reads the lines that `findingLine` writes, for any guard. */
import { apiTimeNs } from '../../lib/kube/object/api-time.ts';
import { type FindingHead, headStart, type ObjectReference, severities, type Severity } from './finding.ts';

export interface ReadFinding {
  readonly head: FindingHead;
  /** The key `time`, in nanoseconds since 1970. */
  readonly timeNs: bigint;
  /** All keys of the line: those of the head, and those of the guard, whose types the guard has to check. */
  readonly keys: Readonly<Record<string, unknown>>;
}

/** The finding in a line of a log; undefined for other lines, and if a key of the head is missing or has another type. */
export function readFinding(line: string): ReadFinding | undefined {
  // Most lines of a log are not findings: checking their beginning is cheap.
  if (!line.startsWith(headStart)) return undefined;
  let keys: Readonly<Record<string, unknown>>;
  try {
    keys = JSON.parse(line) as typeof keys;
  } catch {
    return undefined;
  }
  return findingOf(keys);
}

/** The finding in a line that has already been parsed. */
export function findingOf(keys: Readonly<Record<string, unknown>>): ReadFinding | undefined {
  const { guard, kind, time, node, severity, object, policy, verdict, message } = keys;
  const timeNs = typeof time === 'string' ? apiTimeNs(time) : undefined;
  const [ofNode, ofObject, ofPolicy] = [nameOf(node), reference(object), reference(policy)];
  if (
    typeof guard !== 'string' ||
    typeof kind !== 'string' ||
    typeof time !== 'string' ||
    timeNs === undefined ||
    ofNode === undefined ||
    !isSeverity(severity) ||
    ofObject === undefined ||
    ofPolicy === undefined ||
    typeof verdict !== 'string' ||
    typeof message !== 'string'
  )
    return undefined;
  const head = { guard, kind, time, node: ofNode, severity, object: ofObject, policy: ofPolicy };
  return { head: { ...head, verdict, message }, timeNs, keys };
}

function isSeverity(value: unknown): value is Severity {
  return severities.some((one) => one === value);
}

function nameOf(value: unknown): { readonly name: string } | undefined {
  const { name } = (value ?? {}) as { readonly name?: unknown };
  return typeof name === 'string' ? { name } : undefined;
}

/** Undefined if it is neither a reference nor null. */
function reference(value: unknown): ObjectReference | null | undefined {
  if (value === null) return null;
  const { kind, namespace, name } = (value ?? {}) as Readonly<Record<string, unknown>>;
  const isWhole = typeof kind === 'string' && typeof namespace === 'string' && typeof name === 'string';
  return isWhole ? { kind, namespace, name } : undefined;
}
