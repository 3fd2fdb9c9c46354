/** Turns the user's object into a {@link Policy}. Pure. */
import { labelSelectorOf, type LabelSelectorObject } from '../../../lib/kube/selectors/selectors.ts';
import type { ResourceType } from '../../../lib/kube/object/object.ts';
import {
  type AnyKubewardenPolicy,
  mutatingAdmissionPolicies,
  type MutatingAdmissionPolicy,
  type MutatingAdmissionPolicyBinding,
  type ValidatingAdmissionPolicy,
  type ValidatingAdmissionPolicyBinding,
  validatingAdmissionPolicies,
} from '../api.ts';
import type { ModuleProgram, PolicyProgram } from '../engine/program.ts';
import type { Constraint, Policy, PolicyOrigin, PolicyRule } from './policy.ts';

export const severityAnnotation = 'io.kubewarden.policy.severity';
const categoryAnnotation = 'io.kubewarden.policy.category';
/** An annotation of a policy or a Namespace: a new value makes everything audited again that the policy or the Namespace covers. */
export const auditAnnotation = 'rampart.dev/audit-requested';

type SingleSpec = Extract<AnyKubewardenPolicy['spec'], { readonly module: string }>;
type GroupSpec = Extract<AnyKubewardenPolicy['spec'], { readonly expression: string }>;
type Rules = AnyKubewardenPolicy['spec']['rules'];

/**
 * A policy of Kubewarden.
 *
 * @throws {RampartError} `INPUT` (SelectorError) for an invalid selector.
 */
export function readKubewardenPolicy(object: AnyKubewardenPolicy): Policy {
  const { spec, metadata, kind = '' } = object;
  const isNamespaced = !kind.startsWith('Cluster');
  const origin = originOf(object, isNamespaced);
  const program: PolicyProgram = 'expression' in spec ? groupProgram(spec) : moduleProgram(spec);
  const selectors = spec as { readonly namespaceSelector?: LabelSelectorObject };
  const { annotations = {} } = metadata;
  return {
    id: policyId(object),
    origin,
    source: 'kubewarden',
    binding: undefined,
    policyServer: spec.policyServer,
    mode: spec.mode,
    warns: false,
    isMutating: 'module' in spec && spec.mutating,
    isReinvoked: false,
    ignoresFailures: spec.failurePolicy === 'Ignore',
    backgroundAudit: spec.backgroundAudit,
    isForSystem:
      'allowInsideAdmissionControllerNamespace' in spec &&
      (spec.allowInsideAdmissionControllerNamespace ?? false),
    constraints: [
      {
        rules: spec.rules.map(ruleOf),
        excluded: [],
        isExact: spec.matchPolicy === 'Exact',
        namespaceSelector: selectorOf(selectors.namespaceSelector),
        objectSelector: selectorOf(spec.objectSelector),
      },
    ],
    matchConditions: spec.matchConditions ?? [],
    hasSideEffects: spec.sideEffects === 'Some' || spec.sideEffects === 'Unknown',
    timeoutMs: spec.timeoutSeconds * 1000,
    message: 'module' in spec ? spec.message : undefined,
    severity: annotations[severityAnnotation],
    category: annotations[categoryAnnotation],
    isContextAware: programsOf(program).some(({ contextAware }) => contextAware.length > 0),
    program,
    version: versionOf(object),
  };
}

/** The policy's name in policy servers, webhooks and reports: `clusterwide-x`, `namespaced-group-shop-x`. */
export function policyId({ spec, metadata, kind = '' }: AnyKubewardenPolicy): string {
  const group = 'expression' in spec ? 'group-' : '';
  const { name = '', namespace = '' } = metadata;
  return kind.startsWith('Cluster')
    ? `clusterwide-${group}${name}`
    : `namespaced-${group}${namespace}-${name}`;
}

/** Whether the ID belongs to a namespaced policy of Kubewarden. */
export const isNamespacedId = (id: string): boolean => id.startsWith('namespaced-');

