/**
 * Validation of values against a schema, in the order and with the words of kube-openapi
 * (`pkg/validation/validate`, `pkg/validation/errors/schema.go`) as apiextensions-apiserver turns them into
 * field errors (`pkg/apiserver/validation/validation.go`).
 *
 * All keywords are checked even if the value has the wrong type. For strings, and for the number of fields, only the first
 * failure is reported.
 */
import { correlate, type Old } from './correlate.ts';
import { goQuote } from '../../cel/go-text.ts';
import { fieldError, Problems } from './field-error.ts';
import { canonicalJson, deepEqual, jsonType, type JsonObject, type JsonType } from '../../json/json.ts';
import { RegexBudgetError, type SchemaNode } from './node.ts';
import { checkNumber } from './number.ts';

/** One walk over an object: its current path, and the problems found. */
export class Validation {
  problems: Problems;
  readonly #path: (string | number)[] = [];
  /** Whether to ignore errors in unchanged fields. */
  readonly #ratchet: boolean;

  constructor(problems: Problems, ratchet: boolean) {
    this.problems = problems;
    this.#ratchet = ratchet;
  }

  /** `spec.traps[0].path`, empty at the root. */
  get path(): string {
    let path = '';
    for (const part of this.#path) {
      if (typeof part === 'number') path += `[${part}]`;
      else path += path === '' ? part : `.${part}`;
    }
    return path;
  }

  /**
   * The path of a field of the current value. At the root, kube-openapi writes `.name`, which users never see.
   */
  pathOf(name: string): string {
    const path = this.path;
    return path === '' ? name : `${path}.${name}`;
  }

  /**
   * Checks a value.
   *
   * @returns how many checks it passed: `anyOf` and `oneOf` report the branch that came closest.
   */
  check(value: unknown, node: SchemaNode, old: Old): number {
    if (this.#ratchet && old !== undefined && deepEqual(value, old.value)) return 1;
    const type = jsonType(value);
    if (type === 'null') {
      if (node.types.length > 0 && !node.nullable) this.#wrongType(node, type);
      if (node.enumeration !== undefined) this.#checkEnum(null, node.enumeration);
      return 1;
    }
    let passed = 1;
    if (node.types.length > 0) passed += this.#checkType(node, type);
    else if (node.format !== undefined) passed += this.#checkUntyped(node.format.name, type);
    passed += this.#checkCombinations(value, node);
    if (typeof value === 'string') this.#checkString(value, node);
    else if (typeof value === 'number' || typeof value === 'bigint') checkNumber(value, node, this);
    else if (Array.isArray(value)) passed += this.#checkItems(value, node, old);
    if (node.enumeration !== undefined) this.#checkEnum(value, node.enumeration);
    if (type === 'object') passed += this.#checkFields(value as JsonObject, node, old);
    return passed;
  }

  /** The place as it appears in messages: `name in body`. */
  get #where(): string {
    return `${this.path} in body`;
  }

  invalid(value: unknown, words: string): void {
    this.problems.add(fieldError.invalid(this.path, value, `${this.#where} ${words}`));
  }

