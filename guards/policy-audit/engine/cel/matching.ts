/**
 * Match conditions: whether a policy applies to a request (apiserver
 * `pkg/admission/plugin/webhook/matchconditions/matcher.go`).
 */
import type { AskedOfCluster, EvaluateOptions, PolicyRequest } from '../evaluator.ts';
import type { Evaluation } from './decide.ts';
import type { CompiledCondition } from './policy.ts';

/** `error`: no condition is false, and one could not be evaluated; the failure policy determines what follows. */
export type Match =
  | { readonly matched: true; readonly error?: undefined }
  | { readonly matched: false; readonly error?: undefined; readonly condition: string }
  | { readonly matched: false; readonly error: string };

/** Also contains the objects that were requested, as a verdict does. */
export type AskedMatch = Match & { readonly asked?: readonly AskedOfCluster[] };

/** Conditions that are ready for evaluation. */
export interface Matcher {
  /** The problems of the conditions, each with its field. If there are any, no condition may be evaluated. */
  readonly problems: readonly string[];
  match(request: PolicyRequest, options?: EvaluateOptions): Promise<AskedMatch>;
}

/** If a condition is false, the policy does not apply, even if others have errors. */
export function matchAll(conditions: readonly CompiledCondition[], evaluation: Evaluation): Match {
  const errors: string[] = [];
  for (const { name, source, expression } of conditions) {
    const result = evaluation.run(expression, source);
    if (result.error !== undefined) errors.push(result.error);
    else if (result.value === false) return { matched: false, condition: name };
  }
  if (errors.length === 0) return { matched: true };
  return { matched: false, error: errors.length === 1 ? errors.join('') : `[${errors.join(', ')}]` };
}
