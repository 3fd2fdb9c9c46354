/** JSON values: types by their JSON name, fields of objects, equality, copies. */

/** A JSON object. Its fields are looked up as own properties only: a field may be called `constructor`. */
export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The value of an own field; `undefined` if the object does not have it. */
export function fieldOf(object: JsonObject, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

export function deepEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => deepEqual(item, b[index]));
  }
  if (isObject(a)) {
    if (!isObject(b)) return false;
    const names = Object.keys(a);
    if (names.length !== Object.keys(b).length) return false;
    return names.every((name) => Object.hasOwn(b, name) && deepEqual(a[name], b[name]));
  }
  // 5 and 5n: one number, read by two decoders.
  return typeof a !== typeof b && isNumeric(a) && isNumeric(b) && BigInt(a) === BigInt(b);
}

function isNumeric(value: unknown): value is number | bigint {
  return typeof value === 'bigint' || (typeof value === 'number' && Number.isInteger(value));
}

/** The name of a value's type in error messages (kube-openapi `pkg/validation/validate/type.go`). */
export type JsonType = 'null' | 'boolean' | 'integer' | 'number' | 'string' | 'array' | 'object';

/** A whole number in the range of int64 is an integer, as in Go's decoder; so is `1.0`, which JavaScript does not distinguish from `1`. */
export function jsonType(value: unknown): JsonType {
  if (typeof value === 'string') return 'string';
  if (typeof value === 'number') {
    return Number.isInteger(value) && Math.abs(value) < 2 ** 63 ? 'integer' : 'number';
  }
  if (typeof value === 'boolean') return 'boolean';
  if (typeof value === 'bigint') return 'integer';
  if (Array.isArray(value)) return 'array';
  return value === null || value === undefined ? 'null' : 'object';
}

export function cloneJson(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(cloneJson);
  if (!isObject(value)) return value;
  const copy: JsonObject = {};
  for (const name of Object.keys(value)) setField(copy, name, cloneJson(value[name]));
  return copy;
}

/**
 * An integer as sigs.k8s.io/json keeps it: exactly if it fits an int64 (a `bigint` where a `number` would change it), else as
 * a float64.
 */
export function jsonInteger(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) || BigInt.asIntN(64, value) !== value ? number : value;
}

/** JSON with sorted field names: two values are equal exactly when their texts are. */
export function canonicalJson(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'number')
    return jsonType(value) === 'integer' ? BigInt(value).toString() : String(value);
  if (typeof value === 'bigint' || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (!isObject(value)) return 'null';
  const fields = Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name])}`);
  return `{${fields.join(',')}}`;
}

/** Sets an own field whatever its name is: a plain assignment to `__proto__` would not make a field. */
export function setField(object: Record<string, unknown>, name: string, value: unknown): void {
  if (name === '__proto__') {
    Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
  } else object[name] = value;
}