  #wrongType(node: SchemaNode, type: JsonType): void {
    const detail = `${this.#where} must be of type ${node.typeText}: ${goQuote(type)}`;
    this.problems.add(fieldError.typeInvalid(this.path, type, detail));
  }

  #checkType(node: SchemaNode, type: JsonType): number {
    const types = node.types;
    const fits =
      types.includes(type) ||
      (type === 'integer' && types.includes('number')) ||
      // For strings and lists, a known format is checked instead of the type, unless the type is a number.
      (node.format !== undefined &&
        (type === 'string' || type === 'array') &&
        !types.includes('number') &&
        !types.includes('integer'));
    if (!fits) this.#wrongType(node, type);
    return fits ? 1 : 0;
  }

  /** A format without a type allows strings and lists. For other values, kube-openapi's message names the value's own format. */
  #checkUntyped(format: string, type: JsonType): number {
    if (type === 'string' || type === 'array') return 1;
    const found = type === 'integer' ? 'int64' : type === 'number' ? 'double' : '';
    const detail = `${this.#where} must be of type ${format}: ${goQuote(found)}`;
    this.problems.add(fieldError.typeInvalid(this.path, found, detail));
    return 0;
  }

  #checkString(text: string, node: SchemaNode): void {
    this.#checkText(text, node);
    if (node.format !== undefined && !node.format.check(text)) {
      const detail = `${this.#where} must be of type ${node.format.name}: ${goQuote(text)}`;
      this.problems.add(fieldError.typeInvalid(this.path, text, detail));
    }
  }

  #checkText(text: string, node: SchemaNode): void {
    const { maxLength, minLength } = node.schema;
    if (maxLength !== undefined && text.length > maxLength && runes(text) > maxLength) {
      this.problems.add(fieldError.tooLong(this.path, maxLength));
    } else if (minLength !== undefined && text.length < 2 * minLength && runes(text) < minLength) {
      this.invalid(text, `should be at least ${minLength} chars long`);
    } else if (node.pattern !== undefined) this.#checkPattern(text, node.pattern);
  }

  #checkPattern(text: string, pattern: NonNullable<SchemaNode['pattern']>): void {
    if (pattern.error !== undefined) {
      return this.invalid(text, `should match '${pattern.source}, but pattern is invalid: ${pattern.error}'`);
    }
    try {
      if (!pattern.test(text)) this.invalid(text, `should match '${pattern.source}'`);
    } catch (error) {
      if (!(error instanceof RegexBudgetError)) throw error;
      this.problems.add(
        fieldError.invalid(
          this.path,
          '',
          `${this.#where} should match '${pattern.source}', but ${error.message}`,
        ),
      );
    }
  }

  #checkEnum(value: unknown, allowed: readonly unknown[]): void {
    if (allowed.some((one) => deepEqual(one, value))) return;
    const names = allowed.map((one) => (typeof one === 'string' ? one : canonicalJson(one)));
    this.problems.add(fieldError.notSupported(this.path, value, names));
  }

  #checkItems(list: readonly unknown[], node: SchemaNode, old: Old): number {
    const { minItems, maxItems, uniqueItems } = node.schema;
    let passed = 1;
    if (node.items !== undefined) {
      const olds = correlate(old, this.#ratchet, (before) => before.items(list, node));
      for (let index = 0; index < list.length && !this.problems.full; index++) {
        this.#path.push(index);
        passed += this.check(list[index], node.items, olds?.(index));
        this.#path.pop();
      }
    }
    if (minItems !== undefined && list.length < minItems) {
      this.invalid(list.length, `should have at least ${minItems} items`);
    }
    if (maxItems !== undefined && list.length > maxItems) {
      this.problems.add(fieldError.tooMany(this.path, list.length, maxItems));
    }
    if (uniqueItems === true && new Set(list.map(canonicalJson)).size < list.length) {
      this.invalid('', "shouldn't contain duplicates");
    }
    return passed;
  }

  #checkFields(object: JsonObject, node: SchemaNode, old: Old): number {
    const { minProperties, maxProperties } = node.schema;
    const names = Object.keys(object);
    if (minProperties !== undefined && names.length < minProperties) {
      this.invalid(names.length, `should have at least ${minProperties} properties`);
      return 0;
    }
    if (maxProperties !== undefined && names.length > maxProperties) {
      this.problems.add(fieldError.tooMany(this.path, names.length, maxProperties));
      return 0;
    }
    let passed = 1;
    const olds = correlate(old, this.#ratchet, (before) => before.fields(node));
    for (const name of names) {
      if (this.problems.full) break;
      const property = node.properties.get(name);
      if (property === undefined && node.additionalAllowed === false) {
        const path = this.path;
        this.problems.add(fieldError.invalid(path, name, `${path}.${name} in body is a forbidden property`));
      }
      const schema = property ?? node.additional;
      if (schema === undefined) continue;
      this.#path.push(name);
      passed += this.check(object[name], schema, olds?.(name));
      this.#path.pop();
    }
    for (const name of node.required) {
      if (!Object.hasOwn(object, name)) this.problems.add(fieldError.required(this.pathOf(name)));
    }
    return passed;
  }

  #checkCombinations(value: unknown, node: SchemaNode): number {
    let passed = 1;
    if (node.anyOf.length > 0) passed += this.#checkAnyOf(value, node.anyOf);
    if (node.oneOf.length > 0) passed += this.#checkOneOf(value, node.oneOf);
    if (node.allOf.length > 0) passed += this.#checkAllOf(value, node.allOf);
    if (node.not !== undefined && this.#attempt(value, node.not).problems.causes.length === 0) {
      this.#combinationFailed('must not validate the schema (not)');
    }
    return passed;
  }

  #combinationFailed(words: string): void {
    this.problems.add(fieldError.invalid('', '', `${goQuote(this.path)} ${words}`));
  }

  /** Checks a value and collects its problems in a separate list. */
  #attempt(value: unknown, node: SchemaNode): { problems: Problems; passed: number } {
    const outer = this.problems;
    const problems = new Problems(20);
    this.problems = problems;
    try {
      return { problems, passed: this.check(value, node, undefined) };
    } finally {
      this.problems = outer;
    }
  }

  #checkAnyOf(value: unknown, branches: readonly SchemaNode[]): number {
    let best: { problems: Problems; passed: number } | undefined;
    for (const branch of branches) {
      const result = this.#attempt(value, branch);
      if (result.problems.causes.length === 0) return result.passed;
      if (best === undefined || result.passed > best.passed) best = result;
    }
    this.#combinationFailed('must validate at least one schema (anyOf)');
    if (best !== undefined) this.problems.addAll(best.problems.causes);
    return 0;
  }

  #checkOneOf(value: unknown, branches: readonly SchemaNode[]): number {
    const results = branches.map((branch) => this.#attempt(value, branch));
    const valid = results.filter((result) => result.problems.causes.length === 0);
    if (valid.length === 1) return valid[0]?.passed ?? 0;
    const found = valid.length === 0 ? 'Found none valid' : `Found ${valid.length} valid alternatives`;
    this.#combinationFailed(`must validate one and only one schema (oneOf). ${found}`);
    if (valid.length > 0) return 0;
    const max = Math.max(...results.map((result) => result.passed));
    this.problems.addAll(results.find((result) => result.passed === max)?.problems.causes ?? []);
    return 0;
  }

  #checkAllOf(value: unknown, branches: readonly SchemaNode[]): number {
    let passed = 0;
    let valid = 0;
    for (const branch of branches) {
      const before = this.problems.causes.length;
      passed += this.check(value, branch, undefined);
      if (this.problems.causes.length === before) valid++;
    }
    if (valid < branches.length) {
      this.#combinationFailed(
        `must validate all the schemas (allOf)${valid === 0 ? '. None validated' : ''}`,
      );
    }
    return passed;
  }
}

/** The length in code points, which `maxLength` limits. */
function runes(text: string): number {
  let count = text.length;
  for (let index = 0; index < text.length - 1; index++) {
    const unit = text.charCodeAt(index);
    if (unit >= 0xd800 && unit < 0xdc00) {
      const next = text.charCodeAt(index + 1);
      if (next >= 0xdc00 && next < 0xe000) {
        count--;
        index++;
      }
    }
  }
  return count;
}
