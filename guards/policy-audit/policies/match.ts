/**
 * Whether a policy is evaluated for a request. Decided as by Kubernetes for webhooks and
 * ValidatingAdmissionPolicies (apiserver pkg/admission/plugin/webhook/predicates, plugin/policy/matching). Pure.
 */
import { type Labels, labelsMatch } from '../../../lib/kube/selectors/selectors.ts';
import type { GroupVersionResource } from '../engine/evaluator.ts';
import type { Constraint, Policy, PolicyRule } from './policy.ts';

export interface MatchTarget extends GroupVersionResource {
  readonly operation: 'CONNECT' | 'CREATE' | 'DELETE' | 'UPDATE';
  /** '' for the object itself. */
  readonly subresource: string;
  readonly isNamespaced: boolean;
  /** '' for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  /** Other versions in which the same objects are served. */
  readonly equivalents: readonly GroupVersionResource[];
  /** Whether no particular version was requested, as in an audit: then `Exact` matches any version. */
  readonly anyVersion?: boolean;
  /** Labels of the object; below, those of its previous state. Undefined if that state does not exist. */
  readonly labels: Labels | undefined;
  readonly oldLabels: Labels | undefined;
  /**
   * Labels of the object's namespace; for a Namespace, its own labels. Undefined for a cluster-scoped object, to
   * which namespaceSelectors do not apply.
   */
  readonly namespaceLabels: Labels | undefined;
}

/** Why a policy does not apply. `background` occurs only in audits. */
export type Irrelevance =
  | 'background'
  | 'excluded'
  | 'namespace'
  | 'namespaceSelector'
  | 'objectSelector'
  | 'operation'
  | 'resource'
  | 'scope';

/**
 * Groups that wildcards do not match: those of reports and of policies. A policy must name these groups to apply
 * to them: otherwise a policy for all objects could prevent its own reports from being written, or itself from
 * being deleted.
 */
const named: ReadonlySet<string> = new Set([
  'openreports.io',
  'policies.kubewarden.io',
  'rampart.dev',
  'wgpolicyk8s.io',
]);

/**
 * The group for which Kubernetes itself evaluates no policy, so that no policy can prevent its own removal.
 */
const exempt = 'admissionregistration.k8s.io';

/** The version of the object that the policy sees, or why the policy does not apply. */
export function matchPolicy(
  { origin, constraints }: Pick<Policy, 'constraints' | 'origin'>,
  target: MatchTarget,
): GroupVersionResource | Irrelevance {
  if (target.group === exempt) return 'resource';
  if (origin.namespace !== undefined && origin.namespace !== target.namespace) return 'namespace';
  let shown: GroupVersionResource | undefined;
  for (const constraint of constraints) {
    const found = matchConstraint(constraint, target);
    if (typeof found === 'string') return found;
    shown ??= found;
  }
  return shown ?? target;
}

function matchConstraint(constraint: Constraint, target: MatchTarget): GroupVersionResource | Irrelevance {
  const { rules, excluded, isExact, namespaceSelector, objectSelector } = constraint;
  if (
    namespaceSelector !== undefined &&
    target.namespaceLabels !== undefined &&
    !labelsMatch(namespaceSelector, target.namespaceLabels)
  ) {
    return 'namespaceSelector';
  }
  if (objectSelector !== undefined && objectSelector.requirements.length > 0) {
    const { labels, oldLabels } = target;
    const isSelected = [labels, oldLabels].some(
      (one) => one !== undefined && labelsMatch(objectSelector, one),
    );
    if (!isSelected) return 'objectSelector';
  }
  const versions = isExact && target.anyVersion !== true ? [target] : [target, ...target.equivalents];
  if (excluded.some((rule) => versions.some((one) => ruleProblem(rule, one, target) === undefined))) {
    return 'excluded';
  }
  // The requested version takes precedence over others.
  let nearest: Irrelevance = 'resource';
  for (const one of versions) {
    for (const rule of rules) {
      const problem = ruleProblem(rule, one, target);
      if (problem === undefined) return one;
      if (problem !== 'resource') nearest = problem;
    }
  }
  return nearest;
}

function ruleProblem(
  rule: PolicyRule,
  kind: GroupVersionResource,
  target: MatchTarget,
): Irrelevance | undefined {
  if (!coversKind(rule, kind, target.subresource)) return 'resource';
  if (rule.names.length > 0 && !rule.names.includes(target.name)) return 'resource';
  if (!has(rule.operations, target.operation)) return 'operation';
  if (rule.scope !== '*') {
    // A Namespace is cluster-scoped, although it has a namespace with its own name.
    const isInside = target.isNamespaced;
    if (isInside !== (rule.scope === 'Namespaced')) return 'scope';
  }
  return undefined;
}

/** Whether a rule matches a version of a kind, or of its subresource. */
export function coversKind(
  { groups, versions, resources }: PolicyRule,
  kind: GroupVersionResource,
  subresource = '',
): boolean {
  const isGroup = groups.includes(kind.group) || (groups.includes('*') && !named.has(kind.group));
  if (!isGroup || !has(versions, kind.version)) return false;
  return resources.some((pattern) => {
    const [resource = '', sub = ''] = pattern.split('/');
    // `pods/*` includes the pod itself.
    return (resource === '*' || resource === kind.resource) && (sub === '*' || sub === subresource);
  });
}

/** Whether a rule applies to CREATE. */
export function coversCreation({ operations }: PolicyRule): boolean {
  return has(operations, 'CREATE');
}

function has(list: readonly string[], value: string): boolean {
  return list.includes('*') || list.includes(value);
}
