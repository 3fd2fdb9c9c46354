/**
 * CEL over requests: the expressions of a policy and its match conditions.
 *
 * @module
 */
import { Scope } from '../../../shared/cel/environment.ts';
import { evaluationMessage } from '../../../shared/cel/messages.ts';
import { compile, type Program, wrongType } from '../../../shared/cel/program.ts';
import type { CelType } from '../../../shared/cel/types.ts';
import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';
import { EvaluationError, type Evaluator, type PolicyRequest, type Verdict } from '../engine/evaluator.ts';
import type { MatchCondition } from './policy.ts';

const dyn: CelType = { kind: 'dyn' };
const names = ['object', 'oldObject', 'request'] as const;

function programOf(source: string): Program {
  const scope = new Scope(Object.fromEntries(names.map((name) => [name, { type: dyn }])));
  const program = compile(source, 'bool', scope);
  if (typeof program === 'string') {
    throw new RampartError(errorCodes.INPUT, {
      what: `the expression ${JSON.stringify(source)} does not compile`,
      why: program === wrongType ? 'it must evaluate to bool' : program,
    });
  }
  return program;
}

function run(program: Program, source: string, request: PolicyRequest): boolean {
  const values = { object: request.object ?? null, oldObject: request.oldObject ?? null, request };
  const { value, error } = program.run(values);
  if (error !== undefined) {
    throw new EvaluationError('expression', `expression '${source}' resulted in error: ${evaluationMessage(error)}`);
  }
  return value === true;
}

interface Validation {
  readonly expression: string;
  readonly message?: string;
}

export function openThinCel(settings: Readonly<Record<string, unknown>>): Evaluator {
  const validations = ((settings['validations'] ?? []) as readonly Validation[]).map((one) => ({
    ...one,
    program: programOf(one.expression),
  }));
  return {
    runtime: 'cel',
    validateSettings: () => Promise.resolve({ valid: true }),
    async evaluate(request): Promise<Verdict> {
      await Promise.resolve();
      for (const { program, expression, message } of validations) {
        if (run(program, expression, request)) continue;
        return { allowed: false, message: message ?? `failed expression: ${expression}`, code: 400, reason: 'Invalid' };
      }
      return { allowed: true };
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

export type Conditions = (request: PolicyRequest) => boolean;

export function compileThinConditions(conditions: readonly MatchCondition[]): Conditions {
  const programs = conditions.map(({ expression }) => ({ expression, program: programOf(expression) }));
  return (request) => programs.every(({ program, expression }) => run(program, expression, request));
}
