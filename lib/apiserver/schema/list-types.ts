/**
 * Checks that lists of type `set` contain no duplicate values, and lists of type `map` no duplicate combinations of keys
 * (apiextensions-apiserver `pkg/apiserver/schema/listtype/validation.go`).
 */
import { fieldError, type Problems } from './field-error.ts';
import { canonicalJson, fieldOf, isObject, setField, type JsonObject } from '../../json/json.ts';
import type { SchemaNode } from './node.ts';

/** Adds a cause for each duplicate value of a set, and each duplicate key of a list map. */
export function checkListTypes(value: unknown, node: SchemaNode, path: string, problems: Problems): void {
  if (!node.within.lists || problems.full) return;
  if (Array.isArray(value)) {
    if (node.listType === 'set') checkSet(value, path, problems);
    if (node.listType === 'map') checkMap(value, node, path, problems);
    const items = node.items;
    if (items?.within.lists !== true) return;
    value.forEach((item, index) => checkListTypes(item, items, `${path}[${index}]`, problems));
  } else if (isObject(value)) {
    for (const name of Object.keys(value)) {
      const property = node.properties.get(name);
      const schema = property ?? node.additional;
      if (schema?.within.lists !== true) continue;
      // As in Kubernetes, paths here have brackets for `additionalProperties`, unlike those of validation errors.
      const field = property === undefined ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`;
      checkListTypes(value[name], schema, field, problems);
    }
  }
}

/** The indexes at which values occur for the second time; third and later occurrences are not reported. */
function secondTimes(values: readonly string[]): readonly number[] {
  if (new Set(values).size === values.length) return [];
  const found: number[] = [];
  const times = new Map<string, number>();
  for (const [index, value] of values.entries()) {
    const before = times.get(value) ?? 0;
    times.set(value, before + 1);
    if (before === 1) found.push(index);
  }
  return found;
}

function checkSet(list: readonly unknown[], path: string, problems: Problems): void {
  if (list.length < 2) return;
  for (const index of secondTimes(list.map(canonicalJson))) {
    problems.add(fieldError.duplicate(`${path}[${index}]`, list[index]));
  }
}

function checkMap(list: readonly unknown[], node: SchemaNode, path: string, problems: Problems): void {
  const wrong = list.findIndex((item) => item !== null && !isObject(item));
  if (wrong >= 0) {
    const words = 'must be an object for an array of list-type map';
    problems.add(fieldError.invalid(`${path}[${wrong}]`, list[wrong], words));
    return;
  }
  if (list.length < 2) return;
  const names = node.listMapKeys;
  for (const index of secondTimes(list.map((item) => keyText(item, names)))) {
    problems.add(fieldError.duplicate(`${path}[${index}]`, keysOf(list[index], names)));
  }
}

/** A text that is equal for items with the same keys. */
function keyText(item: unknown, names: readonly string[]): string {
  let text = '';
  for (const name of names) {
    const key = isObject(item) ? fieldOf(item, name) : undefined;
    text += key === undefined ? ',' : `${canonicalJson(key)},`;
  }
  return text;
}

function keysOf(item: unknown, names: readonly string[]): JsonObject {
  const keys: JsonObject = {};
  if (!isObject(item)) return keys;
  for (const name of names) {
    const key = fieldOf(item, name);
    if (key !== undefined) setField(keys, name, key);
  }
  return keys;
}