/**
 * A ValidatingAdmissionPolicy under one of its bindings.
 *
 * @throws {RampartError} `INPUT` (SelectorError) for an invalid selector.
 */
export function readAdmissionPolicy(
  object: ValidatingAdmissionPolicy,
  binding: ValidatingAdmissionPolicyBinding,
): Policy {
  const { validationActions } = binding.spec ?? { validationActions: [] };
  const { validations = [], auditAnnotations } = object.spec ?? {};
  return {
    ...nativePolicy(validatingAdmissionPolicies, object, binding, {
      validations,
      ...(auditAnnotations && { auditAnnotations }),
    }),
    id: `${object.metadata.name ?? ''}/${binding.metadata.name ?? ''}`,
    source: 'ValidatingAdmissionPolicy',
    mode: validationActions.includes('Deny') ? 'protect' : 'monitor',
    warns: validationActions.includes('Warn'),
    isMutating: false,
    isReinvoked: false,
    backgroundAudit: true,
  };
}

/**
 * A MutatingAdmissionPolicy under one of its bindings. It is not used in audits, since it refuses nothing.
 *
 * @throws {RampartError} `INPUT` (SelectorError) for an invalid selector.
 */
export function readMutatingPolicy(
  object: MutatingAdmissionPolicy,
  binding: MutatingAdmissionPolicyBinding,
): Policy {
  const { mutations = [], reinvocationPolicy } = object.spec ?? {};
  return {
    ...nativePolicy(mutatingAdmissionPolicies, object, binding, { mutations }),
    id: `mutating/${object.metadata.name ?? ''}/${binding.metadata.name ?? ''}`,
    source: 'MutatingAdmissionPolicy',
    mode: 'protect',
    warns: false,
    isMutating: true,
    isReinvoked: reinvocationPolicy === 'IfNeeded',
    backgroundAudit: false,
  };
}

/** Common to the policies of Kubernetes. */
function nativePolicy(
  { group, version, kind }: ResourceType,
  object: MutatingAdmissionPolicy | ValidatingAdmissionPolicy,
  binding: MutatingAdmissionPolicyBinding | ValidatingAdmissionPolicyBinding,
  rules: Readonly<Record<string, unknown>>,
): Omit<Policy, 'backgroundAudit' | 'id' | 'isMutating' | 'isReinvoked' | 'mode' | 'source' | 'warns'> {
  const { spec = {}, metadata } = object;
  const { annotations = {} } = metadata;
  const { variables, paramKind } = spec;
  const { matchResources, paramRef } = binding.spec ?? {};
  const matchConditions = (spec.matchConditions ?? []).map(({ name, expression }) => ({ name, expression }));
  return {
    origin: { ...originOf(object, false), apiVersion: `${group}/${version}`, kind },
    binding: binding.metadata.name ?? '',
    policyServer: '',
    ignoresFailures: (spec.failurePolicy ?? 'Fail') !== 'Fail',
    isForSystem: false,
    constraints: [
      constraintOf(spec.matchConstraints),
      ...(matchResources === undefined ? [] : [constraintOf(matchResources)]),
    ],
    matchConditions: paramKind === undefined ? matchConditions : [],
    hasSideEffects: false,
    timeoutMs: 10_000,
    message: undefined,
    severity: annotations[severityAnnotation],
    category: annotations[categoryAnnotation],
    isContextAware: paramKind !== undefined,
    program: {
      type: 'expressions',
      settings: {
        variables: variables ?? [],
        ...rules,
        failurePolicy: spec.failurePolicy ?? 'Fail',
        ...(paramKind && { paramKind }),
        ...(paramRef && { paramRef }),
        // Match conditions may use the parameters, so they are evaluated for each of them.
        ...(paramKind && { matchConditions }),
      },
    },
    version: `${versionOf(object)} ${binding.metadata.uid ?? ''} ${binding.metadata.generation ?? 0}`,
  };
}

