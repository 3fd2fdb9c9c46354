/** `metadata.managedFields`: who owns which fields of an object, since when, by which operation. */
import { apiTime } from '../../kube/object/api-time.ts';
import { compareText } from '../../output/compare-text.ts';
import { fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import { extentOf, maxNesting } from '../../json/bounds.ts';
import { FieldSet, union } from './field-set.ts';
import { compareElements, readElement } from './path-element.ts';

export interface Manager {
  readonly name: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: string;
  readonly subresource: string;
  /** RFC 3339 with whole seconds. */
  readonly time: string | undefined;
  readonly fields: FieldSet;
}

/** Keyed by {@link managerId}. */
export type Managers = ReadonlyMap<string, Manager>;

/** The identity of an entry. For applies, a manager is the same in all versions of the API. */
export function managerId({
  name,
  operation,
  apiVersion,
  subresource,
}: Omit<Manager, 'time' | 'fields'>): string {
  return JSON.stringify([name, operation, operation === 'Apply' ? '' : apiVersion, subresource]);
}

/** Reads the entries; `undefined` for invalid ones. */
export function decodeManagedFields(entries: unknown): Managers | undefined {
  if (entries === undefined || entries === null) return new Map();
  if (!Array.isArray(entries) || extentOf(entries, maxNesting).depth > maxNesting) return undefined;
  const managers = new Map<string, Manager>();
  for (const entry of entries as readonly unknown[]) {
    const manager = decodeEntry(entry);
    if (manager === undefined) return undefined;
    managers.set(managerId(manager), manager);
  }
  return managers;
}

function decodeEntry(entry: unknown): Manager | undefined {
  if (!isObject(entry)) return undefined;
  const operation = fieldOf(entry, 'operation');
  if (operation !== 'Apply' && operation !== 'Update') return undefined;
  const [name, apiVersion, subresource] = ['manager', 'apiVersion', 'subresource'].map((field) => {
    const value = fieldOf(entry, field) ?? '';
    return typeof value === 'string' ? value : undefined;
  });
  const time = fieldOf(entry, 'time') ?? undefined;
  const fields = fromFieldsV1(fieldOf(entry, 'fieldsV1') ?? {});
  if (name === undefined || apiVersion === undefined || apiVersion === '' || subresource === undefined)
    return undefined;
  if (fieldOf(entry, 'fieldsType') !== 'FieldsV1' || fields === undefined) return undefined;
  if (time !== undefined && typeof time !== 'string') return undefined;
  return { name, operation, apiVersion, subresource, time: time && wholeSeconds(time), fields };
}

/** Some clients send times back in another form than they got: `2026-01-02T03:04:05.000Z`. */
function wholeSeconds(time: string): string {
  if (time.length === 20 && time.endsWith('Z')) return time;
  const ms = Date.parse(time);
  return Number.isNaN(ms) ? time : apiTime(ms);
}

/** Whether a request removes all entries, by setting them to `[]` or `[{}]`. */
export function isReset(entries: unknown): boolean {
  if (!Array.isArray(entries) || entries.length > 1) return false;
  return entries.length === 0 || (isObject(entries[0]) && Object.keys(entries[0]).length === 0);
}

export function encodeManagedFields(managers: Managers): JsonObject[] {
  return sortedEntries(
    [...managers.values()].map(({ name, operation, apiVersion, subresource, time, fields }) => ({
      ...(name === '' ? {} : { manager: name }),
      operation,
      apiVersion,
      ...(time === undefined ? {} : { time }),
      fieldsType: 'FieldsV1',
      fieldsV1: toFieldsV1(fields),
      ...(subresource === '' ? {} : { subresource }),
    })),
  );
}

/** The entries in the API server's order: by operation, time, name, version, subresource. Sorts in place. */
export function sortedEntries(entries: JsonObject[]): JsonObject[] {
  const text = (entry: JsonObject, field: string): string => (entry[field] ?? '') as string;
  return entries.sort((a, b) => {
    return (
      compareText(text(a, 'operation'), text(b, 'operation')) ||
      secondsOf(text(a, 'time')) - secondsOf(text(b, 'time')) ||
      compareText(text(a, 'manager'), text(b, 'manager')) ||
      compareText(text(a, 'apiVersion'), text(b, 'apiVersion')) ||
      compareText(text(a, 'subresource'), text(b, 'subresource'))
    );
  });
}

function secondsOf(time: string | undefined): number {
  const milliseconds = time === undefined ? 0 : Date.parse(time);
  return Number.isNaN(milliseconds) ? 0 : Math.floor(milliseconds / 1000);
}

/** Limit of entries for updates in an object (k8s.io/apimachinery `DefaultMaxUpdateManagers`). */
export const maxUpdateManagers = 10;

/** Folds the oldest updates of a version into one entry, `ancient-changes`, if there are too many. */
export function withoutAncient(managers: Managers): Managers {
  const updates = [...managers].filter(([, { operation }]) => operation === 'Update');
  if (updates.length <= maxUpdateManagers) return managers;
  updates.sort(([aId, a], [bId, b]) => secondsOf(a.time) - secondsOf(b.time) || compareText(aId, bId));
  const groups = new Map<string, string[]>();
  let count = updates.length;
  for (const [id, { apiVersion }] of updates) {
    if (count <= maxUpdateManagers) break;
    const group = groups.get(apiVersion);
    if (group === undefined) groups.set(apiVersion, [id]);
    else {
      group.push(id);
      count--;
    }
  }
  const kept = new Map(managers);
  for (const [apiVersion, group] of groups) {
    if (group.length > 1) fold(kept, apiVersion, group);
  }
  return kept;
}

function fold(managers: Map<string, Manager>, apiVersion: string, group: readonly string[]): void {
  const bucket = { name: 'ancient-changes', operation: 'Update', apiVersion, subresource: '' } as const;
  const bucketId = managerId(bucket);
  let fields = new FieldSet();
  let time: string | undefined;
  for (const id of new Set([bucketId, ...group])) {
    const manager = managers.get(id);
    if (manager === undefined) continue;
    fields = union(fields, manager.fields);
    if (secondsOf(manager.time) >= secondsOf(time)) ({ time } = manager);
    managers.delete(id);
  }
  managers.set(bucketId, { ...bucket, time, fields });
}

const maxNameBytes = 128;

/** The name of a manager: the request's `fieldManager`, or the first part of its user agent (`kubectl/v1.34` -> `kubectl`). */
export function managerName(fieldManager: string | undefined, userAgent: string | undefined): string {
  if (fieldManager !== undefined && fieldManager !== '') return fieldManager;
  let name = '';
  for (const character of (userAgent ?? '').split('/', 1)[0] ?? '') {
    if (!/^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u.test(character)) continue;
    if (Buffer.byteLength(name + character) > maxNameBytes) break;
    name += character;
  }
  return name;
}

/** Encodes a set as `fieldsV1`: a step without nested steps is a member; a step with nested ones is a member if it also has `.`. */
export function toFieldsV1(set: FieldSet): JsonObject {
  const fields: JsonObject = {};
  const elements =
    set.children.size === 0 ? [...set.members] : [...new Set([...set.members, ...set.children.keys()])];
  for (const element of elements.sort(compareElements)) {
    const child = set.children.get(element);
    const inner = child === undefined ? {} : toFieldsV1(child);
    // An empty subset would be encoded like a member: it must not be written at all.
    const isMember = set.members.has(element);
    const isBare = Object.keys(inner).length === 0;
    if (isBare && !isMember) continue;
    fields[element] = isMember && !isBare ? { '.': {}, ...inner } : inner;
  }
  return fields;
}

/** Reads `fieldsV1`; `undefined` if it is invalid. Unknown kinds of steps are omitted. */
export function fromFieldsV1(fields: unknown): FieldSet | undefined {
  const set = new FieldSet();
  return readInto(set, fields) ? set : undefined;
}

function readInto(set: FieldSet, fields: unknown): boolean {
  if (!isObject(fields)) return false;
  for (const text of Object.keys(fields)) {
    if (text === '.') continue;
    const element = readElement(text);
    if (element === null) return false;
    if (element === undefined) continue;
    const inner = fieldOf(fields, text);
    const child = new FieldSet();
    if (!readInto(child, inner)) return false;
    const isLeaf = child.members.size === 0 && child.children.size === 0;
    if (isLeaf || Object.hasOwn(inner as JsonObject, '.')) set.members.add(element);
    if (!isLeaf) set.children.set(element, child);
  }
  return true;
}
