/** Turns the results of a policy's expressions into a verdict on the request. */
import { EvaluationError, type ObjectModel, type PolicyRequest, type Verdict } from '../evaluator.ts';
import type { Asks } from './asks.ts';
import { type CreateFrame, Evaluation } from './decide.ts';
import { type Mutated, mutatedObject } from './mutate.ts';
import { paramsOf, type ParamsFound } from './params.ts';
import type { CompiledPolicy, CompiledValidation } from './policy.ts';
import type { Reason } from './settings.ts';
import { matchAll } from './matching.ts';

/** Longer messages from expressions are rejected (apiserver `pkg/apis/cel/config.go`). */
const maxMessageBytes = 5 * 1024;

const codes = {
  // For Invalid, Kubernetes answers with 422, the module with 400.
  'cel-policy': { Invalid: 400, Unauthorized: 401, Forbidden: 403, RequestEntityTooLarge: 413 },
  'validating-admission-policy': {
    Invalid: 422,
    Unauthorized: 401,
    Forbidden: 403,
    RequestEntityTooLarge: 413,
  },
} as const satisfies Record<CompiledPolicy['dialect'], Record<Reason, number>>;

/** @throws {EvaluationError} if there is no verdict. */
export function verdictOf(
  policy: CompiledPolicy,
  frameOf: CreateFrame,
  request: PolicyRequest,
  asks: Asks,
  model?: ObjectModel,
): Verdict {
  const params = paramsOf(policy, request, asks);
  if ('verdict' in params) return params.verdict;
  const evaluations = evaluationsOf(frameOf, request, asks, params.found);
  if (policy.dialect === 'cel-policy') return firstFailure(policy, evaluations);
  return allFailures(policy, evaluations, () =>
    mutatedObject(policy, { frameOf, request, asks, params: params.found, model }),
  );
}

/** One evaluation for each parameter; each is created after the previous one has run. */
function* evaluationsOf(
  frameOf: CreateFrame,
  request: PolicyRequest,
  asks: Asks,
  params: ParamsFound,
): Iterable<Evaluation> {
  for (const [place, one] of params.entries()) {
    yield asks.evaluation(String(place), () => new Evaluation(frameOf(request, asks, one), asks));
  }
}

function firstFailure(policy: CompiledPolicy, evaluations: Iterable<Evaluation>): Verdict {
  for (const evaluation of evaluations) {
    for (const compiled of policy.validations) {
      const { validation, expression } = compiled;
      const result = evaluation.run(expression, validation.expression.trim());
      if (result.error !== undefined) throw new EvaluationError(result.why, result.error);
      if (result.value === true) continue;
      return refused(policy, compiled, moduleMessage(evaluation, compiled));
    }
  }
  return { allowed: true };
}

function refused({ dialect }: CompiledPolicy, { validation }: CompiledValidation, message: string): Verdict {
  return {
    allowed: false,
    message,
    code: codes[dialect][validation.reason],
    reason: validation.reason,
  };
}

const defaultMessage = ({ validation }: CompiledValidation): string =>
  validation.message.trim() || `failed expression: ${validation.expression.trim()}`;

/** If the message cannot be created, the module gives no verdict. */
function moduleMessage(evaluation: Evaluation, compiled: CompiledValidation): string {
  const { messageExpression, validation } = compiled;
  if (messageExpression === undefined) return defaultMessage(compiled);
  const result = evaluation.run(messageExpression, validation.messageExpression.trim());
  if (result.error !== undefined) throw new EvaluationError(result.why, result.error);
  return typeof result.value === 'string' && result.value !== '' ? result.value : defaultMessage(compiled);
}

/** If the message cannot be created, Kubernetes falls back to other messages. */
function kubernetesMessage(evaluation: Evaluation, compiled: CompiledValidation): string {
  const { messageExpression, validation } = compiled;
  if (messageExpression === undefined) return defaultMessage(compiled);
  const { value } = evaluation.run(messageExpression, validation.messageExpression) as { value?: unknown };
  const text = typeof value === 'string' ? value.trim() : '';
  const usable = text !== '' && Buffer.byteLength(text) <= maxMessageBytes && !text.includes('\n');
  return usable ? text : defaultMessage(compiled);
}

/** Runs all validations. The first one that refuses determines the message and the code; each that refuses is a cause. */
function allFailures(
  policy: CompiledPolicy,
  evaluations: Iterable<Evaluation>,
  mutate: () => Mutated,
): Verdict {
  const refusals: Verdict[] = [];
  const errors: { readonly why: EvaluationError['why']; readonly message: string }[] = [];
  const causes: { field: string; message: string }[] = [];
  const auditAnnotations: Record<string, string> = {};
  for (const evaluation of evaluations) {
    const matched = matchAll(policy.matchConditions, evaluation);
    if (matched.error !== undefined) {
      errors.push({ why: 'expression', message: matched.error });
      continue;
    }
    if (!matched.matched) continue;
    for (const [index, compiled] of policy.validations.entries()) {
      const field = `validations[${index}]`;
      const result = evaluation.run(compiled.expression, compiled.validation.expression);
      if (result.error !== undefined) {
        errors.push({ why: result.why, message: result.error });
        causes.push({ field, message: result.error });
      } else if (result.value !== true) {
        const message = kubernetesMessage(evaluation, compiled);
        refusals.push(refused(policy, compiled, message));
        causes.push({ field, message });
      }
    }
    annotate(policy, evaluation, auditAnnotations, errors);
  }
  const annotations = Object.keys(auditAnnotations).length > 0 ? { auditAnnotations } : {};
  const [first] = refusals;
  if (first !== undefined) return { ...first, causes, ...annotations };
  const { mutated, errors: failed } = errors.length === 0 ? mutate() : { mutated: undefined, errors: [] };
  const [error] = [...errors, ...failed];
  const changed = { ...annotations, ...(mutated && { mutated }) };
  if (error === undefined) return { allowed: true, ...changed };
  if (policy.settings.failurePolicy === 'Fail') throw new EvaluationError(error.why, error.message);
  const warnings = [...errors, ...failed].map(({ message }) => `ignored by failurePolicy: ${message}`);
  return { allowed: true, warnings, ...changed };
}

function annotate(
  policy: CompiledPolicy,
  evaluation: Evaluation,
  annotations: Record<string, string>,
  errors: { why: EvaluationError['why']; message: string }[],
): void {
  for (const { key, expression, source } of policy.auditAnnotations) {
    const result = evaluation.run(expression, source);
    if (result.error !== undefined) {
      errors.push({ why: result.why, message: result.error });
      continue;
    }
    const text = typeof result.value === 'string' ? result.value.trim() : '';
    if (text === '') continue;
    const known = Object.hasOwn(annotations, key) ? annotations[key] : undefined;
    // If there are several parameters, all distinct values are joined.
    if (known?.split(', ').includes(text) !== true)
      annotations[key] = known === undefined ? text : `${known}, ${text}`;
  }
}
