/**
 * The fields of an object that a policy requests: `metadata.name`, `spec.containers.image`. A path that meets a
 * list applies to each item.
 */
import type { JsonObject } from '../evaluator.ts';

/** A value of `undefined` stands for everything below that field. */
export interface FieldMask extends ReadonlyMap<string, FieldMask | undefined> {}

/**
 * Parses a mask; undefined if everything is requested: without a mask, or with an empty one. @throws {Error} if it
 * is not a list of strings.
 */
export function maskOf(paths: unknown): FieldMask | undefined {
  if (paths === undefined || paths === null) return undefined;
  if (!Array.isArray(paths) || !paths.every((path) => typeof path === 'string')) {
    throw new Error('the payload is malformed: field_masks must be a list of strings');
  }
  return paths.length === 0 ? undefined : treeOf(paths.map((path: string) => path.split('.')));
}

function treeOf(paths: readonly (readonly string[])[]): FieldMask {
  const byFirst = Map.groupBy(paths, ([first = '']) => first);
  return new Map(
    [...byFirst].map(([first, all]) => {
      const below = all.map((path) => path.slice(1));
      return [first, below.some((path) => path.length === 0) ? undefined : treeOf(below)];
    }),
  );
}

export function masked(object: JsonObject, mask: FieldMask): JsonObject {
  const kept: JsonObject = {};
  for (const [name, below] of mask) {
    if (!Object.hasOwn(object, name)) continue;
    const value = object[name];
    const shown = below === undefined ? value : within(value, below);
    Object.defineProperty(kept, name, { value: shown, enumerable: true, writable: true, configurable: true });
  }
  return kept;
}

function within(value: unknown, mask: FieldMask): unknown {
  if (Array.isArray(value)) return value.map((item) => within(item, mask));
  return typeof value === 'object' && value !== null ? masked(value as JsonObject, mask) : value;
}
