/**
 * Runs rules on an object (apiextensions-apiserver `pkg/apiserver/schema/cel/validation.go`): the rules of a value
 * before those of its parts, all with one cost budget.
 *
 * Rules with `oldSelf` run only if the value replaces an old one. Values that an update does not change may keep violating
 * the other rules: that is only a warning.
 */
import type { Old, OldValue } from '../correlate.ts';
import { fieldError, noField, omitted, type Cause, type Problems } from '../field-error.ts';
import { deepEqual, isObject } from '../../../json/json.ts';
import type { ValidationRule } from '../json-schema.ts';
import { checkFieldPath } from './field-path.ts';
import { evaluationMessage } from '../../../cel/messages.ts';
import { CostExceeded, perCallLimit, perObjectLimit, type Outcome } from '../../../cel/meter.ts';
import type { CompiledRule } from './rule.ts';
import type { RuleNode } from './rule-tree.ts';
import { Optional, toCel } from '../../../cel/values.ts';

const maxMessageBytes = 5 * 1024;
const outOfBudget =
  'validation failed due to running out of cost budget, no further validation rules will be run';

/** One walk with its budget. */
export class RuleWalk {
  readonly #problems: Problems;
  readonly #warnings: string[];
  #budget = perObjectLimit;

  constructor(problems: Problems, warnings: string[]) {
    this.#problems = problems;
    this.#warnings = warnings;
  }

  /**
   * Runs the rules of a value and all below it.
   *
   * @param nearest the innermost surrounding value that has an old counterpart, used if this value has none.
   * @returns `false` once the budget is spent.
   */
  run(value: unknown, at: RuleNode, path: string, old: Old, nearest: Counterparts | undefined): boolean {
    if (value === null || value === undefined) return true;
    const here = old === undefined ? nearest : { value, old };
    if (at.rules.length > 0 && !this.#runRules(value, at, path, old, here)) return false;
    if (Array.isArray(value)) {
      const items = at.items;
      if (items === undefined) return true;
      const olds = old?.items(value, at.node, false);
      return value.every((item, index) => this.run(item, items, `${path}[${index}]`, olds?.(index), here));
    }
    if (!isObject(value) || (at.properties.size === 0 && at.additional === undefined)) return true;
    const olds = old?.fields(at.node);
    return Object.keys(value).every((name) => {
      const property = at.properties.get(name);
      const known = property !== undefined || at.node.properties.has(name);
      const next = known ? property : at.additional;
      if (next === undefined) return true;
      const field = known ? (path === '' ? name : `${path}.${name}`) : `${path}[${name}]`;
      return this.run(value[name], next, field, olds?.(name), here);
    });
  }

  #runRules(
    value: unknown,
    at: RuleNode,
    path: string,
    old: Old,
    nearest: Counterparts | undefined,
  ): boolean {
    const typeName = at.node.schema.type ?? '';
    const invalid = (words: string): Cause => fieldError.invalid(path, typeName, words);
    const type = at.type;
    if (type === undefined) return true;
    const self = toCel(value, type);
    const oldSelf = old === undefined ? undefined : toCel(old.value, type);
    for (const compiled of at.rules) {
      const { program, rule } = compiled;
      if (typeof program === 'string') {
        this.#problems.add(invalid(`rule compile error: ${program}`));
        continue;
      }
      if (program.variables.has('oldSelf') && old === undefined && rule.optionalOldSelf !== true) continue;
      if (this.#budget <= 0) {
        this.#problems.add(invalid(outOfBudget));
        return false;
      }
      const variables = { self, oldSelf: rule.optionalOldSelf === true ? Optional.of(oldSelf) : oldSelf };
      const outcome = program.run(variables, Math.min(perCallLimit, this.#budget));
      this.#budget -= outcome.cost;
      if (outcome.exceeded) {
        this.#problems.add(invalid(this.#exceededMessage(rule)));
        return false;
      }
      if (outcome.error !== undefined) this.#problems.add(invalid(errorMessage(outcome, rule)));
      else if (outcome.value !== true) {
        const cause = this.#failed(compiled, at, path, value, variables);
        const unchanged = !program.variables.has('oldSelf') && isUnchanged(nearest);
        if (unchanged) this.#warnings.push(`${cause.field}: ${cause.message}`);
        else this.#problems.add(cause);
      }
      if (this.#problems.full) return false;
    }
    return true;
  }

  #exceededMessage(rule: ValidationRule): string {
    if (this.#budget < 0) return outOfBudget;
    const words = 'no further validation rules will be run due to call cost exceeds limit for rule';
    return `'operation cancelled: actual cost limit exceeded': ${words}: ${ruleName(rule)}`;
  }

  #failed(
    compiled: CompiledRule,
    at: RuleNode,
    path: string,
    value: unknown,
    variables: Readonly<Record<string, unknown>>,
  ): Cause {
    const { rule, message } = compiled;
    const below =
      rule.fieldPath === undefined ? undefined : checkFieldPath(rule.fieldPath, at.node.schema)?.path;
    const field = below ? (path === '' ? below : `${path}.${below}`) : path;
    const made = message === undefined || typeof message === 'string' ? undefined : message.run(variables);
    this.#budget -= made?.cost ?? 0;
    const words = made === undefined ? undefined : usableMessage(made);
    const type = at.node.schema.type;
    // Messages do not show objects and lists, which may be large (kubernetes/kubernetes PR 133832).
    const shown = type === 'object' || type === 'array' ? omitted : value;
    return ofReason(field, shown, words ?? defaultMessage(rule), rule.reason);
  }
}

interface Counterparts {
  readonly value: unknown;
  readonly old: OldValue;
}

function isUnchanged(nearest: Counterparts | undefined): boolean {
  return nearest !== undefined && deepEqual(nearest.value, nearest.old.value);
}

function ofReason(field: string, value: unknown, words: string, reason: string | undefined): Cause {
  switch (reason ?? '') {
    case 'FieldValueForbidden':
      return fieldError.forbidden(field, words);
    case 'FieldValueRequired':
      return fieldError.required(field, words);
    case 'FieldValueDuplicate':
      return fieldError.duplicate(field, value);
    default:
      return fieldError.invalid(field === '' ? noField : field, value, words);
  }
}

const ruleName = (rule: ValidationRule): string => (rule.message ? rule.message : rule.rule).trim();
const defaultMessage = (rule: ValidationRule): string =>
  rule.message ? rule.message.trim() : `failed rule: ${ruleName(rule)}`;

function errorMessage(outcome: Outcome, rule: ValidationRule): string {
  const words =
    outcome.error instanceof CostExceeded ? outcome.error.message : evaluationMessage(outcome.error);
  if (words.startsWith('no such overload')) {
    return `'${words}': call arguments did not match a supported operator, function or macro signature for rule: ${ruleName(rule)}`;
  }
  return `${words} evaluating rule: ${ruleName(rule)}`;
}

/** The text of a messageExpression; `undefined` if it is unusable, so that the rule's `message` is used instead. */
function usableMessage(outcome: Outcome): string | undefined {
  if (typeof outcome.value !== 'string') return undefined;
  const text = outcome.value.trim();
  return text === '' || text.includes('\n') || Buffer.byteLength(text) > maxMessageBytes ? undefined : text;
}
