/**
 * Rejects writes of policies that cannot work. In a cluster, the API server and the controller's webhook do so;
 * the embedded API has neither.
 */
import { isDeepStrictEqual } from 'node:util';

import { apiErrors } from '../../../lib/apiserver/resources/api-error.ts';
import type { JsonObject } from '../../../lib/json/json.ts';
import type { ResourceType } from '../../../lib/kube/object/object.ts';
import type { AdmissionRequest } from '../../../guard/admission.ts';
import {
  type AnyKubewardenPolicy,
  kubewardenTypes,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  type PolicyException,
  policyExceptionType,
  policyGroup,
  type ValidatingAdmissionPolicy,
  validatingAdmissionPolicies,
  type ValidatingAdmissionPolicyBinding,
  validatingAdmissionPolicyBindings,
} from '../api.ts';
import { exceptionFaults } from '../exceptions/exception.ts';
import { admissionPolicyFaults, bindingFaults, policyFaults } from '../policies/faults.ts';

/**
 * Rejects a faulty policy. If its spec is unchanged, the policy is not rejected: the labels and finalizers of a
 * stored policy can always be changed.
 *
 * @throws {ApiError} 422, with a cause for each field.
 */
export function refuseFaultyPolicy(
  { operation, resource, subresource, name }: AdmissionRequest,
  object: JsonObject | undefined,
  old: JsonObject | undefined,
): void {
  const { group, plural, kind } = resource;
  const isOwn = group === policyGroup && kubewardenTypes.some((type) => type.plural === plural);
  const is = (type: Pick<ResourceType, 'group' | 'plural'>): boolean =>
    group === type.group && plural === type.plural;
  const isNative = is(validatingAdmissionPolicies) || is(mutatingAdmissionPolicies);
  const isBinding = is(validatingAdmissionPolicyBindings) || is(mutatingAdmissionPolicyBindings);
  const isKnown = isOwn || isNative || isBinding || is(policyExceptionType);
  if (!isKnown || operation === 'DELETE' || subresource !== undefined) return;
  if (object === undefined || isDeepStrictEqual(object['spec'], old?.['spec'])) return;
  const faults = isOwn
    ? policyFaults({ ...object, kind } as unknown as AnyKubewardenPolicy)
    : isNative
      ? admissionPolicyFaults(object as unknown as ValidatingAdmissionPolicy)
      : isBinding
        ? bindingFaults(object as unknown as ValidatingAdmissionPolicyBinding)
        : exceptionFaults(object as unknown as PolicyException);
  if (faults.length > 0) throw apiErrors.invalid(resource, name, faults);
}
