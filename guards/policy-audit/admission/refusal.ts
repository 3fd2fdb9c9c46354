/**
 * Refusals in the words of Kubernetes: what a client reads when a webhook or a policy of Kubernetes refuses a
 * write (apiserver pkg/admission/plugin/webhook/errors, plugin/policy/validating and plugin/policy/generic).
 */
import { visibleText } from '../../../lib/output/printable.ts';
import { ApiError, apiErrors, type StatusCause } from '../../../lib/apiserver/resources/api-error.ts';
import type { ResourceType } from '../../../lib/kube/object/object.ts';
import type { Verdict } from '../engine/evaluator.ts';
import type { Policy } from '../policies/policy.ts';

/** The name of the webhook of a policy. */
export function webhookName({ id }: Pick<Policy, 'id'>): string {
  return `${id}.kubewarden.admission`;
}

/** The refusal by a policy of Kubewarden. */
export function webhookRefusal(policy: Policy, verdict: Verdict): ApiError {
  const { code = 0, reason = '', causes = [] } = verdict;
  const message = visibleText(verdict.message ?? '');
  const denied = `admission webhook "${webhookName(policy)}" denied the request`;
  const own = policy.message;
  const reported = own ?? message;
  const why = reported !== '' ? `: ${reported}` : reason !== '' ? `: ${reason}` : ' without explanation';
  const shown: StatusCause[] = causes.map(({ field, message: text }) => ({
    reason: '',
    message: visibleText(text),
    field,
  }));
  // If `spec.message` replaces the module's message, the latter is shown as a cause.
  if (own !== undefined && message !== '') shown.push({ reason: '', message, field: '' });
  return new ApiError({
    code: code < 400 ? 400 : code,
    // Empty, as in Kubewarden's server: with `Invalid`, kubectl would show the causes instead of the message.
    reason: '',
    message: denied + why,
    ...(shown.length > 0 && { details: { causes: shown } }),
  });
}

/** The error for a policy that could not be evaluated in time, and whose failurePolicy is Fail. */
export function webhookFailure(policy: Policy, why: string): ApiError {
  return apiErrors.internal(`failed calling webhook "${webhookName(policy)}": ${visibleText(why)}`);
}

const codes: Readonly<Record<string, number>> = {
  Forbidden: 403,
  Unauthorized: 401,
  RequestEntityTooLarge: 413,
  Invalid: 422,
};

/** The refusal by a ValidatingAdmissionPolicy. */
export function admissionPolicyRefusal(
  resource: ResourceType,
  name: string,
  policy: Policy,
  { message: given = '', reason = 'Invalid' }: Pick<Verdict, 'message' | 'reason'>,
): ApiError {
  const message = visibleText(given);
  const why = `ValidatingAdmissionPolicy '${policy.origin.name}' with binding '${policy.binding ?? ''}' denied request: ${message}`;
  const { status } = apiErrors.forbidden(resource, name, why, [{ reason: '', message }]);
  return new ApiError({ ...status, reason, code: codes[reason] ?? 422 });
}

/** A MutatingAdmissionPolicy with the failurePolicy Fail that could not be applied, and why. */
export interface MutationFailure {
  readonly policy: Policy;
  readonly message: string;
}

/** The error for MutatingAdmissionPolicies that could not be applied: the first is in the message, all are causes. */
export function mutationRefusal(
  resource: ResourceType,
  name: string,
  failures: readonly [MutationFailure, ...MutationFailure[]],
): ApiError {
  const texts = failures.map(
    ({ policy, message }) =>
      `policy '${policy.origin.name}' with binding '${policy.binding ?? ''}' denied request: ${visibleText(message)}`,
  );
  const causes = texts.map((message) => ({ reason: '', message, field: '' }));
  const { status } = apiErrors.forbidden(resource, name, '', causes);
  return new ApiError({ ...status, message: texts[0] ?? '', reason: 'Invalid' });
}

/** The warning that a client gets instead of a refusal. */
export function admissionPolicyWarning(policy: Policy, message: string): string {
  return `Validation failed for ValidatingAdmissionPolicy '${policy.origin.name}' with binding '${policy.binding ?? ''}': ${visibleText(message)}`;
}
