import { isObject, setField, type JsonObject } from '../../json/json.ts';
import type { FieldSet } from './field-set.ts';
import { fieldElement, itemElement } from './path-element.ts';
import { fieldType, kindIn, type ApplyType, type ListType, type MapType } from './type.ts';

/** The value without the members of the set; `undefined` if nothing is left. Untouched parts stay identical (`===`). */
export function removeFields(value: unknown, fields: FieldSet, type: ApplyType): unknown {
  if (fields.isEmpty) return value;
  const kind = kindIn(type, value);
  if (kind === 'map' && isObject(value) && type.map !== undefined && !type.map.atomic) {
    return removeFromMap(value, fields, type.map);
  }
  if (kind === 'list' && Array.isArray(value) && type.list !== undefined && type.list.relation !== 'atomic') {
    return removeFromList(value, fields, type.list);
  }
  return value;
}

function removeFromMap(value: JsonObject, fields: FieldSet, map: MapType): unknown {
  const rest: JsonObject = {};
  let isChanged = false;
  for (const name of Object.keys(value)) {
    const element = fieldElement(name);
    const inner = fields.children.get(element);
    let field: unknown;
    if (!fields.members.has(element)) {
      field = inner === undefined ? value[name] : removeFields(value[name], inner, fieldType(map, name));
    }
    if (field !== value[name]) isChanged = true;
    if (field !== undefined) setField(rest, name, field);
  }
  if (!isChanged) return value;
  return Object.keys(rest).length > 0 ? rest : undefined;
}

function removeFromList(items: readonly unknown[], fields: FieldSet, list: ListType): unknown {
  const rest: unknown[] = [];
  let isChanged = false;
  for (const item of items) {
    const element = itemElement(list, item);
    if (typeof element !== 'string') {
      rest.push(item);
      continue;
    }
    const inner = fields.children.get(element);
    let kept: unknown;
    if (!fields.members.has(element)) {
      kept = inner === undefined ? item : removeFields(item, inner, list.items);
    }
    if (kept !== item) isChanged = true;
    if (kept !== undefined) rest.push(kept);
  }
  if (!isChanged) return items;
  return rest.length > 0 ? rest : undefined;
}
