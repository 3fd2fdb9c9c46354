/**
 * `metadata`: which fields a client may write, and their rules. Rules and wording are those of
 * k8s.io/apimachinery `pkg/api/validation/objectmeta.go` and `pkg/api/validate/content` as of Kubernetes 1.35.
 */
import { labelKeyProblems, labelValueProblems } from '../../kube/selectors/label-names.ts';
import { goQuote } from '../../cel/go-text.ts';
import { type Cause, fieldError } from '../schema/field-error.ts';
import { deepEqual } from '../../json/json.ts';
import type { Metadata, OwnerReference } from './metadata-fields.ts';
import { withoutTrailingDash, nameProblems } from './object-names.ts';
import type { NameRule } from './resource.ts';

/** Limit for the keys and values of all annotations together, in bytes. */
const maxAnnotationsSize = 256 * 1024;

/** Errors in the metadata of an object before it is stored; empty for valid metadata. */
export function metadataCauses(
  metadata: Metadata,
  rules: { readonly namespaced: boolean; readonly nameRule: NameRule; readonly anyFinalizer: boolean },
): Cause[] {
  const causes: Cause[] = [];
  const { name, generateName, namespace, generation } = metadata;
  const add = (field: string, value: unknown, problems: readonly string[]): void => {
    for (const problem of problems) causes.push(fieldError.invalid(`metadata.${field}`, value, problem));
  };
  if (generateName !== undefined) {
    add('generateName', generateName, nameProblems(rules.nameRule, withoutTrailingDash(generateName)));
  }
  if (name === undefined)
    causes.push(fieldError.required('metadata.name', 'name or generateName is required'));
  else add('name', name, nameProblems(rules.nameRule, name));
  if (rules.namespaced) {
    if (namespace === undefined) causes.push(fieldError.required('metadata.namespace'));
    else add('namespace', namespace, nameProblems('dns-label', namespace));
  } else if (namespace !== undefined) {
    causes.push(fieldError.forbidden('metadata.namespace', 'not allowed on this type'));
  }
  if (generation !== undefined && generation < 0) {
    add('generation', generation, ['must be greater than or equal to 0']);
  }
  if (metadata.labels !== undefined) checkLabels(metadata.labels, add);
  if (metadata.annotations !== undefined) checkAnnotations(metadata.annotations, add, causes);
  if (metadata.ownerReferences !== undefined) checkOwners(metadata.ownerReferences, add);
  if (metadata.finalizers !== undefined) checkFinalizers(metadata.finalizers, rules.anyFinalizer, add);
  return causes;
}

type Add = (field: string, value: unknown, problems: readonly string[]) => void;

/** Cache of valid keys: the same few occur again and again. Bounded, because clients can send any number of new ones. */
const rightKeys = new Set<string>();
const maxRightKeys = 2_000;

function keyProblems(key: string): readonly string[] {
  if (rightKeys.has(key)) return [];
  const problems = labelKeyProblems(key);
  if (problems.length === 0) {
    if (rightKeys.size >= maxRightKeys) rightKeys.clear();
    rightKeys.add(key);
  }
  return problems;
}

const plainValue = /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

function checkLabels(labels: Readonly<Record<string, string>>, add: Add): void {
  for (const key of Object.keys(labels)) {
    add('labels', key, keyProblems(key));
    const value = labels[key] ?? '';
    if (!plainValue.test(value)) add('labels', value, labelValueProblems(value));
  }
}

function checkAnnotations(annotations: Readonly<Record<string, string>>, add: Add, causes: Cause[]): void {
  let units = 0;
  for (const key of Object.keys(annotations)) {
    // In annotation keys, case does not matter.
    add('annotations', key, keyProblems(key.toLowerCase()));
    units += key.length + (annotations[key] ?? '').length;
  }
  // A UTF-16 unit takes at most three bytes.
  if (units * 3 <= maxAnnotationsSize) return;
  const size = Object.entries(annotations).reduce(
    (sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value),
    0,
  );
  if (size > maxAnnotationsSize) causes.push(fieldError.tooLong('metadata.annotations', maxAnnotationsSize));
}

