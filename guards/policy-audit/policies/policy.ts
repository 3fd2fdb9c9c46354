/**
 * A policy as the rest of the guard sees it, whatever its kind: what it applies to, and what it evaluates.
 */
import type { LabelSelector } from '../../../lib/kube/selectors/selectors.ts';
import type { NamedExpression } from '../engine/cel/settings.ts';
import type { PolicyProgram } from '../engine/program.ts';
import type { ReportedPolicy } from '../findings/policy-findings.ts';

export type PolicyMode = 'monitor' | 'protect';

export interface PolicyRule {
  /** '*' stands for all groups. */
  readonly groups: readonly string[];
  readonly versions: readonly string[];
  readonly operations: readonly string[];
  /** `pods`, `pods/log`, `*`, `*\/log`, `*\/*`. */
  readonly resources: readonly string[];
  readonly scope: '*' | 'Cluster' | 'Namespaced';
  /** Names of objects. Empty: all objects. */
  readonly names: readonly string[];
}

/** The objects that a policy applies to; all of these conditions must hold. */
export interface Constraint {
  /** At least one of them must match. */
  readonly rules: readonly PolicyRule[];
  /** None of them may match. */
  readonly excluded: readonly PolicyRule[];
  readonly isExact: boolean;
  /** Undefined: all namespaces. */
  readonly namespaceSelector: LabelSelector | undefined;
  readonly objectSelector: LabelSelector | undefined;
}

/** Where a policy comes from. */
export interface PolicyOrigin {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  /** Only for a namespaced policy, which applies only to objects in this namespace. */
  readonly namespace: string | undefined;
  readonly uid: string;
  readonly resourceVersion: string;
}

export interface Policy {
  /**
   * `clusterwide-X`, `namespaced-NS-X`, `clusterwide-group-X`, `namespaced-group-NS-X`. For policies of
   * Kubernetes, the names of policy and binding; for a MutatingAdmissionPolicy, prefixed by `mutating/`.
   */
  readonly id: string;
  readonly origin: PolicyOrigin;
  /** The source in reports; also determines the wording of refusals. */
  readonly source: 'MutatingAdmissionPolicy' | 'ValidatingAdmissionPolicy' | 'kubewarden';
  /** Name of the binding. Only for policies of Kubernetes. */
  readonly binding: string | undefined;
  readonly policyServer: string;
  readonly mode: PolicyMode;
  /** Whether the client is warned, besides or instead of a refusal. Only for a ValidatingAdmissionPolicy. */
  readonly warns: boolean;
  readonly isMutating: boolean;
  /** Whether the policy is evaluated again if later policies have changed the object. Only for a MutatingAdmissionPolicy. */
  readonly isReinvoked: boolean;
  readonly ignoresFailures: boolean;
  readonly backgroundAudit: boolean;
  /** Whether the policy also applies to writes in Rampart's namespace. */
  readonly isForSystem: boolean;
  readonly constraints: readonly Constraint[];
  readonly matchConditions: readonly NamedExpression[];
  /** Whether the policy must not be evaluated in a dry run. */
  readonly hasSideEffects: boolean;
  readonly timeoutMs: number;
  /** Replaces the message of the policy's module. */
  readonly message: string | undefined;
  readonly severity: string | undefined;
  readonly category: string | undefined;
  readonly isContextAware: boolean;
  readonly program: PolicyProgram;
  /** Stays the same as long as nothing changes that affects the policy's results or their reports. */
  readonly version: string;
}

/** The policy as named in findings. */
export function reportedPolicy({
  id,
  origin,
  severity,
}: Pick<Policy, 'id' | 'origin' | 'severity'>): ReportedPolicy {
  const { kind, namespace = '', name } = origin;
  return { id, reference: { kind, namespace, name }, severity };
}
