/**
 * The entries of `managedFields` after a write other than an apply.
 *
 * Most writes change little, and most entries own none of the changed fields: these entries are kept without being decoded.
 */
import { deepEqual, fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import type { Comparison } from './compare.ts';
import { difference, type FieldSet, union } from './field-set.ts';
import {
  decodeManagedFields,
  encodeManagedFields,
  type Manager,
  managerId,
  maxUpdateManagers,
  sortedEntries,
} from './managed-fields.ts';
import { ownable } from './ownership.ts';
import type { ApplyType } from './type.ts';
import { conformed } from './typed-sets.ts';

export type Writer = Omit<Manager, 'fields'>;

/**
 * The entries after a change; `undefined` if the full computation is needed: if the request sets other entries,
 * if the object has none, or if some may have to be folded into one.
 *
 * @param stored the present entries
 * @param sent those of the request, `undefined` if it has none
 */
export function updatedEntries(
  stored: unknown,
  sent: unknown,
  type: ApplyType,
  writer: Writer,
  changes: () => Comparison,
): readonly JsonObject[] | undefined {
  if (!Array.isArray(stored) || stored.length === 0 || stored.length >= maxUpdateManagers) return undefined;
  if (sent !== undefined && sent !== null && !deepEqual(sent, stored)) return undefined;
  const { added, modified, removed } = changes();
  const written = union(modified, added);
  const lost = union(written, removed);
  const mine = ownable(written);
  const losesNothing = ownable(removed).isEmpty;
  const id = managerId(writer);
  const entries: JsonObject[] = [];
  let own: FieldSet | undefined;
  let isKept = false;
  for (const entry of stored as readonly unknown[]) {
    if (!isEntry(entry)) return undefined;
    const isOwn = !mine.isEmpty && idOf(entry) === id;
    if (!isOwn && !touches(fieldOf(entry, 'fieldsV1'), lost)) {
      entries.push(entry);
      continue;
    }
    if (isOwn && losesNothing && containsAll(fieldOf(entry, 'fieldsV1'), mine)) {
      entries.push({ ...entry, time: writer.time });
      isKept = true;
      continue;
    }
    const [manager] = decodeManagedFields([entry])?.values() ?? [];
    if (manager === undefined) return undefined;
    const fields = difference(conformed(manager.fields, type), lost);
    if (isOwn) own = fields;
    else if (!fields.isEmpty) entries.push(encoded({ ...manager, fields }));
  }
  if (!mine.isEmpty && !isKept) {
    entries.push(encoded({ ...writer, fields: own === undefined ? mine : union(own, mine) }));
  }
  return sortedEntries(entries);
}

function isEntry(entry: unknown): entry is JsonObject {
  if (!isObject(entry)) return false;
  const { operation, fieldsType, apiVersion } = entry;
  const isKnown = (operation === 'Apply' || operation === 'Update') && fieldsType === 'FieldsV1';
  const isText = (name: string): boolean => entry[name] === undefined || typeof entry[name] === 'string';
  return (
    isKnown &&
    apiVersion !== '' &&
    typeof apiVersion === 'string' &&
    ['manager', 'subresource', 'time'].every(isText)
  );
}

function idOf(entry: JsonObject): string {
  const { manager = '', operation, apiVersion, subresource = '' } = entry as Readonly<Record<string, string>>;
  return managerId({
    name: manager,
    operation: operation === 'Apply' ? 'Apply' : 'Update',
    apiVersion: apiVersion ?? '',
    subresource,
  });
}

function encoded(manager: Manager): JsonObject {
  const [entry] = encodeManagedFields(new Map([['', manager]]));
  if (entry === undefined) throw new TypeError('a manager without an entry');
  return entry;
}

function containsAll(fieldsV1: unknown, fields: FieldSet): boolean {
  if (!isObject(fieldsV1)) return false;
  for (const element of fields.members) {
    const inner = fieldOf(fieldsV1, element);
    if (!isObject(inner) || !(Object.hasOwn(inner, '.') || Object.keys(inner).length === 0)) return false;
  }
  for (const [element, child] of fields.children) {
    if (!child.isEmpty && !containsAll(fieldOf(fieldsV1, element), child)) return false;
  }
  return true;
}

/**
 * Whether one of the fields is, or may be, owned by an entry. Also true for a parent of what the entry owns: its type may have
 * become atomic since.
 */
function touches(fieldsV1: unknown, fields: FieldSet): boolean {
  if (!isObject(fieldsV1)) return true;
  for (const element of fields.members) if (Object.hasOwn(fieldsV1, element)) return true;
  for (const [element, child] of fields.children) {
    if (Object.hasOwn(fieldsV1, element) && touches(fieldsV1[element], child)) return true;
  }
  return false;
}
