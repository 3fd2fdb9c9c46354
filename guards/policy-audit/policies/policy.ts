/**
 * A policy as the rest of the guard sees it, whatever its kind: what it applies to, and what it evaluates.
 */
import type { LabelSelector } from '../../../lib/kube/selectors/selectors.ts';
import type { NamedExpression } from '../engine/cel/settings.ts';
import type { PolicyProgram } from '../engine/program.ts';
import type { ReportedPolicy } from '../findings/policy-findings.ts';

export type PolicyMode = 'monitor' | 'protect';

export interface PolicyRule {
  /** '*' is all. */
  readonly groups: readonly string[];
  readonly versions: readonly string[];
  readonly operations: readonly string[];
  /** `pods`, `pods/log`, `*`, `*\/log`, `*\/*`. */
  readonly resources: readonly string[];
  readonly scope: '*' | 'Cluster' | 'Namespaced';
  /** Empty: all. */
  readonly names: readonly string[];
}

/** The objects that a policy applies to: all of these must match. */
export interface Constraint {
  /** At least one of them must match. */
  readonly rules: readonly PolicyRule[];
  /** None of them may match. */
  readonly excluded: readonly PolicyRule[];
  readonly isExact: boolean;
  /** Undefined: all. */
  readonly namespaceSelector: LabelSelector | undefined;
  readonly objectSelector: LabelSelector | undefined;
}

/** Where a policy comes from. */
export interface PolicyOrigin {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  /** For a namespaced policy: it applies only to objects in it. */
  readonly namespace: string | undefined;
  readonly uid: string;
  readonly resourceVersion: string;
}

export interface Policy {
  /** `clusterwide-X`, `namespaced-NS-X`, `clusterwide-group-X`, `namespaced-group-NS-X`; for policies of Kubernetes, the name and the binding, of a MutatingAdmissionPolicy after `mutating/`. */
  readonly id: string;
  readonly origin: PolicyOrigin;
  /** `kubewarden`, or `ValidatingAdmissionPolicy`: the source in reports, and the wording of refusals. */
  readonly source: 'MutatingAdmissionPolicy' | 'ValidatingAdmissionPolicy' | 'kubewarden';
  /** For a policy of Kubernetes. */
  readonly binding: string | undefined;
  readonly policyServer: string;
  readonly mode: PolicyMode;
  /** Besides refusing: warn the client. Only for a ValidatingAdmissionPolicy. */
  readonly warns: boolean;
  readonly isMutating: boolean;
  /** Whether it is evaluated again if later policies have changed the object. Only for a MutatingAdmissionPolicy. */
  readonly isReinvoked: boolean;
  readonly ignoresFailures: boolean;
  readonly backgroundAudit: boolean;
  /** Whether it applies to writes in the namespace of Rampart, too. */
  readonly isForSystem: boolean;
  readonly constraints: readonly Constraint[];
  readonly matchConditions: readonly NamedExpression[];
  /** Whether it may be evaluated in a dry run. */
  readonly hasSideEffects: boolean;
  readonly timeoutMs: number;
  /** Replaces the message of the policy. */
  readonly message: string | undefined;
  readonly severity: string | undefined;
  readonly category: string | undefined;
  readonly isContextAware: boolean;
  readonly program: PolicyProgram;
  /** Unchanged as long as nothing has changed that its results, or their reports, depend on. */
  readonly version: string;
}

/** As findings name it. */
export function reportedPolicy({
  id,
  origin,
  severity,
}: Pick<Policy, 'id' | 'origin' | 'severity'>): ReportedPolicy {
  const { kind, namespace = '', name } = origin;
  return { id, reference: { kind, namespace, name }, severity };
}
