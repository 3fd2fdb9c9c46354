/** The names of a trap and of its KiveData in the cluster. */
import { hash } from 'node:crypto';

import type { KiveTrap } from '../api.ts';

/** A label's value has at most 63 characters. */
const ID_DIGITS = 63;
const MAX_NAME = 253;
const NAME_DIGITS = 16;

/**
 * The same JSON text for equal values: keys are sorted, and empty values (false, empty texts, lists and objects) are
 * left out, as with Go's `omitempty`.
 */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(canonical(value)) ?? 'null';
}

function canonical(value: unknown): unknown {
  if (value === false || value === '' || value === null) return undefined;
  if (Array.isArray(value))
    return value.length === 0 ? undefined : value.map((item) => canonical(item) ?? {});
  if (typeof value !== 'object') return value;
  const entries = Object.entries(value as Record<string, unknown>)
    .map(([key, field]) => [key, canonical(field)] as const)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

/** The label `trap-id`: the same for equal traps wherever they are written, another one if anything in the trap changes. */
export function trapId(trap: KiveTrap, alertVersion: string): string {
  return hash('sha256', canonicalJson(trap) + alertVersion).slice(0, ID_DIGITS);
}

/** What the name of a KiveData is derived from. */
export interface DataSubject {
  readonly policyNamespace: string;
  readonly policyName: string;
  /** Identifies the trap within its policy: its path, and its number among the traps with the same path. */
  readonly slot: string;
  /** Prefixed with the runtime: `containerd://da9e46...`. */
  readonly containerId: string;
  readonly podName: string;
  readonly podNamespace: string;
}

/**
 * The name of a KiveData: `kive-data-<pod>-<namespace>-<16 hex digits>`, at most 253 characters.
 *
 * The digits are a hash of the trap's place in its policy and of the container, not of the file or the trap's fields.
 * So when a file is replaced or a trap is edited, its object is updated, which readers see as one step; and two traps
 * on one file have two objects.
 */
export function kiveDataName(subject: DataSubject): string {
  const { policyNamespace, policyName, slot, containerId, podName, podNamespace } = subject;
  const place = JSON.stringify([policyNamespace, policyName, slot, containerId]);
  const digits = hash('sha256', place).slice(0, NAME_DIGITS);
  const shown = `kive-data-${podName}-${podNamespace}`.slice(0, MAX_NAME - 1 - NAME_DIGITS);
  return `${shown.replace(/[-.]+$/, '')}-${digits}`;
}