/** The modules of a program. */
function programsOf(program: PolicyProgram): readonly ModuleProgram[] {
  if (program.type === 'module') return [program];
  return program.type === 'group' ? [...program.members.values()] : [];
}

/** Everything that invalidates results when it changes: neither status nor labels do. */
function versionOf({ metadata }: Pick<AnyKubewardenPolicy, 'metadata'>): string {
  const { uid = '', generation = 0, annotations = {} } = metadata;
  const reported = [severityAnnotation, categoryAnnotation, auditAnnotation].map(
    (name) => annotations[name] ?? '',
  );
  return [uid, generation, ...reported].join(' ');
}

function originOf(
  { apiVersion = '', kind = '', metadata }: PolicyParts,
  isNamespaced: boolean,
): PolicyOrigin {
  const { name = '', namespace = '', uid = '', resourceVersion = '' } = metadata;
  return { apiVersion, kind, name, namespace: isNamespaced ? namespace : undefined, uid, resourceVersion };
}

type PolicyParts = Pick<AnyKubewardenPolicy, 'apiVersion' | 'kind' | 'metadata'>;

function moduleProgram(spec: Pick<SingleSpec, 'module' | 'settings' | 'timeoutEvalSeconds'>): ModuleProgram {
  const { contextAwareResources = [] } = spec as Pick<
    Extract<SingleSpec, { readonly contextAwareResources?: unknown }>,
    'contextAwareResources'
  >;
  return {
    type: 'module',
    module: spec.module,
    settings: spec.settings ?? {},
    contextAware: contextAwareResources,
    deadlineMs: spec.timeoutEvalSeconds === undefined ? undefined : spec.timeoutEvalSeconds * 1000,
  };
}

function groupProgram(spec: GroupSpec): PolicyProgram {
  const members = Object.entries(spec.policies).map(
    ([name, member]) => [name, moduleProgram(member)] as const,
  );
  return { type: 'group', expression: spec.expression, message: spec.message, members: new Map(members) };
}

function ruleOf({ apiGroups, apiVersions, operations, resources, scope }: Rules[number]): PolicyRule {
  // In webhooks, an empty list of groups matches nothing; a policy that omits the groups means the core group.
  const groups = apiGroups ?? [''];
  return { groups, versions: apiVersions, operations, resources, scope: scope ?? '*', names: [] };
}

type MatchResources = NonNullable<NonNullable<ValidatingAdmissionPolicyBinding['spec']>['matchResources']>;

/** Without rules, everything matches: a binding need not repeat the rules of its policy. */
function constraintOf(match: MatchResources = {}): Constraint {
  const { resourceRules, excludeResourceRules, matchPolicy, namespaceSelector, objectSelector } = match;
  const everything: PolicyRule = {
    groups: ['*'],
    versions: ['*'],
    operations: ['*'],
    resources: ['*/*'],
    scope: '*',
    names: [],
  };
  const rules = (resourceRules ?? []).map(namedRuleOf);
  return {
    rules: rules.length === 0 ? [everything] : rules,
    excluded: (excludeResourceRules ?? []).map(namedRuleOf),
    isExact: matchPolicy === 'Exact',
    namespaceSelector: selectorOf(namespaceSelector),
    objectSelector: selectorOf(objectSelector),
  };
}

function namedRuleOf(rule: NonNullable<MatchResources['resourceRules']>[number]): PolicyRule {
  return {
    groups: rule.apiGroups ?? [],
    versions: rule.apiVersions ?? [],
    operations: rule.operations ?? [],
    resources: rule.resources ?? [],
    scope: rule.scope === 'Cluster' || rule.scope === 'Namespaced' ? rule.scope : '*',
    names: rule.resourceNames ?? [],
  };
}

/** Without a selector, or with an empty one, everything is selected. */
function selectorOf(selector: LabelSelectorObject | undefined | null): Constraint['objectSelector'] {
  if (selector === undefined || selector === null) return undefined;
  const read = labelSelectorOf(selector);
  return read.requirements.length === 0 ? undefined : read;
}
