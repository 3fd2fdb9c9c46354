/**
 * Strategic merge patch: a merge patch that merges some lists item by item, with directives (`$patch`,
 * `$deleteFromPrimitiveList`, `$setElementOrder`, `$retainKeys`). `merge-keys.ts` has the lists and their
 * keys. The directives:
 * https://git.k8s.io/community/contributors/devel/sig-api-machinery/strategic-merge-patch.md
 */
import { fieldOf, isObject, type JsonObject, setField } from '../../json/json.ts';
import { assertNesting } from '../../json/bounds.ts';
import type { PatchField, PatchType } from './merge-keys.ts';
import { Refusal } from '../../json/refusal.ts';

const directive = '$patch';
const retainKeys = '$retainKeys';
const setOrder = '$setElementOrder';
const deleteItems = '$deleteFromPrimitiveList';

/**
 * Applies a strategic merge patch. Neither argument is changed; the result shares parts of both.
 *
 * @param patch the decoded request body; anything.
 * @param type how the lists of this kind are merged, from `patchTypeOf`.
 * @throws {Refusal} 400 for an invalid patch, 422 for one that does not fit the object.
 */
export function applyStrategicMergePatch(original: JsonObject, patch: unknown, type: PatchType): JsonObject {
  if (!isObject(patch))
    throw new Refusal(400, 'invalid JSON document: a strategic merge patch must be an object');
  assertNesting(patch, 'the patch');
  return mergeObject(original, patch, type);
}

function mergeObject(original: JsonObject, patch: JsonObject, type: PatchType | undefined): JsonObject {
  const how = fieldOf(patch, directive);
  if (how === 'delete') return {};
  if (how === 'replace') return mergeFields({}, patch, undefined);
  if (how !== undefined && how !== 'merge') throw unknownDirective(how);
  return mergeFields(retained(original, patch), patch, type);
}

function mergeFields(original: JsonObject, patch: JsonObject, type: PatchType | undefined): JsonObject {
  const merged: JsonObject = { ...original };
  for (const [name, value] of Object.entries(patch)) {
    if (isDirective(name)) continue;
    if (value === null) {
      delete merged[name];
      continue;
    }
    const before = fieldOf(merged, name);
    const after = mergeValue(before, value, type?.get(name));
    if (after === undefined) delete merged[name];
    else setField(merged, name, after);
  }
  for (const [name, value] of Object.entries(patch)) {
    if (name.startsWith(`${deleteItems}/`)) deleteFrom(merged, name.slice(deleteItems.length + 1), value);
    else if (name.startsWith(deleteItems)) throw new Refusal(400, 'invalid patch format of primitive list');
  }
  for (const [name, value] of Object.entries(patch)) {
    if (name.startsWith(`${setOrder}/`)) {
      const list = name.slice(setOrder.length + 1);
      order(merged, list, value, fieldOf(original, list), fieldOf(patch, list), type?.get(list));
    } else if (name.startsWith(setOrder)) {
      throw new Refusal(400, 'invalid patch format of setElementOrder list');
    }
  }
  return merged;
}

function isDirective(name: string): boolean {
  return (
    name === directive || name === retainKeys || name.startsWith(setOrder) || name.startsWith(deleteItems)
  );
}

function mergeValue(before: unknown, value: unknown, field: PatchField | undefined): unknown {
  if (isObject(value)) {
    if (before === undefined && fieldOf(value, directive) === 'delete') return undefined;
    return mergeObject(isObject(before) ? before : {}, value, field?.type);
  }
  if (!Array.isArray(value)) return value;
  if (field?.mergesList !== true) return materialized(value, field?.type);
  return mergeList(Array.isArray(before) ? before : [], value, field);
}

/** The items of a list that replaces another; nulls and directives in the items are not data, and are removed. */
function materialized(items: readonly unknown[], type: PatchType | undefined): unknown[] {
  return items
    .filter((item) => !isObject(item) || !Object.hasOwn(item, directive))
    .map((item) => {
      if (Array.isArray(item)) return materialized(item, undefined);
      return isObject(item) ? mergeObject({}, item, type) : item;
    });
}

