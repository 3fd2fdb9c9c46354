/**
 * Schemas of custom resources, written once: TypeScript infers the type of the objects from them, and the manifest of the
 * CustomResourceDefinition is made of them (`manifest.ts`).
 *
 * ```ts
 * const spec = object({
 *   path: string('Where it is.', { minLength: 1 }),
 *   create: boolean({ default: false }),
 *   labels: optional(mapOf(string())),
 * });
 * type Spec = ReadOf<typeof spec>;       // { path: string; create: boolean; labels?: Record<string, string> }
 * type Written = WrittenOf<typeof spec>; // { path: string; create?: boolean; labels?: ... }
 * ```
 *
 * What the keywords mean is in the documentation of Kubernetes, "CustomResourceDefinition, structural schemas".
 */

/** A JSON schema as a CustomResourceDefinition holds it. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** Whether a field is required: `defaulted` fields need not be written, and are present when read. */
type Presence = 'required' | 'optional' | 'defaulted';

/** A schema, with the types of the values that it describes. */
export interface Schema<Read = unknown, Written = Read, P extends Presence = 'required'> {
  readonly json: JsonSchema;
  readonly presence: P;
  /** Never set: it ties the types to the schema. */
  readonly types?: { readonly read: Read; readonly written: Written };
}

type AnySchema = Schema<unknown, unknown, Presence>;

/** A value as the API returns it: defaults are filled in. */
export type ReadOf<S> = S extends { readonly types?: { readonly read: infer Read } } ? Read : never;
/** A value as it may be written: fields with defaults are optional. */
export type WrittenOf<S> = S extends { readonly types?: { readonly written: infer Written } }
  ? Written
  : never;

export type Fields = Readonly<Record<string, AnySchema>>;

type Flat<T> = { [Key in keyof T]: T[Key] };
type With<F extends Fields, P extends Presence> = {
  [Key in keyof F]: F[Key]['presence'] extends P ? Key : never;
}[keyof F];

export type ReadFields<F extends Fields> = Flat<
  { readonly [Key in With<F, 'required' | 'defaulted'>]: ReadOf<F[Key]> } & {
    readonly [Key in With<F, 'optional'>]?: ReadOf<F[Key]>;
  }
>;
export type WrittenFields<F extends Fields> = Flat<
  { readonly [Key in With<F, 'required'>]: WrittenOf<F[Key]> } & {
    readonly [Key in With<F, 'optional' | 'defaulted'>]?: WrittenOf<F[Key]>;
  }
>;

/** A CEL rule, `x-kubernetes-validations`. */
export interface Rule {
  readonly rule: string;
  readonly message?: string;
  readonly messageExpression?: string;
  readonly reason?:
    'FieldValueInvalid' | 'FieldValueForbidden' | 'FieldValueRequired' | 'FieldValueDuplicate';
  /** The field that the error is shown at: `.mode`. */
  readonly fieldPath?: string;
}

/** A rule with `self`, and for transitions `oldSelf`; `message` is what people read when it does not hold. */
export function rule(expression: string, message: string, more: Omit<Rule, 'rule' | 'message'> = {}): Rule {
  return { rule: expression, message, ...more };
}

interface Common<Value> {
  /** For `kubectl explain`. */
  readonly description?: string;
  /** Set by the API server if the field is missing. */
  readonly default?: Value;
  readonly rules?: readonly Rule[];
}

/** With a default the field need not be written. */
type PresenceOf<Options> = Options extends { readonly default: unknown } ? 'defaulted' : 'required';

interface StringOptions extends Common<string> {
  /** In characters. Set a `maxLength` for strings that rules read: the API server estimates the cost of rules by it. */
  readonly minLength?: number;
  readonly maxLength?: number;
  /** A regular expression in RE2 syntax, not anchored. */
  readonly pattern?: string;
  /** `date-time`, `duration`, `uri`, `ipv4`, `uuid`, ...; one that the API server does not know is ignored. */
  readonly format?: string;
}

export function string<const O extends StringOptions>(
  described?: string | O,
  options?: O,
): Schema<string, string, PresenceOf<O>> {
  return make({ type: 'string' }, optionsOf(described, options));
}

/** One of some strings. */
export function oneOf<const Value extends string, const O extends Common<NoInfer<Value>>>(
  values: readonly Value[],
  options?: O,
): Schema<Value, Value, PresenceOf<O>> {
  return make({ type: 'string', enum: [...values] }, options);
}

interface Bounds {
  readonly minimum?: number;
  readonly maximum?: number;
}

interface IntegerOptions extends Common<number>, Bounds {
  /** For readers and generators of other languages; the API server takes any integer. */
  readonly format?: 'int32' | 'int64';
}

/** A JavaScript number: above 2 ** 53 it is rounded. */
export function integer<const O extends IntegerOptions>(
  described?: string | O,
  options?: O,
): Schema<number, number, PresenceOf<O>> {
  return make({ type: 'integer' }, optionsOf(described, options));
}

export function boolean<const O extends Common<boolean>>(
  described?: string | O,
  options?: O,
): Schema<boolean, boolean, PresenceOf<O>> {
  return make({ type: 'boolean' }, optionsOf(described, options));
}

/** The bounds apply to integers. */
interface IntOrStringOptions extends Common<number | string>, Bounds {
  /** A regular expression for strings. */
  readonly pattern?: string;
  readonly maxLength?: number;
}

