/**
 * Limits the cost of a schema's rules: the maximum cost of each one, times the number of times that its value can occur, and
 * the sum for all rules (apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go` and `cel_validation.go`).
 */
import { estimateCost } from '../../../cel/cost/estimate.ts';
import { product, sum } from '../../../cel/cost/size.ts';
import type { CelType } from '../../../cel/types.ts';
import { fieldError, type Cause } from '../field-error.ts';
import type { SchemaNode } from '../node.ts';
import { type CompiledRule, ruleScope } from './rule.ts';
import { boundAt, maxOccurrences, shortestValue } from './value-bounds.ts';

/** Cost limits: for one rule, and for all rules of a schema. */
export const ruleLimit = 10_000_000;
export const schemaLimit = 100_000_000;

/** How many items or entries a list or map can have, 1 for other values; `undefined` if the schema does not limit the number. */
export function partsOf({ schema }: SchemaNode): number | undefined {
  const limit =
    schema.type === 'array'
      ? schema.maxItems
      : schema.type === 'object' && schema.additionalProperties !== undefined
        ? schema.maxProperties
        : 1;
  return limit === undefined ? undefined : Math.max(0, limit);
}

/** An expression and what it adds to the cost of the schema. */
export interface ExpressionCost {
  readonly field: string;
  readonly cost: number;
}

/** A schema node with rules. */
interface Place {
  readonly node: SchemaNode;
  readonly type: CelType;
  readonly resource: boolean;
  /** How often values of this schema can occur in an object; `undefined` if only the size of a request limits that. */
  readonly occurrences: number | undefined;
}

/** Adds up the costs of the rules of one schema. */
export class RuleCosts {
  readonly #known: boolean;
  readonly #expressions: ExpressionCost[] = [];
  #total = 0;

  /** @param known whether the schema was accepted before: then single rules may exceed {@link ruleLimit}. */
  constructor(known: boolean) {
    this.#known = known;
  }

  /** The cause if a rule that compiles is too expensive. */
  rule({ rule }: CompiledRule, place: Place, field: string): Cause[] {
    const { node, resource } = place;
    const occurrences = place.occurrences ?? maxOccurrences(shortestValue(node, resource));
    const cost = product(estimate(rule.rule, rule, place), occurrences);
    return this.#observe('estimated rule cost', cost, field);
  }

  /** The cause if a messageExpression is too expensive. It is counted once, as it runs only for the first failure of the rule. */
  message({ rule }: CompiledRule, place: Place, field: string): Cause[] {
    const cost = estimate(rule.messageExpression ?? '', rule, place);
    return this.#observe('estimated messageExpression cost', cost, field);
  }

  /** The costliest expressions first. */
  get expressions(): readonly ExpressionCost[] {
    return this.#expressions.toSorted((a, b) => b.cost - a.cost);
  }

  get total(): number {
    return this.#total;
  }

  /** The causes if all rules together are too expensive. @param path of the schema. */
  causes(path: string): Cause[] {
    if (this.#total <= schemaLimit) return [];
    const words = 'contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema';
    const costliest = this.expressions.filter(({ cost }) => cost >= schemaLimit / 100).slice(0, 4);
    const name = 'x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema';
    return [
      ...costliest.map(({ field }) => fieldError.forbidden(field, words)),
      fieldError.forbidden(path, exceeding(name, this.#total, schemaLimit)),
    ];
  }

  #observe(name: string, cost: number, field: string): Cause[] {
    this.#expressions.push({ field, cost });
    this.#total = sum(this.#total, cost);
    if (this.#known || cost <= ruleLimit) return [];
    return [fieldError.forbidden(field, exceeding(name, cost, ruleLimit))];
  }
}

function estimate(source: string, rule: CompiledRule['rule'], { node, type, resource }: Place): number {
  // The first element of a path is the variable: self or oldSelf.
  return estimateCost(source, ruleScope(rule, type), (path) => boundAt(node, resource, path.slice(1)));
}

function exceeding(name: string, cost: number, limit: number): string {
  const factor = cost / limit;
  const shown = factor > 100 ? 'more than 100x' : `${factor.toFixed(factor < 1.5 ? 6 : 1)}x`;
  const advice =
    'try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared';
  return `${name} exceeds budget by factor of ${shown} (${advice})`;
}
