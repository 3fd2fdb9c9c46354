/**
 * One step of a field's path, in the notation of `managedFields`: `f:name`, `k:{"name":"web"}` for the item of
 * a list with these keys, `v:"a"` for the item of a set, `i:0` for an index.
 *
 * Always kept as text: equal steps are equal texts, because keys and values are written canonically.
 */
import { canonicalJson, fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import type { ListType } from './type.ts';

export type PathElement = string;
export type FieldPath = readonly PathElement[];

export function fieldElement(name: string): PathElement {
  return `f:${name}`;
}

/** The step to an item of a list that is a set or a map; or why there is no such step. */
export function itemElement(list: ListType, item: unknown): PathElement | { readonly problem: string } {
  if (list.relation === 'set') {
    if (isObject(item)) return { problem: "associative list without keys has an element that's a map type" };
    if (Array.isArray(item)) return { problem: 'not supported: associative list with lists as elements' };
    if (item === null)
      return { problem: "associative list without keys has an element that's an explicit null" };
    return `v:${scalarText(item)}`;
  }
  if (item === null) return { problem: 'associative list with keys may not have a null element' };
  if (!isObject(item)) return { problem: 'associative list with keys may not have non-map elements' };
  let keys = '';
  for (const key of list.keys) {
    const value = fieldOf(item, key.name) ?? key.default;
    if (value === undefined) {
      return {
        problem: `associative list with keys has an element that omits key field "${key.name}" (and doesn't have default value)`,
      };
    }
    keys += `${keys === '' ? '' : ','}${JSON.stringify(key.name)}:${scalarText(value)}`;
  }
  return `k:{${keys}}`;
}

/** The items of a list, keyed by their steps; items without a step are left out. */
export function itemsByElement(list: ListType, items: readonly unknown[]): Map<PathElement, unknown[]> {
  const found = new Map<PathElement, unknown[]>();
  for (const item of items) {
    const element = itemElement(list, item);
    if (typeof element !== 'string') continue;
    const same = found.get(element);
    if (same === undefined) found.set(element, [item]);
    else same.push(item);
  }
  return found;
}

function scalarText(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : canonicalJson(value);
}

/** Reads a step of fieldsV1; `undefined` for an unknown kind, `null` if it is not a step. */
export function readElement(text: string): PathElement | undefined | null {
  if (text.length < 2 || text[1] !== ':') return null;
  const content = text.slice(2);
  switch (text.charAt(0)) {
    case 'f':
      return text;
    case 'i':
      return /^-?[0-9]{1,15}$/.test(content) ? `i:${Number(content)}` : null;
    case 'v':
    case 'k': {
      const value = parsed(content);
      if (value === undefined || (text.startsWith('k') && !isObject(value))) return null;
      return `${text.charAt(0)}:${canonicalJson(value)}`;
    }
    default:
      return undefined;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** The path for messages: `.spec.containers[name="web"].ports[=80]` */
export function pathText(path: FieldPath): string {
  return path.map(elementText).join('');
}

export function elementText(element: PathElement): string {
  const content = element.slice(2);
  switch (element.charAt(0)) {
    case 'f':
      return `.${content}`;
    case 'v':
      return `[=${content}]`;
    case 'k': {
      const keys = Object.entries(parsed(content) as JsonObject);
      return `[${keys.map(([name, value]) => `${name}=${canonicalJson(value)}`).join(',')}]`;
    }
    default:
      return `[${content}]`;
  }
}

const ranks = 'fkvi';

/** The order in which steps are written: names, then keys, values and indices, each sorted by their value. */
export function compareElements(a: PathElement, b: PathElement): number {
  if (a === b) return 0;
  const kind = a.charAt(0);
  if (kind !== b.charAt(0)) return ranks.indexOf(kind) - ranks.indexOf(b.charAt(0));
  if (kind === 'f') return a < b ? -1 : 1;
  const [left, right] = [parsed(a.slice(2)), parsed(b.slice(2))];
  if (kind !== 'k') return compareValues(left, right);
  const [leftKeys, rightKeys] = [Object.entries(left as JsonObject), Object.entries(right as JsonObject)];
  for (const [index, [name, value]] of leftKeys.entries()) {
    const other = rightKeys[index];
    if (other === undefined) return 1;
    if (name !== other[0]) return name < other[0] ? -1 : 1;
    const order = compareValues(value, other[1]);
    if (order !== 0) return order;
  }
  return leftKeys.length - rightKeys.length;
}

function compareValues(a: unknown, b: unknown): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  const [left, right] =
    typeof a === 'string' && typeof b === 'string' ? [a, b] : [canonicalJson(a), canonicalJson(b)];
  return left === right ? 0 : left < right ? -1 : 1;
}
