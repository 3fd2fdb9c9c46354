/**
 * One rule of `x-kubernetes-validations`, compiled (apiextensions-apiserver
 * `pkg/apiserver/schema/cel/compilation.go`).
 *
 * @module
 */
import { ParseError } from '@marcbachmann/cel-js';
import type { ValidationRule } from '../json-schema.ts';
import { estimateCost } from './estimate.ts';
import { calledName, renameCall, walk, type CelNode } from './internals.ts';
import { expression, renamed, renamedPrefix } from './library-strings.ts';
import { repairHas } from './macros.ts';
import { compileMessage } from './messages.ts';
import { instrument, measured, type Outcome } from './meter.ts';
import { baseEnvironment, mentionedNames, RuleScope } from './scope.ts';
import type { CelType } from './types.ts';

/** An expression ready to run. */
export interface Program {
  readonly maxCost: number;
  readonly usesOldSelf: boolean;
  /** Never throws. Values are those of the {@link RuleScope}. */
  run(variables: Readonly<Record<string, unknown>>, costLimit?: number): Outcome;
}

export interface CompiledRule {
  readonly rule: ValidationRule;
  readonly scope: RuleScope;
  /** The rule, or what is wrong with it. */
  readonly program: Program | string;
  readonly message: Program | string | undefined;
}

/** Longer expressions are refused before they are parsed. */
const maxExpressionLength = 64 * 1024;

/** Compiles the rules of one schema. Errors are part of the results; nothing is thrown. */
export function compileRules(rules: readonly ValidationRule[], self: CelType): CompiledRule[] {
  const names = new Set<string>();
  for (const rule of rules) {
    for (const source of [rule.rule, rule.messageExpression ?? '']) {
      const tree = parse(source);
      if (tree !== undefined) mentionedNames(tree, names);
    }
  }
  const scopes = new Map<boolean, RuleScope>();
  const scopeOf = (optional: boolean): RuleScope => {
    const scope = scopes.get(optional) ?? new RuleScope(self, names, optional);
    scopes.set(optional, scope);
    return scope;
  };
  return rules.map((rule) => {
    const scope = scopeOf(rule.optionalOldSelf === true);
    const program = compile(rule.rule, 'bool', scope, self);
    return {
      rule,
      scope,
      program:
        typeof program === 'string'
          ? wrongResult(program, 'cel expression must evaluate to a bool')
          : program,
      message: compileMessageExpression(rule, scope, self),
    };
  });
}

const wrongType = 'wrong type';
const wrongResult = (problem: string, words: string): string =>
  problem === wrongType ? words : `compilation failed: ${problem}`;

function compileMessageExpression(
  rule: ValidationRule,
  scope: RuleScope,
  self: CelType,
): Program | string | undefined {
  if (!rule.messageExpression?.trim()) return undefined;
  const program = compile(rule.messageExpression, 'string', scope, self);
  if (typeof program !== 'string') return program;
  return program === wrongType
    ? 'messageExpression must evaluate to a string'
    : `messageExpression compilation failed: ${program}`;
}

function parse(source: string): CelNode | undefined {
  if (source.length > maxExpressionLength) return undefined;
  try {
    return baseEnvironment().parse(source).ast as unknown as CelNode;
  } catch {
    // The compilation proper reports it.
    return undefined;
  }
}

function compile(
  source: string,
  result: 'bool' | 'string',
  scope: RuleScope,
  self: CelType,
): Program | string {
  if (source.length > maxExpressionLength)
    return `ERROR: <input>:1:1: expression is longer than ${maxExpressionLength}`;
  try {
    const parsed = scope.environment.parse(source);
    const tree = parsed.ast as unknown as CelNode;
    prepare(tree);
    const checked = parsed.check();
    if (!checked.valid) return compileMessage(checked.error, source);
    if (checked.type !== result && checked.type !== 'dyn') return wrongType;
    checkLiterals(tree);
    const maxCost = estimateCost(tree, self);
    let usesOldSelf = false;
    walk(tree, (node) => {
      usesOldSelf ||= node.op === 'id' && node.args === 'oldSelf';
    });
    instrument(tree, source.length);
    return {
      maxCost,
      usesOldSelf,
      run: (variables, costLimit) => measured((): unknown => parsed(variables), costLimit),
    };
  } catch (error) {
    // A tree too high for the recursion of parser and checker ends here as well.
    return compileMessage(
      error instanceof RangeError ? new ParseError('expression recursion limit exceeded') : error,
      source,
    );
  }
}

function prepare(tree: CelNode): void {
  walk(tree, (node) => {
    const name = calledName(node);
    if (name !== undefined && renamed.has(name)) renameCall(node, renamedPrefix + name);
    if (node.op === 'call' && name === 'has') repairHas(node);
  });
}

const expressionFunctions: ReadonlySet<string> = new Set([`${renamedPrefix}matches`, 'find', 'findAll']);

/** Regular expressions that stand in the rule are compiled with it. */
function checkLiterals(tree: CelNode): void {
  walk(tree, (node) => {
    const name = calledName(node);
    if (name === undefined || !expressionFunctions.has(name)) return;
    const args =
      (node.op === 'call'
        ? (node.args as [string, CelNode[]])[1]
        : (node.args as [string, CelNode, CelNode[]])[2]) ?? [];
    const pattern = node.op === 'call' ? args[1] : args[0];
    if (pattern?.op === 'value' && typeof pattern.args === 'string') expression(pattern.args);
  });
}
