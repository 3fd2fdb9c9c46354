/**
 * Compiles the rules in `x-kubernetes-validations` of one schema (apiextensions-apiserver
 * `pkg/apiserver/schema/cel/compilation.go`).
 */
import { Scope } from '../../../cel/environment.ts';
import { compile, type Program, wrongType } from '../../../cel/program.ts';
import type { CelType } from '../../../cel/types.ts';
import type { ValidationRule } from '../json-schema.ts';

export interface CompiledRule {
  readonly rule: ValidationRule;
  /** The compiled rule, or the message about its error. */
  readonly program: Program | string;
  readonly message: Program | string | undefined;
}

/** The variables of a rule. */
export function ruleScope(rule: ValidationRule, self: CelType): Scope {
  return new Scope({
    self: { type: self },
    oldSelf: { type: self, optional: rule.optionalOldSelf === true },
  });
}

/** Compiles the rules of one schema. Errors are part of the results; nothing is thrown. */
export function compileRules(rules: readonly ValidationRule[], self: CelType): CompiledRule[] {
  return rules.map((rule) => {
    const scope = ruleScope(rule, self);
    const program = compile(rule.rule, 'bool', scope);
    return {
      rule,
      program:
        typeof program === 'string'
          ? wrongResult(program, 'cel expression must evaluate to a bool')
          : program,
      message: compileMessageExpression(rule, scope),
    };
  });
}

const wrongResult = (problem: string, words: string): string =>
  problem === wrongType ? words : `compilation failed: ${problem}`;

function compileMessageExpression(rule: ValidationRule, scope: Scope): Program | string | undefined {
  if (!rule.messageExpression?.trim()) return undefined;
  const program = compile(rule.messageExpression, 'string', scope);
  if (typeof program !== 'string') return program;
  return program === wrongType
    ? 'messageExpression must evaluate to a string'
    : `messageExpression compilation failed: ${program}`;
}
