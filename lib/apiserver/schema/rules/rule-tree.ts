/**
 * Compiles the rules of a whole schema into a tree that parallels the schema, with the causes that Kubernetes gives for
 * refused rules (`pkg/apis/apiextensions/validation/validation.go`).
 */
import type { Program } from '../../../cel/program.ts';
import type { CelType } from '../../../cel/types.ts';
import { fieldError, type Cause } from '../field-error.ts';
import type { SchemaNode } from '../node.ts';
import { product } from '../../../cel/cost/size.ts';
import { compileRules, type CompiledRule } from './rule.ts';
import { partsOf, type RuleCosts } from './rule-costs.ts';
import { celTypeOf } from './schema-type.ts';

/** The rules of one schema node. Only nodes with rules, or with rules below them, have a RuleNode. */
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
  /** The path of the first list or map around this node whose parts cannot be matched with their old values. */
  readonly uncorrelatable: string | undefined;
  /** How often values of this node can occur, by the bounds of the lists and maps around it; `undefined` if unbounded. */
  readonly occurrences: number | undefined;
  readonly resource: boolean;
}

/** Results that are collected during the walk. */
interface Found {
  readonly causes: Cause[];
  readonly costs: RuleCosts | undefined;
}

/**
 * Compiles all rules of a schema. Nothing is thrown: a rule that does not compile is a cause.
 *
 * @param costs adds up the costs of the rules; a rule that costs too much is a cause as well.
 */
export function compileRuleTree(
  root: SchemaNode,
  resource: boolean,
  path: string,
  costs?: RuleCosts,
): CompiledRules {
  if (!root.within.rules) return { root: undefined, causes: [] };
  const found: Found = { causes: [], costs };
  const tree = visit(root, { path, uncorrelatable: undefined, occurrences: 1, resource }, found);
  return { root: tree, causes: [...found.causes, ...(costs?.causes(path) ?? [])] };
}

function visit(node: SchemaNode, place: Place, found: Found): RuleNode {
  const type = celTypeOf(node, place.resource);
  const rules = node.rules.length === 0 ? [] : compileAt(node, type, place, found);
  const parts = partsOf(node);
  const occurrences =
    parts === undefined || place.occurrences === undefined ? undefined : product(place.occurrences, parts);
  const child = (part: SchemaNode, at: string, uncorrelatable: string | undefined): RuleNode => {
    const path = `${place.path}.${at}`;
    return visit(part, { path, uncorrelatable, occurrences, resource: part.embedded }, found);
  };
  const properties = new Map<string, RuleNode>();
  const fieldsApart = node.granularMap ? place.uncorrelatable : (place.uncorrelatable ?? place.path);
  for (const [name, property] of node.properties) {
    if (property.within.rules) properties.set(name, child(property, `properties[${name}]`, fieldsApart));
  }
  const itemsApart = node.listType === 'map' ? place.uncorrelatable : (place.uncorrelatable ?? place.path);
  return {
    node,
    type,
    rules,
    properties,
    items: node.items?.within.rules ? child(node.items, 'items', itemsApart) : undefined,
    additional: node.additional?.within.rules
      ? child(node.additional, 'additionalProperties', place.uncorrelatable)
      : undefined,
  };
}

function compileAt(
  node: SchemaNode,
  type: CelType | undefined,
  place: Place,
  { causes, costs }: Found,
): CompiledRule[] {
  const field = `${place.path}.x-kubernetes-validations`;
  if (type === undefined) {
    const words =
      'internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations';
    causes.push(fieldError.internal(field, words));
    return [];
  }
  const rules = compileRules(node.rules, type);
  const costed = { ...place, node, type };
  rules.forEach((compiled, index) => {
    const at = `${field}[${index}]`;
    if (typeof compiled.program === 'string') {
      causes.push(fieldError.invalid(`${at}.rule`, compiled.rule, compiled.program));
    } else {
      causes.push(...(costs?.rule(compiled, costed, `${at}.rule`) ?? []));
      checkOldSelf(compiled, compiled.program, at, place, causes);
    }
    if (typeof compiled.message === 'string') {
      causes.push(fieldError.invalid(`${at}.messageExpression`, compiled.rule, compiled.message));
    } else if (compiled.message !== undefined && typeof compiled.program !== 'string') {
      causes.push(...(costs?.message(compiled, costed, `${at}.messageExpression`) ?? []));
    }
  });
  return rules;
}

function checkOldSelf(
  compiled: CompiledRule,
  program: Program,
  at: string,
  place: Place,
  causes: Cause[],
): void {
  if (program.variables.has('oldSelf') && place.uncorrelatable !== undefined) {
    const words = `oldSelf cannot be used on the uncorrelatable portion of the schema within ${place.uncorrelatable}`;
    causes.push(fieldError.invalid(`${at}.rule`, compiled.rule.rule, words));
  }
  if (!program.variables.has('oldSelf') && compiled.rule.optionalOldSelf !== undefined) {
    const words = 'may not be set if oldSelf is not used in rule';
    causes.push(fieldError.invalid(`${at}.optionalOldSelf`, compiled.rule.optionalOldSelf, words));
  }
}