/** A number or a string, as ports and percentages are. */
export function intOrString<const O extends IntOrStringOptions>(
  described?: string | O,
  options?: O,
): Schema<number | string, number | string, PresenceOf<O>> {
  return make(
    { anyOf: [{ type: 'integer' }, { type: 'string' }], 'x-kubernetes-int-or-string': true },
    optionsOf(described, options),
  );
}

export interface ListOptions<Written> extends Common<readonly Written[]> {
  readonly minItems?: number;
  readonly maxItems?: number;
  /** The keys of a list that is a map: server-side apply merges its items by them, and they are unique. */
  readonly mapKeys?: readonly string[];
  /** The items are unique, and server-side apply merges them. Otherwise the list is replaced as a whole. */
  readonly set?: boolean;
}

export function list<S extends AnySchema, const O extends ListOptions<WrittenOf<S>>>(
  items: S,
  options?: O,
): Schema<readonly ReadOf<S>[], readonly WrittenOf<S>[], PresenceOf<O>> {
  const { mapKeys, set, ...rest }: ListOptions<unknown> = options ?? {};
  const kind =
    mapKeys === undefined
      ? set === true && { 'x-kubernetes-list-type': 'set' }
      : { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': mapKeys };
  return make({ type: 'array', items: items.json, ...kind }, rest);
}

interface Counted {
  readonly minProperties?: number;
  readonly maxProperties?: number;
  /** Server-side apply replaces it as a whole. */
  readonly atomic?: boolean;
}

interface MapOptions<Written> extends Common<Readonly<Record<string, Written>>>, Counted {}

/** A map with arbitrary keys and values of one type, such as labels. */
export function mapOf<S extends AnySchema, const O extends MapOptions<WrittenOf<S>>>(
  values: S,
  options?: O,
): Schema<Readonly<Record<string, ReadOf<S>>>, Readonly<Record<string, WrittenOf<S>>>, PresenceOf<O>> {
  return makeObject({ type: 'object', additionalProperties: values.json }, options);
}

interface ObjectOptions<Written> extends Common<Written>, Counted {}

/** An object with these fields. The API server drops all others that are sent, or refuses them (`--validate=strict`). */
export function object<const F extends Fields, const O extends ObjectOptions<WrittenFields<F>>>(
  fields: F,
  options?: O,
): Schema<ReadFields<F>, WrittenFields<F>, PresenceOf<O>>;
export function object<const F extends Fields>(
  description: string,
  fields: F,
): Schema<ReadFields<F>, WrittenFields<F>>;
export function object(first: string | Fields, second: object = {}): AnySchema {
  const [fields, options] =
    typeof first === 'string' ? [second as Fields, { description: first }] : [first, second];
  const required = Object.keys(fields).filter((name) => fields[name]?.presence === 'required');
  const properties = Object.fromEntries(Object.entries(fields).map(([name, { json }]) => [name, json]));
  return makeObject({ type: 'object', ...(required.length > 0 && { required }), properties }, options);
}

/** Any object, kept unchanged. */
export function anyObject<const O extends Common<Readonly<Record<string, unknown>>>>(
  options?: O,
): Schema<Readonly<Record<string, unknown>>, Readonly<Record<string, unknown>>, PresenceOf<O>> {
  return make({ type: 'object', 'x-kubernetes-preserve-unknown-fields': true }, options);
}

/** Any JSON, kept unchanged. */
export function anyValue<const O extends Common<unknown>>(
  options?: O,
): Schema<unknown, unknown, PresenceOf<O>> {
  return make({ 'x-kubernetes-preserve-unknown-fields': true }, options);
}

/**
 * Bytes, in base64 or as a list of integers. The schema has no type: `format` alone accepts both forms (kube-openapi,
 * `pkg/validation/validate/type.go`), while server-side apply accepts no list for the type string.
 */
export function bytes<const O extends Common<string | readonly number[]>>(
  options?: O,
): Schema<string | readonly number[], string | readonly number[], PresenceOf<O>> {
  const items = { type: 'integer', minimum: 0, maximum: 255 };
  return make({ 'x-kubernetes-preserve-unknown-fields': true, format: 'byte', minItems: 1, items }, options);
}

export function optional<S extends AnySchema>(schema: S): Schema<ReadOf<S>, WrittenOf<S>, 'optional'> {
  return { json: schema.json, presence: 'optional' };
}

/** A value that may be `null`. Without this, the API server drops fields that are null. */
export function nullable<Read, Written, P extends Presence>(
  schema: Schema<Read, Written, P>,
): Schema<Read | null, Written | null, P> {
  return { json: { ...schema.json, nullable: true }, presence: schema.presence };
}

/** A description can be given in place of the options, or before them. */
function optionsOf<O>(described: string | O | undefined, options: O | undefined): O | undefined {
  return typeof described === 'string' ? ({ description: described, ...options } as O) : described;
}

function makeObject<Read, Written, P extends Presence>(
  json: JsonSchema,
  options: (Common<unknown> & Counted) | undefined = {},
): Schema<Read, Written, P> {
  const { atomic, ...rest } = options;
  return make({ ...json, ...(atomic === true && { 'x-kubernetes-map-type': 'atomic' }) }, rest);
}

/** A schema with the keywords of the options; the caller declares its types. */
function make<Read, Written, P extends Presence>(
  json: JsonSchema,
  options: Common<unknown> | undefined = {},
): Schema<Read, Written, P> {
  const { description, rules, ...keywords } = options;
  return {
    json: {
      ...(description !== undefined && { description }),
      ...json,
      ...keywords,
      ...(rules !== undefined && { 'x-kubernetes-validations': rules }),
    },
    presence: ('default' in keywords ? 'defaulted' : 'required') as P,
  };
}
