/**
 * The rules of a policy as a dataplane takes them.
 *
 * @module
 */
import type { ParsedPolicy } from './parsed-policy.ts';
import { podEndpoints } from './peer-endpoints.ts';
import type { PolicyViews, RuleViews } from './peer-views.ts';
import type { PodFacts } from './pod-table.ts';
import type { Clause, Direction, PolicyRules } from './rules.ts';

/**
 * @param targets - The pods of this node that the policy is for.
 * @returns undefined where the policy does not isolate in this direction
 */
export function compileRules(
  policy: ParsedPolicy,
  direction: Direction,
  views: PolicyViews,
  targets: readonly PodFacts[],
): PolicyRules | undefined {
  const rules = views[direction]?.map((rule) => ({
    index: rule.rule.index,
    clauses: clausesOf(rule, targets),
  }));
  return rules === undefined ? undefined : { policy: policy.key, direction, rules };
}

/** Clauses stay where their peers or endpoints are gone for now, so that those who come are not a new rule. */
function clausesOf({ rule, addresses, endpoints }: RuleViews, targets: readonly PodFacts[]): Clause[] {
  const { ports, names } = rule;
  if (rule.peers !== 'everyone' && isNobody(rule.peers)) return [];
  const peers = addresses?.value() ?? 'everyone';
  const clauses: Clause[] = ports === 'any' || ports.length > 0 ? [{ peers, ports }] : [];
  if (endpoints !== undefined) clauses.push({ peers: 'everyone', endpoints: endpoints.value() });
  else if (names.length > 0) clauses.push({ peers, endpoints: podEndpoints(targets, names) });
  return clauses;
}

function isNobody({ scopes, blocks }: Exclude<RuleViews['rule']['peers'], 'everyone'>): boolean {
  return scopes.length === 0 && blocks[4].length === 0 && blocks[6].length === 0;
}
