/**
 * A policy as the rest of the guard sees it, whichever kind the user wrote: whom it is asked about, and what is asked.
 */
import type { LabelSelector } from '../../../shared/kube/selectors.ts';
import type { PolicyProgram } from '../engine/program.ts';

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

/** Whom a policy is asked about: all that is in it has to hold. */
export interface Constraint {
  /** Any of them. */
  readonly rules: readonly PolicyRule[];
  /** None of them. */
  readonly excluded: readonly PolicyRule[];
  readonly isExact: boolean;
  /** Undefined: all. */
  readonly namespaceSelector: LabelSelector | undefined;
  readonly objectSelector: LabelSelector | undefined;
}

export interface MatchCondition {
  readonly name: string;
  readonly expression: string;
}

/** Where a policy comes from. */
export interface PolicyOrigin {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  /** Of a namespaced policy: it is asked about objects in it alone. */
  readonly namespace: string | undefined;
  readonly uid: string;
  readonly resourceVersion: string;
}

export interface Policy {
  /** `clusterwide-X`, `namespaced-NS-X`, `clusterwide-group-X`, `namespaced-group-NS-X`; of a ValidatingAdmissionPolicy its name and binding. */
  readonly id: string;
  readonly origin: PolicyOrigin;
  /** `kubewarden`, or `ValidatingAdmissionPolicy`: what reports give as their source, and how refusals are worded. */
  readonly source: 'ValidatingAdmissionPolicy' | 'kubewarden';
  /** Of a ValidatingAdmissionPolicy. */
  readonly binding: string | undefined;
  readonly policyServer: string;
  readonly mode: PolicyMode;
  /** Besides refusing: warn the client. Of a ValidatingAdmissionPolicy alone. */
  readonly warns: boolean;
  readonly isMutating: boolean;
  readonly ignoresFailures: boolean;
  readonly backgroundAudit: boolean;
  readonly constraints: readonly Constraint[];
  readonly matchConditions: readonly MatchCondition[];
  /** Whether a dry run may ask it. */
  readonly hasSideEffects: boolean;
  readonly timeoutMs: number;
  /** Told in place of what the policy says. */
  readonly message: string | undefined;
  readonly severity: string | undefined;
  readonly category: string | undefined;
  readonly isContextAware: boolean;
  readonly program: PolicyProgram;
  /** The same as long as nothing has changed that what it says, or what reports tell of it, depends on. */
  readonly version: string;
}
