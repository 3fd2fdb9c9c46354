/**
 * Policies that mutate: expressions that give JSON patches, applied one after the other (apiserver
 * `pkg/admission/plugin/policy/mutating`).
 */
import { applyJsonPatch } from '../../../../lib/json/json-patch.ts';
import { deepEqual } from '../../../../lib/json/json.ts';
import { toJson } from './patch-types.ts';
import { EvaluationError, type JsonObject, type PolicyRequest } from '../evaluator.ts';
import type { Asks } from './asks.ts';
import { type CreateFrame, Evaluation } from './decide.ts';
import { matchAll } from './matching.ts';
import type { ParamsFound } from './params.ts';
import type { CompiledPolicy } from './policy.ts';

/**
 * The object as the policy wants it; undefined if unchanged. Each expression sees the changes of those before it.
 *
 * @throws {EvaluationError} if an expression fails, or its patch does not apply.
 */
export function mutatedObject(
  policy: CompiledPolicy,
  frameOf: CreateFrame,
  request: PolicyRequest,
  asks: Asks,
  params: ParamsFound,
): JsonObject | undefined {
  const { object } = request;
  if (policy.mutations.length === 0 || object === undefined || object === null) return undefined;
  let current = object;
  for (const [place, one] of params.entries()) {
    for (const [index, { expression, source }] of policy.mutations.entries()) {
      const before = current;
      const evaluation = asks.evaluation(`mutation ${place} ${index}`, () => {
        return new Evaluation(frameOf({ ...request, object: before }, asks, one), asks);
      });
      if (index === 0 && !matchAll(policy.matchConditions, evaluation).matched) break;
      const result = evaluation.run(expression, source);
      if (result.error !== undefined) throw new EvaluationError(result.why, result.error);
      current = patched(before, result.value, source);
    }
  }
  return deepEqual(object, current) ? undefined : current;
}

function patched(object: JsonObject, patch: unknown, source: string): JsonObject {
  try {
    return applyJsonPatch(object, toJson(patch));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new EvaluationError('expression', `the patch of expression '${source}' cannot be applied: ${why}`, {
      cause: error,
    });
  }
}
