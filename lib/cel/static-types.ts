/** Types at compile time, and function signatures. */
import type { CelKind, CelType } from './types.ts';

export interface Type {
  readonly kind: CelKind | 'uint' | 'null' | 'type' | 'optional' | 'opaque' | 'param';
  /** Type of a list's items, a map's values or an optional's value. */
  readonly element?: Type;
  /** Type of a map's keys. */
  readonly key?: Type;
  /** The fields of an object. Two object types are equal if they have the same schema. */
  readonly schema?: CelType;
  /** The name of an opaque type or of a type parameter. */
  readonly name?: string;
}

export const dyn: Type = { kind: 'dyn' };
export const bool: Type = { kind: 'bool' };
export const string: Type = { kind: 'string' };
export const int: Type = { kind: 'int' };
export const listOf = (element: Type): Type => ({ kind: 'list', element });
export const mapOf = (key: Type, element: Type): Type => ({ kind: 'map', key, element });
export const optionalOf = (element: Type): Type => ({ kind: 'optional', element });

/** The type of a variable or field. */
export function staticType(type: CelType | undefined): Type {
  if (type === undefined) return dyn;
  if (type.kind === 'list') return listOf(staticType(type.element));
  if (type.kind === 'map') return mapOf(string, staticType(type.element));
  return type.kind === 'object' ? { kind: 'object', schema: type } : { kind: type.kind };
}

const named: Readonly<Record<string, Type>> = {
  ...Object.fromEntries(
    (['dyn', 'bool', 'int', 'uint', 'double', 'string', 'bytes', 'null', 'type'] as const).map((kind) => [
      kind,
      { kind },
    ]),
  ),
  list: listOf(dyn),
  map: mapOf(dyn, dyn),
  'google.protobuf.Duration': { kind: 'duration' },
  'google.protobuf.Timestamp': { kind: 'timestamp' },
};

/** Parses `map<string, list<T>>`; a single capital letter is a parameter. `undefined` if it is not a type. */
export function parseType(text: string, opaque: { has(name: string): boolean }): Type | undefined {
  const known = Object.hasOwn(named, text) ? named[text] : undefined;
  if (known !== undefined) return known;
  if (opaque.has(text)) return { kind: 'opaque', name: text };
  if (/^[A-Z]$/.test(text)) return { kind: 'param', name: text };
  const [, kind, inner = ''] = /^(list|map|optional)<(.+)>$/.exec(text) ?? [];
  const [first, second] = splitTypes(inner).map((part) => parseType(part, opaque));
  if (kind === 'map') return first && second && mapOf(first, second);
  if (first === undefined) return undefined;
  return kind === 'list' ? listOf(first) : kind === 'optional' ? optionalOf(first) : undefined;
}

/** The types between commas that are not within brackets. */
export function splitTypes(text: string): string[] {
  const parts: string[] = [];
  let [depth, from] = [0, 0];
  for (let at = 0; at <= text.length; at++) {
    if (text[at] === '<') depth++;
    else if (text[at] === '>') depth--;
    else if (at === text.length || (text[at] === ',' && depth === 0)) {
      parts.push(text.slice(from, at).trim());
      from = at + 1;
    }
  }
  return parts.filter((part) => part !== '');
}

/** The type as cel-go prints it: `map(string, int)`. */
export function typeText(type: Type): string {
  if (type.element === undefined) return type.name ?? type.kind;
  const element = typeText(type.element);
  if (type.kind === 'map') return `map(${typeText(type.key ?? dyn)}, ${element})`;
  return `${type.kind === 'optional' ? 'optional_type' : type.kind}(${element})`;
}

const nullable: ReadonlySet<Type['kind']> = new Set([
  'object',
  'duration',
  'timestamp',
  'opaque',
  'optional',
  'null',
]);

/** The common type of both; `undefined` if they have none. */
export function unify(a: Type, b: Type): Type | undefined {
  if (a === b || a.kind === 'dyn') return a;
  if (b.kind === 'dyn') return b;
  if (a.kind === 'null') return nullable.has(b.kind) ? b : undefined;
  if (b.kind === 'null') return nullable.has(a.kind) ? a : undefined;
  if (a.kind !== b.kind || a.schema !== b.schema || a.name !== b.name) return undefined;
  if (a.element === undefined || b.element === undefined) return a;
  const element = unify(a.element, b.element);
  const key = unify(a.key ?? dyn, b.key ?? dyn);
  return element && key && { ...a, element, ...(a.key && { key }) };
}

/** Types of type parameters, keyed by parameter name. */
type Bindings = Map<string, Type>;

/** Whether a value of a type is assignable to a declared type. */
function fits(declared: Type, actual: Type, bindings: Bindings): boolean {
  if (declared.kind === 'param') {
    const bound = bindings.get(declared.name ?? '');
    const type = bound === undefined ? actual : unify(bound, actual);
    if (type !== undefined) bindings.set(declared.name ?? '', type);
    return type !== undefined;
  }
  if (declared.kind === 'dyn' || actual.kind === 'dyn') return true;
  if (declared.kind !== actual.kind || declared.name !== actual.name) return false;
  return (
    (declared.element === undefined || fits(declared.element, actual.element ?? dyn, bindings)) &&
    (declared.key === undefined || fits(declared.key, actual.key ?? dyn, bindings))
  );
}

function substitute(type: Type, bindings: Bindings): Type {
  if (type.kind === 'param') return bindings.get(type.name ?? '') ?? dyn;
  if (type.element === undefined) return type;
  const element = substitute(type.element, bindings);
  return { ...type, element, ...(type.key && { key: substitute(type.key, bindings) }) };
}

export interface Signature {
  readonly params: readonly Type[];
  readonly result: Type;
}

/** The signatures that accept arguments of these types, and their result types. */
export function matching<S extends Signature>(
  signatures: readonly S[],
  args: readonly Type[],
): { readonly found: readonly S[]; readonly result: Type } {
  let result: Type | undefined;
  const found = signatures.filter((signature) => {
    const bindings: Bindings = new Map();
    const { params } = signature;
    if (params.length !== args.length) return false;
    if (!params.every((param, index) => fits(param, args[index] ?? dyn, bindings))) return false;
    const given = substitute(signature.result, bindings);
    result = result === undefined ? given : typeText(result) === typeText(given) ? result : dyn;
    return true;
  });
  return { found, result: result ?? dyn };
}
