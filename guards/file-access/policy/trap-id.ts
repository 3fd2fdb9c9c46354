/** The names of a trap and of its KiveData in the cluster. */
import { hash } from 'node:crypto';

import type { KiveTrap } from '../api.ts';

/** A label's value has at most 63 characters. */
const ID_DIGITS = 63;
const MAX_NAME = 253;
const NAME_DIGITS = 16;

/**
 * One JSON text for each value: keys are sorted, and empty values (false, empty texts, lists and objects) are left out,
 * as Go's `omitempty` does.
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

/** The label `trap-id`: the same for the same trap wherever it is written, another one when anything in it changes. */
export function trapId(trap: KiveTrap, alertVersion: string): string {
  return hash('sha256', canonicalJson(trap) + alertVersion).slice(0, ID_DIGITS);
}

/** The subject of a KiveData, fixed for its name. */
export interface DataSubject {
  readonly policyNamespace: string;
  readonly policyName: string;
  /** Which trap of the policy: its path, and its number among those with the same path. */
  readonly slot: string;
  /** With its runtime: `containerd://da9e46...`. */
  readonly containerId: string;
  readonly podName: string;
  readonly podNamespace: string;
}

/**
 * The name of a KiveData: `kive-data-<pod>-<namespace>-<16 hex digits>`, at most 253 characters.
 *
 * The digits are of the trap's place in its policy and of the container, not of the file and not of what the trap
 * says: a file that is replaced and a trap that is edited change the object, which its readers see as one step, and
 * two traps on one file have two objects.
 */
export function kiveDataName(subject: DataSubject): string {
  const { policyNamespace, policyName, slot, containerId, podName, podNamespace } = subject;
  const place = JSON.stringify([policyNamespace, policyName, slot, containerId]);
  const digits = hash('sha256', place).slice(0, NAME_DIGITS);
  const shown = `kive-data-${podName}-${podNamespace}`.slice(0, MAX_NAME - 1 - NAME_DIGITS);
  return `${shown.replace(/[-.]+$/, '')}-${digits}`;
}