/** `$retainKeys` lists the fields to keep: all others are removed from the live object. */
function retained(original: JsonObject, patch: JsonObject): JsonObject {
  const names = fieldOf(patch, retainKeys);
  if (names === undefined) return original;
  if (!Array.isArray(names)) throw new Refusal(400, 'invalid patch format of retainKeys');
  const keep = new Set<unknown>(names);
  for (const [name, value] of Object.entries(patch)) {
    if (value !== null && !isDirective(name) && !keep.has(name)) {
      throw new Refusal(422, "patch content doesn't match retainKeys list");
    }
  }
  return Object.fromEntries(Object.entries(original).filter(([name]) => keep.has(name)));
}

function mergeList(original: readonly unknown[], patch: readonly unknown[], field: PatchField): unknown[] {
  assertOneKindOfItems(original, patch);
  const key = field.mergeKey;
  if (key === undefined || ![...original, ...patch].some(isObject)) {
    if (key !== undefined && original.length + patch.length > 0) {
      throw new Refusal(422, `expected a list of objects, merged by "${key}"`);
    }
    if (patch.some(isObject)) throw new Refusal(422, 'cannot merge lists without merge key for type map');
    return orderItems([...new Set([...original, ...patch])], patch, original, (item) => item);
  }
  return mergeKeyed(original as readonly JsonObject[], patch as readonly JsonObject[], key, field.type);
}

function mergeKeyed(
  original: readonly JsonObject[],
  patch: readonly JsonObject[],
  key: string,
  type: PatchType | undefined,
): unknown[] {
  const keyOf: ItemKey = (item) => fieldOf(item as JsonObject, key);
  const ordinary: JsonObject[] = [];
  const deleted = new Set<unknown>();
  let replaces = false;
  for (const item of patch) {
    switch (fieldOf(item, directive)) {
      case undefined:
        ordinary.push(item);
        break;
      case 'delete':
        deleted.add(requiredKey(item, key));
        break;
      case 'replace':
        replaces = true;
        break;
      case 'merge':
        throw new Refusal(422, 'merging lists cannot yet be specified in the patch');
      default:
        throw unknownDirective(fieldOf(item, directive));
    }
  }
  if (replaces) return materialized(ordinary, type);
  const merged: unknown[] = original.filter((item) => !deleted.has(keyOf(item)));
  const places = new Map<unknown, number>();
  for (const [index, item] of merged.entries()) {
    if (!places.has(keyOf(item))) places.set(keyOf(item), index);
  }
  for (const item of ordinary) {
    const value = requiredKey(item, key);
    const place = places.get(value) ?? merged.length;
    places.set(value, place);
    const after = mergeObject((merged[place] as JsonObject | undefined) ?? {}, item, type);
    merged[place] = after;
  }
  return orderItems(merged, ordinary, original, keyOf);
}

function deleteFrom(merged: JsonObject, list: string, value: unknown): void {
  const items = fieldOf(merged, list);
  if (!Array.isArray(value)) throw new Refusal(400, 'invalid patch format of primitive list');
  if (!Array.isArray(items)) return;
  const gone = new Set<unknown>(value);
  setField(
    merged,
    list,
    items.filter((item) => !gone.has(item)),
  );
}

