/** A parsed policy: with defaults filled in, and what cannot be expressed removed and reported. */
import { labelSelectorOf, type LabelSelector } from '../../../lib/kube/selectors/selectors.ts';
import {
  type EgressRuleObject,
  type IngressRuleObject,
  objectKey,
  type PolicyObject,
  type PolicySpec,
} from './objects.ts';
import { misreadMonitor, monitorModeOf, type PolicyMode } from './monitor.ts';
import { isNobody, parsePeers, type Peers } from './parsed-peers.ts';
import { parsePorts, type Ports } from './parsed-ports.ts';
import { parseSelector, type Refuse, type Warn } from './parsed-selector.ts';
import type { Direction, PolicyKey, PolicyProblem, PolicyWarning } from './rules.ts';

export interface ParsedRule extends Ports {
  readonly index: number;
  readonly peers: 'everyone' | Peers;
}

export interface ParsedPolicy {
  readonly key: PolicyKey;
  readonly namespace: string;
  /** The policy's own mode: its Namespace and the node may be in monitor mode too. */
  readonly mode: PolicyMode;
  /** Which pods of its namespace the policy selects. */
  readonly targets: LabelSelector;
  /** Undefined if the policy does not isolate in this direction. */
  readonly ingress: readonly ParsedRule[] | undefined;
  readonly egress: readonly ParsedRule[] | undefined;
  readonly problems: readonly PolicyProblem[];
  readonly warnings: readonly PolicyWarning[];
}

/** Whether clauses of the rule refer to its peers. With named ports for egress they do not: these are endpoints with addresses. */
export function namesPeers({ peers, ports, names }: ParsedRule, direction: Direction): boolean {
  if (peers === 'everyone' || isNobody(peers)) return false;
  return ports === 'any' || ports.length > 0 || (direction === 'ingress' && names.length > 0);
}

/** Never throws: what cannot be expressed allows nothing and is reported in the problems. */
export function parsePolicy(policy: PolicyObject): ParsedPolicy {
  const key = objectKey(policy);
  const namespace = policy.metadata.namespace ?? '';
  const problems: PolicyProblem[] = [];
  const warnings: PolicyWarning[] = [];
  const refuse: Refuse = (field, message) => problems.push({ policy: key, field, message });
  const warn: Warn = (field, message) => warnings.push({ policy: key, field, message });
  const misread = misreadMonitor(policy.metadata);
  if (misread !== undefined) warn('metadata.annotations', misread);
  const spec = policy.spec ?? {};
  const targets = parseSelector(spec.podSelector ?? {}, 'spec.podSelector', refuse, targetsUnknown);
  const directions = directionsOf(spec, refuse);
  const rulesOf = (direction: Direction): ParsedRule[] | undefined => {
    if (!directions.has(direction)) return undefined;
    const rules = parseRules(spec, direction, namespace, refuse, warn);
    return targets === undefined ? [] : rules;
  };
  return {
    key,
    namespace,
    mode: monitorModeOf(policy.metadata),
    targets: targets ?? labelSelectorOf({}),
    ingress: rulesOf('ingress'),
    egress: rulesOf('egress'),
    problems,
    warnings,
  };
}

const targetsUnknown = 'the policy isolates every pod of its namespace, and its rules allow nothing';

function directionsOf(spec: PolicySpec, refuse: Refuse): ReadonlySet<Direction> {
  const named = new Set<Direction>();
  for (const [index, type] of (spec.policyTypes ?? []).entries()) {
    if (type === 'Ingress') named.add('ingress');
    else if (type === 'Egress') named.add('egress');
    else refuse(`spec.policyTypes[${index}]`, `${JSON.stringify(type)} is not a policy type and is ignored.`);
  }
  if (named.size > 0) return named;
  return new Set((spec.egress ?? []).length > 0 ? ['ingress', 'egress'] : ['ingress']);
}

function parseRules(
  spec: PolicySpec,
  direction: Direction,
  namespace: string,
  refuse: Refuse,
  warn: Warn,
): ParsedRule[] {
  const side = direction === 'ingress' ? 'from' : 'to';
  const rules: readonly (IngressRuleObject & EgressRuleObject)[] = spec[direction] ?? [];
  return rules.map((rule, index) => {
    const path = `spec.${direction}[${index}]`;
    return {
      index,
      peers: parsePeers(rule[side] ?? [], namespace, `${path}.${side}`, refuse, warn),
      ...parsePorts(rule.ports ?? [], `${path}.ports`, refuse),
    };
  });
}
