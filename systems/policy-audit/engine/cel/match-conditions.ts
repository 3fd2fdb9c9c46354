/**
 * The match conditions of a policy of any runtime, for those who decide whether to ask it at all.
 *
 * @module
 */
import { EvaluationError } from '../evaluator.ts';
import { Asks } from './asks.ts';
import { Evaluation, Frames, perMatchLimit } from './decide.ts';
import { matchAll, type Matcher } from './matching.ts';
import type { World } from './cluster.ts';
import { type CompiledCondition, PolicyCompiler } from './policy.ts';
import { policyScope } from './scope.ts';
import { type Problem, Problems, readNamed } from './settings.ts';

/** As many as Kubernetes takes. */
export const mostMatchConditions = 64;

/**
 * Compiles the `matchConditions` of a policy or webhook.
 *
 * @example
 * const matcher = compileMatchConditions(policy.spec.matchConditions ?? []);
 * if (matcher.problems.length > 0) return invalid(matcher.problems);
 * const { matched, error } = await matcher.match(request);
 */
export function compileMatchConditions(conditions: readonly unknown[], world: World = {}): Matcher {
  const { compiled, problems, frames } = compileAll(conditions);
  return {
    problems: problems.texts,
    match: async (request, evaluateOptions = {}) => {
      if (problems.all.length > 0) return { matched: false, error: problems.texts.join('; ') };
      if (compiled.length === 0) return { matched: true };
      const asks = new Asks(world, evaluateOptions);
      try {
        return await asks.answered(() =>
          matchAll(
            compiled,
            asks.evaluation('match', () => new Evaluation(frames.of(request, asks), asks, perMatchLimit)),
          ),
        );
      } catch (error) {
        // Too costly, too late: as any condition that cannot be evaluated. Who cancelled it wants to know that.
        if (error instanceof EvaluationError && error.why !== 'aborted')
          return { matched: false, error: error.message };
        throw error;
      }
    },
  };
}

/** What is wrong with match conditions, without asking them. Pure. */
export function matchConditionProblems(conditions: readonly unknown[]): readonly Problem[] {
  return compileAll(conditions).problems.all;
}

function compileAll(conditions: readonly unknown[]): {
  readonly compiled: readonly CompiledCondition[];
  readonly problems: Problems;
  readonly frames: Frames;
} {
  const problems = new Problems();
  const named = readNamed({ matchConditions: conditions }, 'matchConditions', problems);
  if (named.length > mostMatchConditions)
    problems.tooMany('matchConditions', named.length, mostMatchConditions);
  const scope = policyScope('validating-admission-policy', false);
  const compiler = new PolicyCompiler(scope, problems);
  const compiled = compiler.conditions(named, 'matchConditions');
  return { compiled, problems, frames: new Frames('validating-admission-policy', scope, compiler.used) };
}
