/** The match conditions of a policy of any runtime, for deciding whether to evaluate it at all. */
import { EvaluationError } from '../evaluator.ts';
import { Asks } from './asks.ts';
import { type CreateFrame, Evaluation, framesOf, perMatchLimit } from './decide.ts';
import { type Match, matchAll, type Matcher } from './matching.ts';
import type { World } from './cluster.ts';
import { type CompiledCondition, PolicyCompiler } from './policy.ts';
import { policyScope } from './scope.ts';
import { type Problem, Problems, readNamed } from './settings.ts';

/** The limit of Kubernetes. */
export const maxMatchConditions = 64;

/**
 * Compiles the `matchConditions` of a policy or webhook.
 *
 * @example
 * const matcher = compileMatchConditions(policy.spec.matchConditions ?? []);
 * if (matcher.problems.length > 0) return invalid(matcher.problems);
 * const { matched, error } = await matcher.match(request);
 */
export function compileMatchConditions(conditions: readonly unknown[], world: World = {}): Matcher {
  const { compiled, problems, frameOf } = compileAll(conditions);
  return {
    problems: problems.texts,
    match: async (request, evaluateOptions = {}) => {
      if (problems.all.length > 0) return { matched: false, error: problems.texts.join('; ') };
      if (compiled.length === 0) return { matched: true };
      const asks = new Asks(world, evaluateOptions);
      const evaluation = (): Evaluation => new Evaluation(frameOf(request, asks), asks, perMatchLimit);
      const run = (): Match => matchAll(compiled, asks.evaluation('match', evaluation));
      let match: Match;
      try {
        match = await asks.answered(run);
      } catch (error) {
        // An evaluation that is too costly or takes too long counts as a condition that cannot be evaluated. Only a cancellation is passed
        // on.
        if (!(error instanceof EvaluationError) || error.why === 'aborted') throw error;
        match = { matched: false, error: error.message };
      }
      return asks.asked.length === 0 ? match : { ...match, asked: asks.asked };
    },
  };
}

/** The problems of match conditions, without evaluating them. Pure. */
export function matchConditionProblems(conditions: readonly unknown[]): readonly Problem[] {
  return compileAll(conditions).problems.all;
}

function compileAll(conditions: readonly unknown[]): {
  readonly compiled: readonly CompiledCondition[];
  readonly problems: Problems;
  readonly frameOf: CreateFrame;
} {
  const problems = new Problems();
  const named = readNamed({ matchConditions: conditions }, 'matchConditions', problems);
  if (named.length > maxMatchConditions)
    problems.tooMany('matchConditions', named.length, maxMatchConditions);
  const scope = policyScope('validating-admission-policy', false);
  const compiler = new PolicyCompiler(scope, problems);
  const compiled = compiler.conditions(named, 'matchConditions');
  return { compiled, problems, frameOf: framesOf('validating-admission-policy', scope, compiler.used) };
}
