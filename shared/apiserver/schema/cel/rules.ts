/**
 * The rules of a whole schema: compiled beside its tree, with the causes that Kubernetes gives for rules it
 * refuses (`pkg/apis/apiextensions/validation/validation.go`).
 *
 * @module
 */
import { fieldError, type Cause } from '../field-error.ts';
import type { SchemaNode } from '../node.ts';
import { perRuleEstimateLimit, perSchemaEstimateLimit } from './estimate.ts';
import { compileRules, type CompiledRule, type Program } from './rule.ts';
import { celTypeOf, maxCardinality, type CelType } from './types.ts';

/** The part of the rules that belongs to one schema node; only nodes with rules in or below them have one. */
export interface RuleNode {
  readonly node: SchemaNode;
  readonly type: CelType | undefined;
  readonly rules: readonly CompiledRule[];
  readonly properties: ReadonlyMap<string, RuleNode>;
  readonly items: RuleNode | undefined;
  readonly additional: RuleNode | undefined;
}

export interface CompiledRules {
  readonly root: RuleNode | undefined;
  readonly causes: readonly Cause[];
}

interface Place {
  readonly path: string;
  /** How often such a value can stand in one object; `undefined`: the schema sets no limit. */
  readonly cardinality: number | undefined;
  /** The first list or map on the way whose parts cannot be compared with their old ones. */
  readonly uncorrelatable: string | undefined;
}

interface Report {
  readonly causes: Cause[];
  readonly costs: { readonly path: string; readonly cost: number }[];
}

/** Compiles all rules of a schema. Nothing is thrown: a rule that does not compile is a cause. */
export function compileRuleTree(root: SchemaNode, resource: boolean, path: string): CompiledRules {
  if (!root.within.rules) return { root: undefined, causes: [] };
  const report: Report = { causes: [], costs: [] };
  const tree = visit(root, resource, { path, cardinality: 1, uncorrelatable: undefined }, report);
  const total = report.costs.reduce((sum, { cost }) => sum + cost, 0);
  if (total > perSchemaEstimateLimit) {
    const expensive = report.costs
      .filter(({ cost }) => cost >= perSchemaEstimateLimit / 100)
      .sort((a, b) => b.cost - a.cost)
      .slice(0, 4);
    for (const { path: field } of expensive) {
      const words =
        'contributed to estimated rule & messageExpression cost total exceeding cost limit for entire OpenAPIv3 schema';
      report.causes.push(fieldError.forbidden(field, words));
    }
    const name =
      'x-kubernetes-validations estimated rule & messageExpression cost total for entire OpenAPIv3 schema';
    report.causes.push(fieldError.forbidden(path, costMessage(name, total, perSchemaEstimateLimit)));
  }
  return { root: tree, causes: report.causes };
}

function visit(node: SchemaNode, resource: boolean, place: Place, report: Report): RuleNode {
  const { schema } = node;
  const type = celTypeOf(node, resource);
  const rules = node.rules.length === 0 ? [] : compileAt(node, type, place, report);
  const child = (
    part: SchemaNode,
    at: string,
    cardinality: number | undefined,
    uncorrelatable: string | undefined,
  ): RuleNode =>
    visit(part, part.embedded, { path: `${place.path}.${at}`, cardinality, uncorrelatable }, report);
  const times = (limit: number | undefined): number | undefined =>
    limit === undefined || place.cardinality === undefined
      ? undefined
      : place.cardinality * Math.max(0, limit);
  const properties = new Map<string, RuleNode>();
  const perField = node.additionalAllowed === undefined ? place.cardinality : times(schema.maxProperties);
  const fieldsApart = node.granularMap ? place.uncorrelatable : (place.uncorrelatable ?? place.path);
  for (const [name, property] of node.properties) {
    if (property.within.rules)
      properties.set(name, child(property, `properties[${name}]`, perField, fieldsApart));
  }
  const itemsApart = node.listType === 'map' ? place.uncorrelatable : (place.uncorrelatable ?? place.path);
  return {
    node,
    type,
    rules,
    properties,
    items: node.items?.within.rules
      ? child(node.items, 'items', times(schema.maxItems), itemsApart)
      : undefined,
    additional: node.additional?.within.rules
      ? child(node.additional, 'additionalProperties', times(schema.maxProperties), place.uncorrelatable)
      : undefined,
  };
}

function compileAt(
  node: SchemaNode,
  type: CelType | undefined,
  place: Place,
  report: Report,
): CompiledRule[] {
  const field = `${place.path}.x-kubernetes-validations`;
  if (type === undefined) {
    const words = `rule declared on schema that does not support validation rules type: '${node.schema.type ?? ''}' x-kubernetes-preserve-unknown-fields: '${node.preserveUnknown}'`;
    report.causes.push(fieldError.internal(field, words));
    return [];
  }
  const rules = compileRules(node.rules, type);
  const cardinality = place.cardinality ?? maxCardinality(type);
  rules.forEach((compiled, index) => {
    const at = `${field}[${index}]`;
    if (typeof compiled.program === 'string') {
      report.causes.push(fieldError.invalid(`${at}.rule`, compiled.rule, compiled.program));
    } else {
      checkCost(`${at}.rule`, 'estimated rule cost', compiled.program.maxCost * cardinality, report);
      checkOldSelf(compiled, compiled.program, at, place, report);
    }
    if (typeof compiled.message === 'string') {
      report.causes.push(fieldError.invalid(`${at}.messageExpression`, compiled.rule, compiled.message));
    } else if (compiled.message !== undefined) {
      // A message is made once, for the rule that failed.
      checkCost(
        `${at}.messageExpression`,
        'estimated messageExpression cost',
        compiled.message.maxCost,
        report,
      );
    }
  });
  return rules;
}

function checkCost(path: string, name: string, cost: number, report: Report): void {
  // No limit times no element is no cost.
  const known = Number.isNaN(cost) ? 0 : cost;
  if (known > perRuleEstimateLimit) {
    report.causes.push(fieldError.forbidden(path, costMessage(name, known, perRuleEstimateLimit)));
  }
  report.costs.push({ path, cost: known });
}

function checkOldSelf(
  compiled: CompiledRule,
  program: Program,
  at: string,
  place: Place,
  report: Report,
): void {
  if (program.usesOldSelf && place.uncorrelatable !== undefined) {
    const words = `oldSelf cannot be used on the uncorrelatable portion of the schema within ${place.uncorrelatable}`;
    report.causes.push(fieldError.invalid(`${at}.rule`, compiled.rule.rule, words));
  }
  if (!program.usesOldSelf && compiled.rule.optionalOldSelf !== undefined) {
    const words = 'may not be set if oldSelf is not used in rule';
    report.causes.push(fieldError.invalid(`${at}.optionalOldSelf`, compiled.rule.optionalOldSelf, words));
  }
}

function costMessage(name: string, cost: number, limit: number): string {
  const factor = cost / limit;
  const text =
    factor > 100 ? 'more than 100x' : factor < 1.5 ? `${factor.toFixed(6)}x` : `${factor.toFixed(1)}x`;
  return (
    `${name} exceeds budget by factor of ${text} (try simplifying the rule, or adding maxItems, maxProperties, ` +
    'and maxLength where arrays, maps, and strings are declared)'
  );
}
