/** A schema prepared for use: keywords read, formats compiled, fields in maps. Defaulting, pruning and validation use it. */
import { formatCheck } from '../../cel/formats.ts';
import { additionalOf, itemsOf, type JsonSchema, type ValidationRule } from './json-schema.ts';
import { Regex, RegexBudgetError, RegexSyntaxError } from '../../regex/regex.ts';

/**
 * x-kubernetes-list-type: how the items of a new list are matched with those of the old one. `map`: by the
 * list's keys; `set`: by value, only for ratcheting; `atomic`: not at all. Never by index.
 */
export type ListType = 'atomic' | 'set' | 'map';

/** A `pattern`, compiled on first use: most patterns of a CustomResourceDefinition are never used, and compiling takes long. */
export class Pattern {
  readonly source: string;
  #compiled: Regex | RegexSyntaxError | undefined;

  constructor(source: string) {
    this.source = source;
  }

  /** Go's error message if the pattern is invalid: as in the API server, no string matches it then. */
  get error(): string | undefined {
    const compiled = this.#compile();
    return compiled instanceof RegexSyntaxError ? compiled.message : undefined;
  }

  /** @throws {RegexBudgetError} */
  test(text: string): boolean {
    const compiled = this.#compile();
    return compiled instanceof Regex && compiled.test(text);
  }

  #compile(): Regex | RegexSyntaxError {
    try {
      return (this.#compiled ??= new Regex(this.source));
    } catch (error) {
      if (!(error instanceof RegexSyntaxError)) throw error;
      return (this.#compiled = error);
    }
  }
}

export interface NodeOptions {
  /**
   * Whether to enforce `int32`, `int64`, `uint32`, `uint64` and `float`. The API server ignores these formats in
   * CustomResourceDefinitions, but decodes its built-in kinds into Go types of these sizes.
   */
  readonly numericFormats?: boolean;
}

export class SchemaNode {
  readonly schema: JsonSchema;
  /** `[]`: any type; `['integer', 'string']` for int-or-string. */
  readonly types: readonly string[];
  /** The types as error messages name them: `integer,string`. */
  readonly typeText: string;
  readonly nullable: boolean;
  readonly intOrString: boolean;
  readonly preserveUnknown: boolean;
  readonly embedded: boolean;
  readonly properties: ReadonlyMap<string, SchemaNode>;
  readonly items: SchemaNode | undefined;
  /** The schema of fields that are not in `properties`. */
  readonly additional: SchemaNode | undefined;
  /** The value of `additionalProperties`, true if it is a schema; `undefined` without it. */
  readonly additionalAllowed: boolean | undefined;
  readonly allOf: readonly SchemaNode[];
  readonly anyOf: readonly SchemaNode[];
  readonly oneOf: readonly SchemaNode[];
  readonly not: SchemaNode | undefined;
  readonly required: readonly string[];
  readonly enumeration: readonly unknown[] | undefined;
  readonly pattern: Pattern | undefined;
  readonly format: { readonly name: string; readonly check: (text: string) => boolean } | undefined;
  readonly numericFormat: string | undefined;
  readonly listType: ListType;
  readonly listMapKeys: readonly string[];
  /** Whether two revisions of this map can be compared field by field. */
  readonly granularMap: boolean;
  readonly rules: readonly ValidationRule[];
  /** The fields with a default, in the order of the schema. */
  readonly defaulted: readonly (readonly [string, SchemaNode])[];
  /** Whether this schema, or one below it, has defaults, lists, rules or embedded resources. If not, their walks skip it. */
  readonly within: {
    readonly defaults: boolean;
    readonly lists: boolean;
    readonly rules: boolean;
    readonly embedded: boolean;
  };

  constructor(schema: JsonSchema, options: NodeOptions = {}) {
    const child = (part: JsonSchema): SchemaNode => new SchemaNode(part, options);
    this.schema = schema;
    this.intOrString = schema['x-kubernetes-int-or-string'] === true;
    this.types = this.intOrString ? ['integer', 'string'] : schema.type ? [schema.type] : [];
    this.typeText = this.types.join(',');
    this.nullable = schema.nullable === true;
    this.preserveUnknown = schema['x-kubernetes-preserve-unknown-fields'] === true;
    this.embedded = schema['x-kubernetes-embedded-resource'] === true;
    this.properties = new Map(
      Object.entries(schema.properties ?? {}).map(([name, property]) => [name, child(property)]),
    );
    const [items, additional] = [itemsOf(schema), additionalOf(schema)];
    this.items = items && child(items);
    this.additional = additional && child(additional);
    this.additionalAllowed =
      schema.additionalProperties === undefined ? undefined : schema.additionalProperties !== false;
    this.allOf = (schema.allOf ?? []).map(child);
    this.anyOf = (schema.anyOf ?? []).map(child);
    this.oneOf = (schema.oneOf ?? []).map(child);
    this.not = schema.not && child(schema.not);
    this.required = schema.required ?? [];
    this.enumeration = schema.enum !== undefined && schema.enum.length > 0 ? schema.enum : undefined;
    this.pattern = schema.pattern ? new Pattern(schema.pattern) : undefined;
    const check = schema.format ? formatCheck(schema.format) : undefined;
    this.format = check && { name: schema.format ?? '', check };
    this.numericFormat = options.numericFormats === true && check === undefined ? schema.format : undefined;
    const listType = schema['x-kubernetes-list-type'];
    this.listType = listType === 'set' || listType === 'map' ? listType : 'atomic';
    this.listMapKeys = schema['x-kubernetes-list-map-keys'] ?? [];
    this.granularMap = (schema['x-kubernetes-map-type'] ?? 'granular') === 'granular';
    this.rules = schema['x-kubernetes-validations'] ?? [];
    this.defaulted = [...this.properties].filter(([, property]) => property.schema.default !== undefined);
    const children = [
      ...this.properties.values(),
      ...[this.items, this.additional].filter((part) => part !== undefined),
    ];
    this.within = {
      defaults:
        this.defaulted.length > 0 ||
        children.some((part) => part.within.defaults || part.schema.default !== undefined),
      lists: this.listType !== 'atomic' || children.some((part) => part.within.lists),
      rules: this.rules.length > 0 || children.some((part) => part.within.rules),
      embedded: this.embedded || children.some((part) => part.within.embedded),
    };
  }

  /** The schema of a field: from `properties`, otherwise that of additional fields. */
  field(name: string): SchemaNode | undefined {
    return this.properties.get(name) ?? this.additional;
  }
}

export { RegexBudgetError };
