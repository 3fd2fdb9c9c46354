/**
 * Defaulting (apiextensions-apiserver `pkg/apiserver/schema/defaulting`): first drops nulls that are not allowed and have
 * no default, then sets missing fields and the remaining nulls to their defaults.
 */
import { cloneJson, isObject, setField, type JsonObject } from '../../json/json.ts';
import type { SchemaNode } from './node.ts';

/** Fills in defaults, in place. Each default is copied, and defaults within it are filled in as well. */
export function defaultObject(object: unknown, node: SchemaNode): void {
  dropNulls(object, node);
  if (node.within.defaults) fill(object, node);
}

function dropNulls(value: unknown, node: SchemaNode): void {
  if (Array.isArray(value)) {
    const items = node.items;
    if (items === undefined) return;
    for (const item of value) if (typeof item === 'object' && item !== null) dropNulls(item, items);
  } else if (isObject(value)) {
    for (const name of Object.keys(value)) {
      const field = value[name];
      if (typeof field !== 'object') continue;
      const schema = node.field(name);
      if (schema === undefined) continue;
      if (field !== null) dropNulls(field, schema);
      else if (!schema.nullable && schema.schema.default === undefined) delete value[name];
    }
  }
}

function fill(value: unknown, node: SchemaNode): void {
  if (Array.isArray(value)) fillItems(value, node);
  else if (isObject(value)) fillFields(value, node);
}

function fillItems(list: unknown[], node: SchemaNode): void {
  const items = node.items;
  if (items === undefined) return;
  for (let index = 0; index < list.length; index++) {
    if (list[index] === null && !items.nullable && items.schema.default !== undefined) {
      list[index] = cloneJson(items.schema.default);
    }
    if (items.within.defaults) fill(list[index], items);
  }
}

function fillFields(object: JsonObject, node: SchemaNode): void {
  for (const [name, property] of node.defaulted) {
    const missing = !Object.hasOwn(object, name) || (object[name] === null && !property.nullable);
    if (missing) setField(object, name, cloneJson(property.schema.default));
  }
  for (const name of Object.keys(object)) {
    const property = node.properties.get(name);
    const schema = property ?? node.additional;
    if (schema === undefined) continue;
    if (
      property === undefined &&
      object[name] === null &&
      !schema.nullable &&
      schema.schema.default !== undefined
    ) {
      setField(object, name, cloneJson(schema.schema.default));
    }
    if (schema.within.defaults) fill(object[name], schema);
  }
}
