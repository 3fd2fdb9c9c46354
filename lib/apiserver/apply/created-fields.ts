/**
 * The fields that the creator of an object owns: all of it, as `compare` and `toFieldsV1` would find, but in
 * one walk.
 */
import { isObject, type JsonObject } from '../../json/json.ts';
import { ownedByNobody } from './ownership.ts';
import { itemElement } from './path-element.ts';
import { fieldType, type ApplyType, type ListType, type MapType } from './type.ts';

/** Shared by all fields without nested fields. */
const leaf: JsonObject = Object.freeze({});

/**
 * The fields of a new object as `fieldsV1`; empty if it has no fields that can be owned.
 *
 * @param except top-level fields that are not written, such as `status`.
 */
export function createdFields(
  object: JsonObject,
  { map }: ApplyType,
  except: ReadonlySet<string>,
): JsonObject {
  const fields: JsonObject = {};
  if (map === undefined || map.atomic) return fields;
  for (const name of Object.keys(object)) {
    if (except.has(name)) continue;
    const type = fieldType(map, name);
    if (!ownedByNobody.top.has(name)) fields[`f:${name}`] = fieldsOf(object[name], type);
    else
      addInner(
        fields,
        name,
        name === 'metadata' ? metadataFields(object[name], type) : fieldsOf(object[name], type),
      );
  }
  return fields;
}

function metadataFields(metadata: unknown, type: ApplyType): JsonObject {
  const { map } = type;
  if (!isObject(metadata) || map === undefined || map.atomic) return fieldsOf(metadata, type);
  const fields: JsonObject = {};
  for (const name of Object.keys(metadata)) {
    const inner = fieldsOf(metadata[name], fieldType(map, name));
    if (ownedByNobody.metadata.has(name)) addInner(fields, name, inner);
    else fields[`f:${name}`] = inner;
  }
  return fields;
}

/** Adds a field that is not owned itself, if it contains owned fields. */
function addInner(fields: JsonObject, name: string, inner: JsonObject): void {
  const { '.': _self, ...rest } = inner;
  if (Object.keys(rest).length > 0) fields[`f:${name}`] = rest;
}

function fieldsOf(value: unknown, { list, map }: ApplyType): JsonObject {
  if (Array.isArray(value)) {
    return list === undefined || list.relation === 'atomic' ? leaf : itemsOf(value, list);
  }
  return isObject(value) && map !== undefined && !map.atomic ? membersOf(value, map) : leaf;
}

function membersOf(object: JsonObject, map: MapType): JsonObject {
  let fields: JsonObject | undefined;
  for (const name of Object.keys(object)) {
    fields ??= { '.': leaf };
    fields[`f:${name}`] = fieldsOf(object[name], fieldType(map, name));
  }
  return fields ?? leaf;
}

function itemsOf(items: readonly unknown[], list: ListType): JsonObject {
  let fields: JsonObject | undefined;
  for (const item of items) {
    const element = itemElement(list, item);
    if (typeof element !== 'string') continue;
    fields ??= { '.': leaf };
    // Several items with the same key are owned as one.
    fields[element] = Object.hasOwn(fields, element) ? leaf : fieldsOf(item, list.items);
  }
  return fields ?? leaf;
}
