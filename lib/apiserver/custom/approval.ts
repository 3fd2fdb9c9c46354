/**
 * Groups of the Kubernetes community need an annotation that says who has approved the API (KEP-1111; rules and
 * wording of apiextensions-apiserver `pkg/apihelpers/helpers.go`).
 */
import { fieldError, type Cause } from '../schema/field-error.ts';
import type { NewCondition } from './crd-conditions.ts';

const annotation = 'api-approved.kubernetes.io';
const details = 'see https://github.com/kubernetes/enhancements/pull/1111';
const field = `metadata.annotations[${annotation}]`;

type State = 'approved' | 'bypassed' | 'invalid' | 'missing';

interface Approval {
  readonly state: State;
  readonly message: string;
}

/** Whether the group is `k8s.io`, `kubernetes.io` or a subdomain of one. */
function isProtectedGroup(group: string): boolean {
  return /(?:^|\.)(?:k8s|kubernetes)\.io$/.test(group);
}

function approvalOf(annotations: Readonly<Record<string, unknown>>): Approval {
  const value = Object.hasOwn(annotations, annotation) ? annotations[annotation] : undefined;
  if (typeof value !== 'string' || value === '') {
    return {
      state: 'missing',
      message: `protected groups must have approval annotation "${annotation}", ${details}`,
    };
  }
  if (value.startsWith('unapproved')) {
    return { state: 'bypassed', message: `not approved: ${JSON.stringify(value)}` };
  }
  if (URL.parse(value)?.host) return { state: 'approved', message: `approved in ${value}` };
  return {
    state: 'invalid',
    message: `protected groups must have approval annotation "${annotation}" with either a URL or a reason starting with "unapproved", ${details}`,
  };
}

/** Errors in the annotation. It is not required of an object that was stored without one. */
export function approvalCauses(
  group: string,
  annotations: Readonly<Record<string, unknown>>,
  old: Readonly<Record<string, unknown>> | undefined,
): Cause[] {
  if (!isProtectedGroup(group)) return [];
  const { state, message } = approvalOf(annotations);
  if (old !== undefined && approvalOf(old).state === state) return [];
  if (state === 'missing') return [fieldError.required(field, message)];
  return state === 'invalid' ? [fieldError.invalid(field, annotations[annotation], message)] : [];
}

const reasons: Readonly<Record<State, string>> = {
  approved: 'ApprovedAnnotation',
  bypassed: 'UnapprovedAnnotation',
  invalid: 'InvalidAnnotation',
  missing: 'MissingAnnotation',
};

/** The condition that a CustomResourceDefinition has if its group is protected; `undefined` for other groups. */
export function approvalCondition(
  group: string,
  annotations: Readonly<Record<string, unknown>>,
): NewCondition | undefined {
  if (!isProtectedGroup(group)) return undefined;
  const { state, message } = approvalOf(annotations);
  return {
    type: 'KubernetesAPIApprovalPolicyConformant',
    status: state === 'approved' ? 'True' : 'False',
    reason: reasons[state],
    message,
  };
}