/** Applies `$setElementOrder`, which lists items of a list in the wanted order. */
function order(
  merged: JsonObject,
  list: string,
  wanted: unknown,
  before: unknown,
  patched: unknown,
  field: PatchField | undefined,
): void {
  if (!Array.isArray(wanted)) throw new Refusal(400, 'invalid patch format of setElementOrder list');
  const items = fieldOf(merged, list);
  if (!Array.isArray(items) || field?.mergesList !== true) return;
  const key = field.mergeKey;
  const keyOf: ItemKey = (item) => (key !== undefined && isObject(item) ? fieldOf(item, key) : item);
  const named = (Array.isArray(patched) ? (patched as unknown[]) : []).filter(
    (item) => !isObject(item) || !Object.hasOwn(item, directive),
  );
  if (wanted.length > 0 && !inOrder(named, wanted, keyOf)) {
    throw new Refusal(422, `The order in patch list ${list} doesn't match ${setOrder} list`);
  }
  setField(merged, list, orderItems(items, wanted, Array.isArray(before) ? before : [], keyOf));
}

function assertOneKindOfItems(...lists: readonly (readonly unknown[])[]): void {
  let kind: string | undefined;
  for (const item of lists.flat()) {
    if (Array.isArray(item)) throw new Refusal(422, 'lists of lists are not supported');
    const found = item === null ? 'null' : typeof item;
    if (found === 'null' || (kind !== undefined && kind !== found)) {
      throw new Refusal(422, 'list element types are not identical');
    }
    kind = found;
  }
}

function requiredKey(item: JsonObject, key: string): unknown {
  const value = fieldOf(item, key);
  if (value === undefined || value === null) {
    throw new Refusal(422, `an item of the patch does not contain declared merge key: ${key}`);
  }
  return value;
}

function unknownDirective(found: unknown): Refusal {
  const text = typeof found === 'string' ? found : typeof found;
  return new Refusal(422, `unknown patch type: ${text}`);
}

/** The identity of an item: the value of its merge key, or the item itself in a set. */
export type ItemKey = (item: unknown) => unknown;

/**
 * The order of a merged list. Items that the patch names have the patch's order; items that only the server has keep
 * their own order, and come before or after the others as in the live list.
 *
 * @param merged all items, in any order.
 * @param wanted items in the order that the patch wants; those missing in `merged` are ignored.
 * @param live items in the order that the object had.
 */
export function orderItems(
  merged: readonly unknown[],
  wanted: readonly unknown[],
  live: readonly unknown[],
  keyOf: ItemKey,
): unknown[] {
  const wantedPositions = positions(wanted, keyOf);
  const livePositions = positions(live, keyOf);
  const named: unknown[] = [];
  const serverOnly: unknown[] = [];
  for (const item of merged) (wantedPositions.has(keyOf(item)) ? named : serverOnly).push(item);
  const last = Number.MAX_SAFE_INTEGER;
  const sortBy = (places: ReadonlyMap<unknown, number>) => (a: unknown, b: unknown) =>
    (places.get(keyOf(a)) ?? last) - (places.get(keyOf(b)) ?? last);
  named.sort(sortBy(wantedPositions));
  serverOnly.sort(sortBy(livePositions));

  const ordered: unknown[] = [];
  let next = 0;
  for (const item of named) {
    const position = livePositions.get(keyOf(item));
    // An item that is not in the live list gives no position for the items that only the server has.
    if (position !== undefined) {
      const isBefore = (own: unknown) => (livePositions.get(keyOf(own)) ?? last) < position;
      while (next < serverOnly.length && isBefore(serverOnly[next])) ordered.push(serverOnly[next++]);
    }
    ordered.push(item);
  }
  return [...ordered, ...serverOnly.slice(next)];
}

/** The first position of each item. */
function positions(items: readonly unknown[], keyOf: ItemKey): Map<unknown, number> {
  const found = new Map<unknown, number>();
  for (const [index, item] of items.entries()) {
    const key = keyOf(item);
    if (!found.has(key)) found.set(key, index);
  }
  return found;
}

/** Whether all items of a list occur in `within`, in the same order. */
export function inOrder(items: readonly unknown[], within: readonly unknown[], keyOf: ItemKey): boolean {
  let at = 0;
  for (const item of items) {
    const key = keyOf(item);
    while (at < within.length && keyOf(within[at]) !== key) at++;
    if (at++ >= within.length) return false;
  }
  return true;
}
