/**
 * `fieldPath` of a rule and `jsonPath` of a selectable field: names of fields and map keys, relative to a schema
 * (apiextensions-apiserver `pkg/apiserver/schema/cel/validation.go`, `ValidFieldPath`).
 */
import { additionalOf, type JsonSchema } from '../json-schema.ts';

export interface FieldPath {
  /** The path as shown in errors: `spec.labels[app]`. */
  readonly path: string;
  readonly schema: JsonSchema;
}

const escapes: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  "'": "'",
  '\\': '\\',
};

/** Follows `.spec.ports` or `.metadata.labels['app']`; `undefined` when malformed or not in the schema. */
export function checkFieldPath(path: string, schema: JsonSchema): FieldPath | undefined {
  let at: JsonSchema = schema;
  let written = '';
  let rest = path;
  while (rest !== '') {
    const match = /^(?:\.([^.[\]]+)|\['((?:[^'\\]|\\.)*)'\])/.exec(rest);
    if (match === null) return undefined;
    rest = rest.slice(match[0].length);
    const name = match[1] ?? unescape(match[2] ?? '');
    if (name === undefined) return undefined;
    const additional = additionalOf(at);
    if (at.properties !== undefined) {
      const property = Object.hasOwn(at.properties, name) ? at.properties[name] : undefined;
      if (property === undefined) return undefined;
      at = property;
      written += written === '' ? name : `.${name}`;
    } else if (additional !== undefined) {
      at = additional;
      written += `[${name}]`;
    } else return undefined;
  }
  return { path: written, schema: at };
}

function unescape(text: string): string | undefined {
  let valid = true;
  const plain = text.replaceAll(/\\(.)/gs, (_all, letter: string) => {
    const character = escapes[letter];
    valid &&= character !== undefined;
    return character ?? '';
  });
  return valid ? plain : undefined;
}
