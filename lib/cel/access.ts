/** Access to fields of objects, entries of maps and items of lists. */
import { failure, noOverload } from './failure.ts';
import { CelMessage, CelObject, fromJson, isPlain, mapKey, Optional } from './values.ts';

/** The value under a name, key or index; `undefined` if it does not exist. */
function find(value: unknown, key: unknown): unknown {
  if (value instanceof CelObject && typeof key === 'string') return value.get(key);
  if (value instanceof Map) return value.get(mapKey(key));
  if (value instanceof CelMessage) return typeof key === 'string' ? value.fields.get(key) : undefined;
  if (Array.isArray(value)) {
    const index = mapKey(key);
    if (typeof index === 'bigint') return value[Number(index)];
    throw noOverload();
  }
  // A value without fields lacks every field: `null.x` is an error, and `has(null.x)` is false.
  if (!isPlain(value) || typeof key !== 'string' || !Object.hasOwn(value, key)) return undefined;
  return fromJson(value[key]);
}

/** `value.key` and `value[key]`. For an optional, the result is an optional too. */
export function select(value: unknown, key: unknown): unknown {
  if (value instanceof Optional) return selectOptional(value, key);
  const found = find(value, key);
  if (found !== undefined) return found;
  throw failure(Array.isArray(value) ? `index out of bounds: ${String(key)}` : `no such key: ${String(key)}`);
}

/** `value.?key` and `value[?key]`. */
export function selectOptional(value: unknown, key: unknown): Optional {
  if (!(value instanceof Optional)) return Optional.of(find(value, key));
  return value === Optional.none ? value : Optional.of(find(value.value, key));
}

/** `has(value.key)` */
export function isPresent(value: unknown, key: unknown): boolean {
  return selectOptional(value, key) !== Optional.none;
}

/** The input of a comprehension: the values of a list by their index, or the keys and values of a map. */
export interface Entries {
  readonly keys: readonly unknown[] | undefined;
  readonly values: readonly unknown[];
}

export function entriesOf(range: unknown): Entries {
  if (Array.isArray(range)) return { keys: undefined, values: range };
  if (range instanceof Map) return { keys: [...range.keys()], values: [...range.values()] };
  if (isPlain(range)) return { keys: Object.keys(range), values: Object.values(range).map(fromJson) };
  throw noOverload();
}
