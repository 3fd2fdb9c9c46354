/**
 * Pruning: removes fields that the schema does not know
 * (apiextensions-apiserver `pkg/apiserver/schema/pruning/algorithm.go`).
 */
import { isObject, type JsonObject } from '../../json/json.ts';
import { metaFields } from './json-schema.ts';
import type { SchemaNode } from './node.ts';

/** The current path of the walk, such as `spec.items[3].name`, and the unknown fields that it found. */
class Trail {
  readonly #parts: (string | number)[] = [];
  readonly found: string[] = [];

  enter(part: string | number): void {
    this.#parts.push(part);
  }

  leave(): void {
    this.#parts.pop();
  }

  record(name: string): void {
    let path = '';
    for (const part of [...this.#parts, name]) {
      if (typeof part === 'number') path += `[${part}]`;
      else path += path === '' ? part : `.${part}`;
    }
    this.found.push(path);
  }
}

/**
 * Removes the unknown fields of an object in place.
 *
 * @param root whether the object is a resource: then `apiVersion`, `kind` and `metadata` are kept.
 * @returns the paths of what was removed, sorted: `spec.foo`, `spec.items[0].bar`.
 */
export function pruneObject(object: unknown, node: SchemaNode, root: boolean): string[] {
  const trail = new Trail();
  prune(object, node, root || node.embedded, trail);
  return trail.found.sort();
}

function prune(value: unknown, node: SchemaNode | undefined, resource: boolean, trail: Trail): void {
  if (Array.isArray(value)) pruneItems(value, node, trail);
  else if (isObject(value)) pruneFields(value, node, resource, trail);
}

function pruneItems(list: readonly unknown[], node: SchemaNode | undefined, trail: Trail): void {
  if (node?.preserveUnknown === true) return preserve(list, node, false, trail);
  const items = node?.items;
  for (let index = 0; index < list.length; index++) {
    const item = list[index];
    if (typeof item !== 'object') continue;
    trail.enter(index);
    prune(item, items, items?.embedded === true, trail);
    trail.leave();
  }
}

function pruneFields(
  object: JsonObject,
  node: SchemaNode | undefined,
  resource: boolean,
  trail: Trail,
): void {
  if (node?.preserveUnknown === true) return preserve(object, node, resource, trail);
  for (const name of Object.keys(object)) {
    if (resource && metaFields.has(name)) continue;
    const property = node?.properties.get(name);
    if (property === undefined && node?.additionalAllowed === undefined) {
      trail.record(name);
      delete object[name];
      continue;
    }
    const value = object[name];
    if (typeof value !== 'object' || value === null) continue;
    const schema = property ?? node?.additional;
    trail.enter(name);
    prune(value, schema, schema?.embedded === true, trail);
    trail.leave();
  }
}

/** Keeps unknown fields, but prunes fields with a schema by that. Also examines the items of lists. */
function preserve(value: unknown, node: SchemaNode | undefined, resource: boolean, trail: Trail): void {
  if (node === undefined) return;
  if (Array.isArray(value)) {
    if (node.items === undefined) return;
    value.forEach((item, index) => {
      trail.enter(index);
      preserve(item, node.items, node.items?.embedded === true, trail);
      trail.leave();
    });
    return;
  }
  if (!isObject(value)) return;
  for (const name of Object.keys(value)) {
    if (resource && metaFields.has(name)) continue;
    const property = node.properties.get(name);
    if (property === undefined && node.additionalAllowed === undefined) continue;
    const schema = property ?? node.additional;
    trail.enter(name);
    prune(value[name], schema, schema?.embedded === true, trail);
    trail.leave();
  }
}
