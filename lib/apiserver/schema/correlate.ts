/**
 * Finds the part of an old object that a part of the new one replaces: for fields of maps by name, for items of lists by
 * their keys (type `map`) or by value (type `set`, only for ratcheting). Parts of atomic maps and lists have no counterpart
 * (apiserver `pkg/cel/common/equality.go`, apiextensions `pkg/apiserver/schema/cel/maplist.go`).
 */
import { canonicalJson, fieldOf, isObject } from '../../json/json.ts';
import type { SchemaNode } from './node.ts';

/** The old counterpart of a value; `undefined` if it has none. */
export type Old = OldValue | undefined;

export class OldValue {
  readonly value: unknown;

  constructor(value: unknown) {
    this.value = value;
  }

  fields(node: SchemaNode): ((name: string) => Old) | undefined {
    const before = this.value;
    if (!node.granularMap || !isObject(before)) return undefined;
    return (name) => (Object.hasOwn(before, name) ? new OldValue(before[name]) : undefined);
  }

  /** Returns the old counterparts of a new list's items, by their index in the new list. */
  items(list: readonly unknown[], node: SchemaNode, sets = true): ((index: number) => Old) | undefined {
    const before = this.value;
    if (!Array.isArray(before)) return undefined;
    if (node.listType === 'map') {
      const byKeys = new Map<string, unknown>();
      for (const item of before) {
        const key = keyOf(item, node);
        if (key !== undefined && !byKeys.has(key)) byKeys.set(key, item);
      }
      return (index) => {
        const key = keyOf(list[index], node);
        return key !== undefined && byKeys.has(key) ? new OldValue(byKeys.get(key)) : undefined;
      };
    }
    if (node.listType === 'set' && sets) {
      const values = new Set(before.map(canonicalJson));
      return (index) => (values.has(canonicalJson(list[index])) ? new OldValue(list[index]) : undefined);
    }
    return undefined;
  }
}

/** The keys of an item in a list of type `map`, as one text. A missing key has its default. */
function keyOf(item: unknown, node: SchemaNode): string | undefined {
  if (!isObject(item)) return undefined;
  return canonicalJson(
    node.listMapKeys.map(
      (name) => fieldOf(item, name) ?? node.items?.properties.get(name)?.schema.default ?? null,
    ),
  );
}

/** The old counterparts of a value's parts; `undefined` if the value itself has none, or this is not an update. */
export function correlate<Part>(
  old: Old,
  wanted: boolean,
  parts: (old: OldValue) => ((part: Part) => Old) | undefined,
): ((part: Part) => Old) | undefined {
  return wanted && old !== undefined ? parts(old) : undefined;
}
