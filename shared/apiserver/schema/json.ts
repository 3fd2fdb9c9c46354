/** JSON values as the schema code handles them: types by their JSON name, equality, copies. */
import { isObject, type JsonObject } from '../../json/json.ts';
import { setField } from '../../json/set-field.ts';

export { setField };
export { deepEqual, fieldOf, isObject, type JsonObject } from '../../json/json.ts';

/** The name of a value's type in error messages (kube-openapi `pkg/validation/validate/type.go`). */
export type JsonType = 'null' | 'boolean' | 'integer' | 'number' | 'string' | 'array' | 'object';

/** Go keeps a number as int64 where it can; every whole number of that range counts as an integer here. */
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
