/**
 * Objects to which wildcards of Kubewarden's policies do not apply: those that the cluster needs to run, and those
 * that repair it. Otherwise, a policy for `*` could prevent its own deletion, and one whose server is down would
 * stop the nodes. A policy that names such a kind applies to it. In a cluster, a match condition of the webhook
 * spares these objects; on a single machine, {@link isSpared} does. Pure.
 */
import type { LabelSelector } from '../../../lib/kube/selectors/selectors.ts';
import type { NamedExpression } from '../engine/cel/settings.ts';
import type { Policy, PolicyRule } from './policy.ts';

/** Groups that a policy applies to only if it names them. */
export const sparedGroups: ReadonlySet<string> = new Set([
  // Rampart's groups, including those of policies and their servers. A test compares the list with the guards.
  'bpfman.io',
  'file-integrity.openshift.io',
  'fileintegrity.openshift.io',
  'kivebpf.san7o.github.io',
  'policies.kubewarden.io',
  'rampart.dev',
  // Groups of reports.
  'openreports.io',
  'wgpolicyk8s.io',
  // Webhooks and policies: Kubernetes itself calls no webhook for them.
  'admissionregistration.k8s.io',
  // Checks of permissions by nodes and policies; nothing is stored.
  'authentication.k8s.io',
  'authorization.k8s.io',
]);

/** Kinds that a policy applies to only if it names their resource, as `group/resource`. Events report that a server is down. */
const sparedKinds: ReadonlySet<string> = new Set([
  '/events',
  '/nodes',
  'coordination.k8s.io/leases',
  'events.k8s.io/events',
]);

/** A policy applies to this namespace only if it has a namespace selector for it, or a rule that names the resource. */
const sparedNamespace = 'kube-system';

export const namespaceNameLabel = 'kubernetes.io/metadata.name';

export interface SparedTarget {
  readonly group: string;
  readonly resource: string;
  /** '' for the object itself. */
  readonly subresource: string;
  readonly namespace: string;
  readonly operation: string;
}

/** Whether only wildcards match the request, and the object is one that they spare. */
export function isSpared(policy: Pick<Policy, 'constraints' | 'origin'>, target: SparedTarget): boolean {
  const { group, resource, subresource, namespace, operation } = target;
  const rules = rulesOf(policy);
  const isOfGroup = sparedGroups.has(group);
  if (!isOfGroup && !sparedKinds.has(`${group}/${resource}`)) {
    if (namespace !== sparedNamespace || namesNamespace(policy)) return false;
  }
  return !rules.some(({ groups, resources, operations }) => {
    if (!operations.includes('*') && !operations.includes(operation)) return false;
    if (isOfGroup ? !groups.includes(group) : !groups.includes('*') && !groups.includes(group)) return false;
    return resources.some((pattern) => {
      const [name = '', sub = ''] = pattern.split('/');
      const isNamed = name === resource || (isOfGroup && name === '*');
      return isNamed && (sub === '*' || sub === subresource);
    });
  });
}

/** {@link isSpared} as a match condition of a webhook; undefined for a policy without wildcards, which matches only what it names. */
export function sparingCondition(
  policy: Pick<Policy, 'constraints' | 'origin'>,
): NamedExpression | undefined {
  const rules = rulesOf(policy);
  if (!rules.some(hasWildcard)) return undefined;
  const group = 'request.resource.group';
  const ofGroups = rules.map((rule) => {
    const named = rule.groups.filter((one) => sparedGroups.has(one));
    return named.length === 0
      ? ''
      : all([within(group, named), resourceIn(rule.resources), operationIn(rule)]);
  });
  const ofResources = rules.map((rule) => {
    const named = rule.resources.filter((one) => !one.startsWith('*'));
    return named.length === 0 ? '' : all([within(group, rule.groups), resourceIn(named), operationIn(rule)]);
  });
  const spared = [within(`(${group} + '/' + request.resource.resource)`, [...sparedKinds])];
  if (!namesNamespace(policy))
    spared.push(`has(request.namespace) && request.namespace == '${sparedNamespace}'`);
  return {
    name: 'rampart.dev/not-by-wildcard',
    expression: `${within(group, [...sparedGroups])} ? ${any(ofGroups)} : !(${any(spared)}) || ${any(ofResources)}`,
  };
}

function hasWildcard({ groups, resources }: PolicyRule): boolean {
  return groups.includes('*') || resources.some((one) => one.startsWith('*'));
}

function rulesOf({ constraints }: Pick<Policy, 'constraints'>): readonly PolicyRule[] {
  return constraints.flatMap(({ rules }) => rules);
}

function namesNamespace({ origin, constraints }: Pick<Policy, 'constraints' | 'origin'>): boolean {
  if (origin.namespace !== undefined) return origin.namespace === sparedNamespace;
  return constraints.some(({ namespaceSelector }) => selectsNamespace(namespaceSelector));
}

function selectsNamespace(selector: LabelSelector | undefined): boolean {
  return (selector?.requirements ?? []).some(
    (one) => one.key === namespaceNameLabel && one.operator === 'in' && one.values.includes(sparedNamespace),
  );
}

/** CEL: whether the request is for one of these resources, and for its subresource if one is given. */
function resourceIn(patterns: readonly string[]): string {
  const resource = 'request.resource.resource';
  const sub = 'request.subResource';
  return any(
    patterns.map((pattern) => {
      const [name = '', subresource = ''] = pattern.split('/');
      return all([
        name === '*' ? '' : `${resource} == ${JSON.stringify(name)}`,
        subresource === '*'
          ? ''
          : subresource === ''
            ? `(!has(${sub}) || ${sub} == '')`
            : `has(${sub}) && ${sub} == ${JSON.stringify(subresource)}`,
      ]);
    }),
  );
}

function operationIn({ operations }: PolicyRule): string {
  return within('request.operation', operations);
}

/** CEL: whether the value is in the list; '' if everything matches. */
function within(value: string, list: readonly string[]): string {
  return list.includes('*') ? '' : `${value} in ${JSON.stringify(list)}`;
}

function all(terms: readonly string[]): string {
  const some = terms.filter((term) => term !== '');
  return some.length === 0 ? 'true' : some.join(' && ');
}

function any(terms: readonly string[]): string {
  const some = terms.filter((term) => term !== '');
  return some.length === 0 ? 'false' : `(${some.map((term) => `(${term})`).join(' || ')})`;
}
