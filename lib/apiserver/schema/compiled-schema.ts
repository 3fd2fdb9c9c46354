/**
 * Structural schemas as the API server uses them: checked once, then applied to objects.
 *
 * ```ts
 * const schema = compileSchema({ type: 'object', properties: { spec: { type: 'object' } } });
 * schema.applyDefaults(object);
 * const warnings = unknownFieldMessages(schema.prune(object));
 * const causes = schema.validate(object);
 * ```
 *
 * The schema need not come from a CustomResourceDefinition: nothing here knows of one.
 */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { RuleWalk } from './rules/rule-walk.ts';
import { RuleCosts } from './rules/rule-costs.ts';
import { type CompiledRules, compileRuleTree } from './rules/rule-tree.ts';
import { OldValue } from './correlate.ts';
import { defaultObject } from './defaults.ts';
import { checkEmbedded } from './embedded.ts';
import { type Cause, type CauseReason, fieldError, noField, Problems } from './field-error.ts';
import { checkShape, type JsonSchema, metaFields, withoutNulls } from './json-schema.ts';
import { checkListTypes } from './list-types.ts';
import { SchemaNode } from './node.ts';
import { openApiCauses } from './openapi-rules.ts';
import { pruneObject } from './prune.ts';
import { structuralCauses } from './structural-rules.ts';
import { Validation } from './validate.ts';
import { cloneJson } from '../../json/json.ts';

export interface CompileOptions {
  /** The path of the schema in causes. Default: `spec.validation.openAPIV3Schema`. */
  readonly path?: string;
  /** Whether the objects are resources: then the schema need not contain apiVersion, kind and metadata. Default: true. */
  readonly resource?: boolean;
  /**
   * Whether the schema has to follow the rules for CustomResourceDefinitions. Default: true. If false, only its shape is
   * checked: for schemas of built-in kinds, which are not structural, and for stored schemas.
   */
  readonly strict?: boolean;
  /** Whether the schema was accepted before: then a single rule may exceed the cost limit for new rules. Default: false. */
  readonly known?: boolean;
  /** Whether to enforce `int32`, `int64` and the like, as Kubernetes does only for built-in kinds. Default: false. */
  readonly numericFormats?: boolean;
}

/** The error for a refused schema, with all causes. Its code is `RAMPART_INPUT`. */
export class InvalidSchemaError extends RampartError {
  readonly causes: readonly Cause[];

  constructor(path: string, causes: readonly Cause[]) {
    const [first] = causes;
    super(errorCodes.INPUT, {
      what: `the schema at ${path} is not valid`,
      why: first === undefined ? 'no reason given' : `${first.field}: ${first.message}`,
      ...(causes.length > 1 ? { next: `${causes.length - 1} more causes` } : {}),
    });
    this.name = 'InvalidSchemaError';
    this.causes = causes;
  }
}

const defaultPath = 'spec.validation.openAPIV3Schema';

/**
 * Checks and compiles a schema.
 *
 * @param schema JSON that should be a `JSONSchemaProps`; it is copied, so the caller may change it afterwards.
 * @throws {InvalidSchemaError} with all causes.
 */
export function compileSchema(schema: unknown, options: CompileOptions = {}): CompiledSchema {
  const path = options.path ?? defaultPath;
  try {
    return compile(schema, path, options);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new InvalidSchemaError(path, [fieldError.forbidden(path, 'is nested too deeply')]);
  }
}

function compile(schema: unknown, path: string, options: CompileOptions): CompiledSchema {
  const shape = checkShape(schema, path);
  if (shape.length > 0) throw new InvalidSchemaError(path, shape);
  const clean = withoutNulls(schema as JsonSchema);
  const node = new SchemaNode(clean, { numericFormats: options.numericFormats === true });
  const resource = options.resource !== false;
  const causes: Cause[] = [];
  if (options.strict !== false) {
    causes.push(...structuralCauses(clean, path));
    if (causes.length === 0) causes.push(...defaultCauses(node, path));
    causes.push(...openApiCauses(clean, path));
  }
  const costs = options.strict === false ? undefined : new RuleCosts(options.known === true);
  // If the schema itself is invalid, rules cannot be compiled against its types.
  const rules: CompiledRules =
    causes.length === 0 ? compileRuleTree(node, resource, path, costs) : { root: undefined, causes: [] };
  if (options.strict !== false) causes.push(...rules.causes);
  if (causes.length > 0) throw new InvalidSchemaError(path, causes);
  return new CompiledSchema(clean, node, resource, rules);
}

/** Errors after which rules are not run: the values may not have the types on which the rules rely. */
const blocking: ReadonlySet<CauseReason> = new Set([
  'FieldValueNotSupported',
  'FieldValueRequired',
  'FieldValueTooLong',
  'FieldValueTooMany',
  'FieldValueTypeInvalid',
]);

const rulesSkipped =
  'some validation rules were not checked because the object was invalid; correct the existing errors to complete validation';

/** A compiled schema. Holds only memory; nothing has to be disposed. */
export class CompiledSchema {
  /** The schema, without keywords that were null. */
  readonly schema: JsonSchema;
  readonly #node: SchemaNode;
  readonly #resource: boolean;
  readonly #rules: CompiledRules;