function checkOwners(owners: readonly OwnerReference[], add: Add): void {
  let first: string | undefined;
  for (const owner of owners) {
    const { apiVersion = '', kind = '', name = '', uid = '' } = owner;
    if (apiVersion === '' || apiVersion.endsWith('/')) {
      add('ownerReferences.apiVersion', apiVersion, ['version must not be empty']);
    }
    for (const [field, value] of Object.entries({ kind, name, uid })) {
      if (value === '') add(`ownerReferences.${field}`, value, ['must not be empty']);
    }
    if (apiVersion === 'v1' && kind === 'Event') {
      add('ownerReferences', owner, ['/v1, Kind=Event is disallowed from being an owner']);
    }
    if (owner.controller !== true) continue;
    const controller = `${kind}/${name}`;
    if (first === undefined) first = controller;
    else {
      add('ownerReferences', owners, [
        `Only one reference can have Controller set to true. Found "true" in references for ${first} and ${controller}`,
      ]);
    }
  }
}

/** The finalizers of the garbage collector. */
export const orphanFinalizer = 'orphan';
export const foregroundFinalizer = 'foregroundDeletion';

const standardFinalizers: ReadonlySet<string> = new Set(['kubernetes', orphanFinalizer, foregroundFinalizer]);

function checkFinalizers(finalizers: readonly string[], isAny: boolean, add: Add): void {
  for (const name of finalizers) {
    add('finalizers', name, keyProblems(name));
    if (!isAny && !name.includes('/') && !standardFinalizers.has(name)) {
      add('finalizers', name, ['name is neither a standard finalizer name nor is it fully qualified']);
    }
  }
  if (finalizers.includes(orphanFinalizer) && finalizers.includes(foregroundFinalizer)) {
    add('finalizers', finalizers, [
      `finalizer ${orphanFinalizer} and ${foregroundFinalizer} cannot be both set`,
    ]);
  }
}

/** Warnings about finalizers whose names could conflict with those of other writers. */
export function finalizerWarnings(
  finalizers: readonly string[] | undefined,
  old: readonly string[] | undefined,
): string[] {
  return (finalizers ?? [])
    .filter((name) => !name.includes('/') && !standardFinalizers.has(name) && old?.includes(name) !== true)
    .map(
      (name) =>
        `metadata.finalizers: ${goQuote(name)}: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers`,
    );
}

const immutable: readonly (keyof Metadata)[] = [
  'name',
  'namespace',
  'uid',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
];

export function metadataUpdateCauses(metadata: Metadata, old: Metadata): Cause[] {
  const causes: Cause[] = [];
  if (old.deletionTimestamp !== undefined) {
    const added = (metadata.finalizers ?? []).filter((name) => old.finalizers?.includes(name) !== true);
    if (added.length > 0) {
      const list = [...new Set(added)].sort().map(goQuote).join(', ');
      causes.push(
        fieldError.forbidden(
          'metadata.finalizers',
          `no new finalizers can be added if the object is being deleted, found new finalizers []string{${list}}`,
        ),
      );
    }
  }
  for (const field of immutable) {
    if (metadata[field] !== old[field]) {
      causes.push(
        fieldError.invalid(`metadata.${field}`, metadata[field] ?? emptyOf(field), 'field is immutable'),
      );
    }
  }
  return causes;
}

function emptyOf(field: keyof Metadata): unknown {
  return field === 'name' || field === 'namespace' || field === 'uid' ? '' : null;
}

/** Removes owners that are identical to an earlier one. */
export function withoutRepeatedOwners(owners: readonly OwnerReference[]): {
  readonly owners: readonly OwnerReference[];
  /** UIDs of the removed owners. */
  readonly uids: readonly string[];
} {
  if (owners.length < 2) return { owners, uids: [] };
  const kept: OwnerReference[] = [];
  const uids: string[] = [];
  // Compares only owners with the same UID, in case there are many.
  const byUid = new Map<string | undefined, OwnerReference[]>();
  for (const owner of owners) {
    const same = byUid.get(owner.uid) ?? [];
    if (same.some((other) => deepEqual(other, owner))) uids.push(owner.uid ?? '');
    else {
      kept.push(owner);
      same.push(owner);
      byUid.set(owner.uid, same);
    }
  }
  return uids.length === 0 ? { owners, uids } : { owners: kept, uids: [...new Set(uids)] };
}
