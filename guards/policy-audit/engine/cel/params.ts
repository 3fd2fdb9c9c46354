/**
 * The parameters of a policy: the objects that `paramRef` names, each of which the request must satisfy.
 */
import { CelError } from '../../../../lib/cel/failure.ts';
import { fieldOf, isObject } from '../../../../lib/json/json.ts';
import { labelSelectorOf, labelSelectorText } from '../../../../lib/kube/selectors/selectors.ts';
import { EvaluationError, type JsonObject, type PolicyRequest, type Verdict } from '../evaluator.ts';
import type { Asks } from './asks.ts';
import type { CompiledPolicy } from './policy.ts';
import type { ParamRef } from './settings.ts';

/** The parameters that were found; a single `undefined` if the policy has no parameters. */
export type ParamsFound = readonly (JsonObject | undefined)[];

const none: ParamsFound = [undefined];

/** The parameters, or the verdict if they are unavailable. */
export function paramsOf(
  policy: CompiledPolicy,
  request: PolicyRequest,
  asks: Asks,
): { readonly found: ParamsFound } | { readonly verdict: Verdict } {
  const { paramKind, paramRef, failurePolicy } = policy.settings;
  if (paramKind === undefined || paramRef === undefined) return { found: none };
  const isModule = policy.dialect === 'cel-policy';
  let problem = isModule
    ? 'no parameters found'
    : 'no params found for policy binding with `Deny` parameterNotFoundAction';
  try {
    const found = lookUp(paramKind, paramRef, request.namespace ?? '', asks);
    if (found.length > 0) return { found };
    if (paramRef.parameterNotFoundAction === 'Allow') return { verdict: { allowed: true } };
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    problem = error.message;
  }
  const failed = isModule ? 'get params for performing policy evaluation' : 'configure binding';
  const message = `failed to ${failed}: ${problem}`;
  const ignored = failurePolicy === 'Ignore' || paramRef.parameterNotFoundAction === 'Allow';
  if (ignored) return { verdict: { allowed: true, warnings: [`ignored by failurePolicy: ${message}`] } };
  if (isModule) return { verdict: { allowed: false, message, code: 400, reason: 'Invalid' } };
  throw new EvaluationError('expression', message);
}

/** @throws {CelError} if the cluster does not respond. */
function lookUp(
  { apiVersion, kind }: { readonly apiVersion: string; readonly kind: string },
  { name, namespace: given, selector }: ParamRef,
  requestNamespace: string,
  asks: Asks,
): JsonObject[] {
  // Defaults to the namespace of the request; cluster-scoped parameters have none.
  const namespace = given || requestNamespace || undefined;
  const where = { apiVersion, kind, ...(namespace !== undefined && { namespace }) };
  if (selector === undefined) {
    const one = asks.object({ ...where, name });
    return one === undefined ? [] : [one];
  }
  const labelSelector = labelSelectorText(labelSelectorOf(selector));
  const list = asks.list({ ...where, ...(labelSelector !== '' && { labelSelector }) });
  const items = fieldOf(list, 'items');
  return Array.isArray(items) ? items.filter(isObject) : [];
}
