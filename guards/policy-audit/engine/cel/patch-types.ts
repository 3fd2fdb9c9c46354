/**
 * `JSONPatch{...}` and `Object{...}`: the results of mutating expressions (apiserver `pkg/cel/mutation`). An
 * object may have any fields; the type of a part of it is named by the part's path: `Object.spec.template`.
 */
import type { MessageType } from '../../../../lib/cel/code.ts';
import { durationText } from '../../../../lib/cel/format-text.ts';
import { dyn, string, type Type } from '../../../../lib/cel/static-types.ts';
import {
  CelMessage,
  CelObject,
  Duration,
  isPlain,
  Optional,
  Timestamp,
  Uint,
} from '../../../../lib/cel/values.ts';

const patchFields: Readonly<Record<string, Type>> = { op: string, path: string, from: string, value: dyn };

/** The type with this name, for `Scope.declareMessages`. */
export function patchTypes(name: string): MessageType | undefined {
  const isPatch = name === 'JSONPatch';
  if (!isPatch && name !== 'Object' && !name.startsWith('Object.')) return undefined;
  return {
    type: { kind: 'opaque', name },
    fieldType: (field) => {
      if (!isPatch) return dyn;
      return Object.hasOwn(patchFields, field) ? patchFields[field] : undefined;
    },
    make: (fields) => new CelMessage(name, fields),
  };
}

/**
 * The types of parts of an object that do not match the paths of the parts: `Object.spec.wrong{}` in
 * `spec.template`. Upstream checks no more than that.
 */
export function misnamedParts(value: unknown): string[] {
  return value instanceof CelMessage ? misnamed(value, value.type) : [];
}

function misnamed(value: unknown, path: string): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => misnamed(item, path));
  if (value instanceof Map) return [...value.values()].flatMap((item) => misnamed(item, path));
  if (!(value instanceof CelMessage)) return [];
  const { type, fields } = value;
  const own =
    type === path
      ? []
      : [
          `unexpected type name "${type}", expected "${path}", which matches field name path from root Object type`,
        ];
  return [...own, ...[...fields].flatMap(([name, field]) => misnamed(field, `${path}.${name}`))];
}

/** Converts a CEL value to JSON; integers that do not fit a double stay `bigint`. @throws {TypeError} for what JSON cannot represent. */
export function toJson(value: unknown): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') {
    if (Number.isFinite(value)) return value;
    throw new TypeError(`JSON cannot represent the number ${value}`);
  }
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (value instanceof Uint) return toJson(value.value);
  if (Array.isArray(value)) return value.map(toJson);
  if (value instanceof Timestamp) return value.toString();
  if (value instanceof Duration) return durationText(value);
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  if (value instanceof CelObject) return value.raw;
  if (value instanceof CelMessage) return entriesAsJson([...value.fields]);
  if (value instanceof Map) return entriesAsJson([...(value as ReadonlyMap<unknown, unknown>)]);
  if (isPlain(value)) return value;
  throw new TypeError(
    `JSON cannot represent ${value instanceof Optional ? 'optionals' : 'values of this type'}`,
  );
}

function entriesAsJson(entries: readonly (readonly [unknown, unknown])[]): unknown {
  return Object.fromEntries(
    entries.map(([key, value]) => {
      if (typeof key !== 'string') throw new TypeError(`JSON cannot represent the key ${String(key)}`);
      return [key, toJson(value)];
    }),
  );
}
