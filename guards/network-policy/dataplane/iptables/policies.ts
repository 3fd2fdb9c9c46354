/**
 * Policies as the rules and sets to program: without the parts that the kernel refuses, and with set names that
 * make a change safe (docs/decisions/0013-iptables-in-three-steps.md).
 */
import type { NodeRules } from '../../engine/rules.ts';
import { sameMembers } from './ipset.ts';
import type { KernelRules } from './kernel.ts';
import { families, policyChain } from './names.ts';
import {
  type CompiledPolicy,
  compilePolicy,
  peerSetName,
  type SetKey,
  type Slot,
  targetSet,
} from './policy.ts';
import type { Refusals } from './refusals.ts';
import { type IptablesRules, noRules, sameLines } from './rules.ts';
import type { Targets } from './targets.ts';

export class Policies {
  /** Sets that use the second of their two names. */
  readonly #second = new Set<SetKey>();
  readonly #refusals: Refusals;

  constructor(refusals: Refusals) {
    this.#refusals = refusals;
  }

  /**
   * If both the members and the rules of a policy change, or the members and the pods that it selects, sets with
   * changed members get their other name, so that everything changes with the rules: otherwise a pod that the
   * policy has just selected could briefly be reached by peers that are no longer allowed.
   */
  compile(rules: NodeRules, key: string, targets: Targets, before: IptablesRules): IptablesRules {
    const policy = rules.policies.get(key);
    const addresses = targets.get(key);
    if (policy === undefined || addresses === undefined) {
      this.#refusals.drop(key);
      return noRules;
    }
    const compile = (): CompiledPolicy =>
      this.#refusals.without(
        key,
        policy,
        compilePolicy(policy, rules.peers, addresses, (each) => this.#slot(each)),
      );
    let compiled = compile();
    let isOther = false;
    for (const family of families) {
      const chain = policyChain(policy.direction, policy.policy, family);
      const target = targetSet(policy.direction, policy.policy, family);
      const [lines, linesBefore] = [compiled, before].map((each) => each.families[family].chains.get(chain));
      const [members, membersBefore] = [compiled, before].map(({ sets }) => sets.get(target)?.members);
      if (lines === undefined || linesBefore === undefined) continue;
      if (
        sameLines(lines, linesBefore) &&
        members !== undefined &&
        membersBefore !== undefined &&
        sameMembers(members, membersBefore)
      ) {
        continue;
      }
      for (const [name, set] of compiled.peerSets) {
        const [old, next] = [before.sets.get(name), compiled.sets.get(name)];
        if (old === undefined || next === undefined || old.family !== family) continue;
        if (sameMembers(old.members, next.members)) continue;
        if (!this.#second.delete(set)) this.#second.add(set);
        isOther = true;
      }
    }
    if (isOther) compiled = compile();
    return compiled;
  }

  #slot(key: SetKey): Slot {
    return this.#second.has(key) ? 1 : 0;
  }

  /** Adopts the one of a set's two names that rules match. */
  adopt(rules: NodeRules, { used }: KernelRules): void {
    this.#second.clear();
    const targets = { 4: ['0.0.0.0'], 6: ['::'] };
    for (const policy of rules.policies.values()) {
      for (const [, key] of compilePolicy(policy, rules.peers, targets, () => 0).peerSets) {
        const family = key.endsWith(' 6') ? 6 : 4;
        if (used.has(peerSetName(key, family, 1)) && !used.has(peerSetName(key, family, 0))) {
          this.#second.add(key);
        }
      }
    }
  }
}
