/** The pods of this node that policies select. */
import {
  type Address,
  type ByFamily,
  directions,
  type NodeRules,
  policyRulesKey,
} from '../../engine/rules.ts';
import { families } from './names.ts';
import { sameLines } from './rules.ts';

export type Targets = ReadonlyMap<string, ByFamily<readonly Address[]>>;

/** For each policy, the addresses of the pods that it selects. Keyed by the key of the policy's rules. */
export function targetsOf(rules: NodeRules): Targets {
  const targets = new Map<string, Record<4 | 6, Address[]>>();
  for (const pod of rules.pods.values()) {
    for (const direction of directions) {
      for (const policy of pod[direction] ?? []) {
        const key = policyRulesKey(direction, policy);
        let own = targets.get(key);
        if (own === undefined) targets.set(key, (own = { 4: [], 6: [] }));
        own[4].push(...pod.addresses[4]);
        own[6].push(...pod.addresses[6]);
      }
    }
  }
  return targets;
}

export function sameTargets(
  a: ByFamily<readonly Address[]> | undefined,
  b: ByFamily<readonly Address[]> | undefined,
): boolean {
  return families.every((family) => sameLines(a?.[family] ?? [], b?.[family] ?? []));
}
