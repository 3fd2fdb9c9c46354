/** Reads objects that may violate their schema: what is missing or of another type counts as empty. */
import { fieldOf, isObject, type JsonObject } from './json.ts';

const empty: JsonObject = Object.freeze({});

/** The object at a path of fields; if it is missing, an empty one that must not be changed. */
export function objectAt(value: unknown, ...path: readonly string[]): JsonObject {
  let current = value;
  for (const field of path) current = isObject(current) ? fieldOf(current, field) : undefined;
  return isObject(current) ? current : empty;
}

export function valueAt(value: unknown, ...path: readonly string[]): unknown {
  let current = value;
  for (const field of path) current = isObject(current) ? fieldOf(current, field) : undefined;
  return current ?? undefined;
}

/** The text at a path of fields; empty if it is missing or not a text. */
export function textAt(value: unknown, ...path: readonly string[]): string {
  const found = valueAt(value, ...path);
  return typeof found === 'string' ? found : '';
}

export function numberAt(value: unknown, ...path: readonly string[]): number | undefined {
  const found = valueAt(value, ...path);
  return typeof found === 'number' ? found : undefined;
}

export function listAt(value: unknown, ...path: readonly string[]): readonly unknown[] {
  const found = valueAt(value, ...path);
  return Array.isArray(found) ? found : [];
}

/**
 * The items of a list of objects, each at its own position; an item that is not an object gives a new object,
 * which may be changed.
 */
export function objectsAt(value: unknown, ...path: readonly string[]): readonly JsonObject[] {
  return listAt(value, ...path).map((item) => (isObject(item) ? item : {}));
}

export function textsAt(value: unknown, ...path: readonly string[]): readonly string[] {
  return listAt(value, ...path).map((item) => (typeof item === 'string' ? item : ''));
}

/** The object in a field, created if it is missing; for changes in place. */
export function madeObject(parent: JsonObject, field: string): JsonObject {
  const found = fieldOf(parent, field);
  if (isObject(found)) return found;
  const made: JsonObject = {};
  parent[field] = made;
  return made;
}

/** Sets a field that is absent, null, or an empty text. */
export function setDefault(object: JsonObject, field: string, value: unknown): void {
  const found = fieldOf(object, field);
  if (found === undefined || found === null || found === '') object[field] = value;
}

/** An int-or-string as Go prints it; empty for any other type. */
export function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
