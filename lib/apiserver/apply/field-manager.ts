/**
 * Server-side apply, and updates of `metadata.managedFields` on all other writes. Pure: objects in,
 * objects out; the clock is an argument.
 *
 * The behaviour of apply: https://kubernetes.io/docs/reference/using-api/server-side-apply/. The
 * implementation follows sigs.k8s.io/structured-merge-diff and k8s.io/apimachinery pkg/util/managedfields.
 * The README beside this file says where it differs.
 */
import { apiTime } from '../../kube/object/api-time.ts';
import { deepEqual, fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import { textAt, valueAt } from '../../json/fields.ts';
import { assertNesting } from '../../json/bounds.ts';
import { Refusal } from '../../json/refusal.ts';
import { compare } from './compare.ts';
import { conflictRefusal } from './conflicts.ts';
import { createdFields } from './created-fields.ts';
import { difference, equalSets, FieldSet, intersection, union } from './field-set.ts';
import { fieldsOf } from './fields-of.ts';
import { kubectl, withLastApplied, withoutLastApplied } from './last-applied.ts';
import {
  decodeManagedFields,
  encodeManagedFields,
  isReset,
  type Manager,
  managerId,
  type Managers,
  withoutAncient,
} from './managed-fields.ts';
import { mergeApplied } from './merge.ts';
import { afterChange, conflictsOf, fieldPath, ownable, without } from './ownership.ts';
import { removeFields } from './remove.ts';
import type { ApplyType } from './type.ts';
import { conformed, withNamedParents } from './typed-sets.ts';
import { updatedEntries } from './updated-entries.ts';
import { problemsOf } from './validate.ts';

export interface WriteContext {
  /** Type of the objects, from `applyTypeOf`. */
  readonly type: ApplyType;
  /** Who writes: `fieldManager` of the request, or a name derived from the user agent; see `managerName`. */
  readonly manager: string;
  /** The version of the API that the request uses, `apps/v1`. */
  readonly apiVersion: string;
  /** '' for the object itself, else `status`, `scale`. */
  readonly subresource?: string;
  readonly now: Date;
  /** Fields that this endpoint does not write, such as `[['status']]`: a manager gets no ownership of them. */
  readonly resetFields?: readonly (readonly string[])[];
}

export interface ApplyContext extends WriteContext {
  /** Whether to take over fields that other managers own, which otherwise conflict. */
  readonly force?: boolean;
}

interface ApplyResult {
  /** The object with `managedFields`. Shares parts with both arguments: do not modify any of the three. */
  readonly object: JsonObject;
  /** Whether the object, including its `managedFields`, differs from the stored one. */
  readonly isChanged: boolean;
}

/** Fields that only the server sets; in a configuration they are meaningless. */
const serverFields = FieldSet.of(
  ...[
    'creationTimestamp',
    'deletionTimestamp',
    'deletionGracePeriodSeconds',
    'generation',
    'managedFields',
    'resourceVersion',
    'selfLink',
    'uid',
  ].map((name) => fieldPath('metadata', name)),
);

/**
 * Applies a configuration: its fields are set, fields that its manager applied before and no longer does are removed,
 * and the manager owns the set fields. Preconditions in it (`metadata.uid`, `metadata.resourceVersion`) are the
 * caller's to check; they are not merged.
 *
 * @param live the object as stored; `undefined` to create it.
 * @param applied the decoded request body; anything.
 * @throws {Refusal} 400 for a body that is not a configuration of this type, 409 with a cause for each conflict.
 */
export function serverSideApply(
  live: JsonObject | undefined,
  applied: unknown,
  context: ApplyContext,
): ApplyResult {
  const { type } = context;
  const configuration = configurationOf(applied, context);
  const { object: before, managers: found } = opened(live, context);
  const self = managerId({ ...identity(context), operation: 'Apply' });
  const previous = found.get(self);
  const fields = ownable(fieldsOf(configuration, type));
  const managers = new Map(found);
  managers.set(self, { ...identity(context), operation: 'Apply', time: previous?.time, fields });

  let merged = mergeApplied(before, configuration, type);
  if (previous !== undefined) {
    const owned = [...managers.values()].reduce((all, manager) => union(all, manager.fields), new FieldSet());
    const pruned = prune(merged, previous.fields, owned, type);
    // Pruning also removes a list or map that it leaves empty: those that were applied as empty are restored.
    if (pruned !== merged) merged = mergeApplied(pruned ?? {}, configuration, type);
  }
  const comparison = compare(before, merged, type);
  const conflicts = conflictsOf(managers, self, comparison);
  if (conflicts.length > 0 && context.force !== true) {
    const real =
      context.manager === kubectl
        ? withoutLastApplied(conflicts, before, context.apiVersion, type)
        : conflicts;
    if (real.length > 0) throw conflictRefusal(real);
  }
  const after = afterChange(managers, self, comparison);
  let object = merged as JsonObject;
  if (context.manager === kubectl) object = withLastApplied(object, configuration);
  const isSame = live !== undefined && deepEqual(before, object);
  const own = after.get(self);
  if (own !== undefined && !(isSame && previous !== undefined && equalSets(previous.fields, fields))) {
    after.set(self, { ...own, time: apiTime(context.now.getTime()) });
  }
  const entries = encodeManagedFields(after);
  const isChanged = !isSame || !deepEqual(entriesOf(live) ?? [], entries);
  return { object: isChanged ? withEntries(object, entries) : (live ?? object), isChanged };
}

/**
 * The object of a create, update or patch with its `managedFields` brought up to date: the manager owns what
 * it changed. A request may set the entries itself, and remove them with `[]` or `[{}]`.
 *
 * @param live the object as stored; `undefined` for a create.
 * @param updated the object to store. Neither argument is changed; the result shares parts of both.
 * @throws {Refusal} 400 for an object that is nested too deep.
 */
export function trackUpdate(
  live: JsonObject | undefined,
  updated: JsonObject,
  context: WriteContext,
): JsonObject {
  assertNesting(updated, 'the object');
  const before = live === undefined ? {} : withEntries(live, undefined);
  const object = withEntries(updated, undefined);
  if (live !== undefined) {
    const isOfObject = (context.subresource ?? '') === '';
    const entries = updatedEntries(
      entriesOf(live),
      isOfObject ? entriesOf(updated) : undefined,
      context.type,
      { ...identity(context), operation: 'Update', time: apiTime(context.now.getTime()) },
      () => without(compare(before, object, context.type), resetSet(context)),
    );
    if (entries !== undefined) return withEntries(object, entries);
  } else if (managersOfUpdate(live, updated, context).size === 0) {
    return withCreator(object, context);
  }
  return trackInFull(live, updated, context);
}

/** The same as `trackUpdate`, without its shortcuts: tests compare the two. */
export function trackInFull(
  live: JsonObject | undefined,
  updated: JsonObject,
  context: WriteContext,
): JsonObject {
  const before = live === undefined ? {} : withEntries(live, undefined);
  const object = withEntries(updated, undefined);
  const managers = managersOfUpdate(live, updated, context);
  // An object without recorded ownership stays without it until the first apply.
  if (managers.size === 0 && live !== undefined) return object;
  return withEntries(object, encodeManagedFields(updatedManagers(before, object, managers, context)));
}

/** A new object, whose creator owns all of it. */
function withCreator(object: JsonObject, context: WriteContext): JsonObject {
  const { resetFields = [], type } = context;
  if (resetFields.some(({ length }) => length !== 1)) {
    return withEntries(object, encodeManagedFields(updatedManagers({}, object, new Map(), context)));
  }
  const fieldsV1 = createdFields(object, type, new Set(resetFields.flat()));
  if (Object.keys(fieldsV1).length === 0) return object;
  const { name, apiVersion, subresource } = identity(context);
  const entry = {
    ...(name === '' ? {} : { manager: name }),
    operation: 'Update',
    apiVersion,
    time: apiTime(context.now.getTime()),
    fieldsType: 'FieldsV1',
    fieldsV1,
    ...(subresource === '' ? {} : { subresource }),
  };
  return withEntries(object, [entry]);
}

function updatedManagers(
  before: JsonObject,
  object: JsonObject,
  managers: Managers,
  context: WriteContext,
): Managers {
  const changes = without(compare(before, object, context.type), resetSet(context));
  const after = afterChange(managers, undefined, changes);
  const mine = ownable(union(changes.modified, changes.added));
  if (!mine.isEmpty) {
    const manager = { ...identity(context), operation: 'Update' } as const;
    const id = managerId(manager);
    const previous = after.get(id);
    const fields = previous === undefined ? mine : union(previous.fields, mine);
    after.set(id, { ...manager, time: apiTime(context.now.getTime()), fields });
  }
  return withoutAncient(after);
}

function managersOfUpdate(
  live: JsonObject | undefined,
  updated: JsonObject,
  context: WriteContext,
): Managers {
  const stored = decodeManagedFields(entriesOf(live)) ?? new Map<string, Manager>();
  const sent = entriesOf(updated);
  const isOfObject = (context.subresource ?? '') === '';
  if (isOfObject && isReset(sent)) return new Map();
  const wanted = isOfObject ? decodeManagedFields(sent) : undefined;
  // Clients that do not know `managedFields` drop it, and invalid entries cannot be intended: the stored ones are kept.
  return conformedManagers(wanted === undefined || wanted.size === 0 ? stored : wanted, context.type);
}

/** The live object without `managedFields`, and its managers. On the first apply, one manager gets all existing fields. */
function opened(
  live: JsonObject | undefined,
  context: ApplyContext,
): { readonly object: JsonObject; readonly managers: Managers } {
  if (live === undefined) return { object: {}, managers: new Map() };
  const object = withEntries(live, undefined);
  const managers = decodeManagedFields(entriesOf(live)) ?? new Map<string, Manager>();
  if (managers.size > 0) return { object, managers: conformedManagers(managers, context.type) };
  const first: WriteContext = { ...context, manager: 'before-first-apply', subresource: '' };
  return { object, managers: updatedManagers({}, object, managers, first) };
}

function conformedManagers(managers: Managers, type: ApplyType): Managers {
  const after = new Map<string, Manager>();
  for (const [id, manager] of managers) {
    const fields = conformed(manager.fields, type);
    after.set(id, fields === manager.fields ? manager : { ...manager, fields });
  }
  return after;
}

function configurationOf(applied: unknown, context: ApplyContext): JsonObject {
  if (!isObject(applied)) throw new Refusal(400, 'an applied configuration must be an object');
  assertNesting(applied, 'the configuration');
  const apiVersion = fieldOf(applied, 'apiVersion');
  if (apiVersion !== context.apiVersion) {
    const specified = typeof apiVersion === 'string' ? apiVersion : '';
    throw new Refusal(
      400,
      `Incorrect version specified in apply patch. Specified patch version: ${specified}, expected: ${context.apiVersion}`,
    );
  }
  if (entriesOf(applied) !== undefined) throw new Refusal(400, 'metadata.managedFields must be nil');
  const problems = problemsOf(applied, context.type);
  if (problems.length > 0) {
    const text = problems.length === 1 ? (problems[0] ?? '') : `errors:\n  ${problems.join('\n  ')}`;
    throw new Refusal(400, `failed to create typed patch object (${nameOf(applied)}): ${text}`);
  }
  const ignored = union(serverFields, resetSet(context));
  return (removeFields(applied, ignored, context.type) ?? {}) as JsonObject;
}

function nameOf(object: JsonObject): string {
  const field = (name: string) => textAt(object, 'metadata', name);
  return `${field('namespace')}/${field('name')}; ${String(object['apiVersion'])}, Kind=${textAt(object, 'kind')}`;
}

function identity({ manager, apiVersion, subresource }: WriteContext) {
  return { name: manager, apiVersion, subresource: subresource ?? '' };
}

function resetSet({ resetFields }: WriteContext): FieldSet {
  return FieldSet.of(...(resetFields ?? []).map((names) => fieldPath(...names)));
}

function entriesOf(object: JsonObject | undefined): unknown {
  return valueAt(object, 'metadata', 'managedFields');
}

function withEntries(object: JsonObject, entries: readonly JsonObject[] | undefined): JsonObject {
  const metadata = fieldOf(object, 'metadata');
  const hasEntries = isObject(metadata) && Object.hasOwn(metadata, 'managedFields');
  if (entries === undefined || entries.length === 0) {
    if (!hasEntries) return object;
    const { managedFields: _, ...rest } = metadata;
    return { ...object, metadata: rest };
  }
  return { ...object, metadata: { ...(isObject(metadata) ? metadata : {}), managedFields: entries } };
}

/**
 * Removes fields that the manager applied last time but not now, unless they still have an owner.
 *
 * @param last what the manager owned.
 * @param owned what all managers own now, including this one.
 */
function prune(merged: unknown, last: FieldSet, owned: FieldSet, type: ApplyType): unknown {
  if (difference(last, owned).isEmpty) return merged;
  const inMerged = withNamedParents(fieldsOf(merged, type), type);
  const lastWhole = withNamedParents(last, type);
  const ownedWhole = withNamedParents(owned, type);
  const removed = removeFields(merged, lastWhole, type);
  // Removing a list item would also remove what others own in it: these fields and their parents stay.
  const afterRemoval = withNamedParents(fieldsOf(removed, type), type);
  const kept = removeFields(merged, difference(inMerged, union(afterRemoval, ownedWhole)), type);
  // Fields without an owner stay too: this manager may not remove them.
  const afterKeeping = withNamedParents(fieldsOf(kept, type), type);
  return removeFields(merged, intersection(difference(inMerged, afterKeeping), lastWhole), type);
}