  /** Use {@link compileSchema}. */
  constructor(schema: JsonSchema, node: SchemaNode, resource: boolean, rules: CompiledRules) {
    this.schema = schema;
    this.#node = node;
    this.#resource = resource;
    this.#rules = rules;
  }

  /**
   * Removes unknown fields from an object, in place.
   *
   * @returns their paths, sorted: `spec.foo`, `spec.items[0].bar`.
   * @throws {RampartError} `RAMPART_LIMIT` for an object nested too deeply to walk.
   */
  prune(object: unknown): string[] {
    return guarded('prune', () => pruneObject(object, this.#node, this.#resource));
  }

  /**
   * Drops nulls that are not allowed and fills in defaults, in place. Call it before {@link prune}, as the API server does.
   *
   * @throws {RampartError} `RAMPART_LIMIT` for an object nested too deeply to walk.
   */
  applyDefaults(object: unknown): void {
    guarded('default', () => defaultObject(object, this.#node));
  }

  /**
   * Checks an object: types and bounds, then embedded resources and unique list items, then the rules, except
   * those that depend on invalid parts.
   *
   * @param old the stored object that this one replaces. Errors in unchanged fields are forgiven
   * ("ratcheting", on by default since Kubernetes 1.30), and rules with `oldSelf` run.
   * @param warnings takes the messages of rules that unchanged fields violate.
   * @returns the causes, at most a thousand; never throws, for any JSON.
   */
  validate(object: unknown, old?: unknown, warnings: string[] = []): Cause[] {
    try {
      return this.#validate(object, old === undefined ? undefined : new OldValue(old), warnings);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return [fieldError.invalid(noField, '', 'the object is nested too deeply')];
    }
  }

  #validate(object: unknown, old: OldValue | undefined, warnings: string[]): Cause[] {
    let problems = new Problems();
    new Validation(problems, false).check(object, this.#node, undefined);
    if (old !== undefined && problems.causes.length > 0) {
      problems = new Problems();
      new Validation(problems, true).check(object, this.#node, old);
    }
    for (const check of [checkEmbedded, checkListTypes]) {
      const found = new Problems();
      check(object, this.#node, '', found);
      // An object that is already stored with such an error may keep it in an update.
      if (found.causes.length > 0 && (old === undefined || !this.#hasFault(old.value, check))) {
        problems.addAll(found.causes);
      }
    }
    if (this.#rules.root !== undefined) {
      if (problems.causes.some((cause) => blocking.has(cause.reason))) {
        problems.add(fieldError.invalid(noField, null, rulesSkipped));
      } else new RuleWalk(problems, warnings).run(object, this.#rules.root, '', old, undefined);
    }
    return problems.causes;
  }

  #hasFault(object: unknown, check: typeof checkListTypes): boolean {
    const problems = new Problems(1);
    check(object, this.#node, '', problems);
    return problems.full;
  }
}

/** Messages about pruned paths, as in strict field validation: `unknown field "spec.foo"`. */
export function unknownFieldMessages(paths: readonly string[]): string[] {
  return paths.map((path) => `unknown field "${path}"`);
}

function guarded<Result>(what: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new RampartError(errorCodes.LIMIT, {
      what: `cannot ${what} the object`,
      why: 'it is nested too deeply',
      next: 'Reduce the nesting of the object',
      cause: error,
    });
  }
}

/** Errors in the defaults of a schema. As in Kubernetes, defaults below `additionalProperties` are not examined. */
function defaultCauses(node: SchemaNode, path: string): Cause[] {
  const causes: Cause[] = [];
  visit(node, path, true, false, causes);
  return causes;
}

function visit(
  node: SchemaNode,
  path: string,
  resource: boolean,
  insideMeta: boolean,
  causes: Cause[],
): void {
  const value = node.schema.default;
  if (value !== undefined) checkDefault(value, node, `${path}.default`, insideMeta, causes);
  if (node.items !== undefined) visit(node.items, `${path}.items`, node.items.embedded, insideMeta, causes);
  for (const [name, property] of node.properties) {
    const meta = insideMeta || (resource && metaFields.has(name));
    visit(property, `${path}.properties[${name}]`, property.embedded, meta, causes);
  }
}

function checkDefault(
  value: unknown,
  node: SchemaNode,
  path: string,
  insideMeta: boolean,
  causes: Cause[],
): void {
  if (!insideMeta && pruneObject(cloneJson(value), node, node.embedded).length > 0) {
    causes.push(fieldError.invalid(path, value, 'must not have unknown fields'));
  }
  const problems = new Problems();
  checkEmbedded(value, node, path, problems, false);
  if (problems.causes.length === 0) new Validation(problems, false).check(value, node, undefined);
  for (const problem of problems.causes) {
    // The validator starts at the default value, so its paths lack the path of the default.
    const inside = problem.field === '<nil>' ? '' : `.${problem.field}`;
    causes.push(problem.field.startsWith(path) ? problem : { ...problem, field: path + inside });
  }
}
