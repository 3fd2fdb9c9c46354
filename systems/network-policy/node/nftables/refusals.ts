/**
 * What of a policy the kernel does not take: left out, so that it allows nothing and all else holds.
 *
 * @module
 */
import { type NodeRules, type PolicyProblem, type PolicyRules, policyRulesKey } from '../../engine/rules.ts';
import { policyChain } from './names.ts';
import type { Command } from './objects.ts';
import type { PeerNames, Peers } from './peer-sets.ts';
import type { RefusedCommands } from './program.ts';

/** More than that is not a matter of single rules. */
const mostRefusals = 256;

export class Refusals {
  /** By the key of a policy's rules: why, by the place of the rule. */
  readonly #found = new Map<string, Map<number, string>>();

  /** After a while, or when they are different, the kernel may take them. */
  forget(keys: Iterable<string> = [...this.#found.keys()]): void {
    for (const key of keys) this.#found.delete(key);
  }

  problems({ policies }: NodeRules): PolicyProblem[] {
    return [...this.#found].flatMap(([key, rules]) => {
      const of = policies.get(key);
      if (of === undefined) return [];
      return [...rules].map(([index, why]) => ({
        policy: of.policy,
        field: `spec.${of.direction}[${index}]`,
        message: `the kernel rejects this rule, so it allows nothing: ${why}`,
      }));
    });
  }

  /** @returns whether there is something new to leave out: false also where it is no matter of rules of policies */
  learn({ refused }: RefusedCommands, { policies }: NodeRules, names: PeerNames): boolean {
    const byChain = new Map(
      [...policies.values()].map((of) => [policyChain(of.direction, of.policy), of] as const),
    );
    let isNew = false;
    for (const { command, why } of refused) {
      for (const [of, index] of rulesOf(command, byChain, policies, names)) {
        const key = policyRulesKey(of.direction, of.policy);
        const rules = this.#found.get(key) ?? new Map<number, string>();
        if (rules.has(index) || this.#found.size + rules.size > mostRefusals) continue;
        this.#found.set(key, rules.set(index, why));
        isNew = true;
      }
    }
    return isNew;
  }

  /** The rules without what is refused. */
  without(rules: NodeRules): NodeRules {
    if (this.#found.size === 0) return rules;
    const policies = new Map(rules.policies);
    for (const [key, refused] of this.#found) {
      const of = policies.get(key);
      if (of === undefined) continue;
      const taken = of.rules.map((rule) => (refused.has(rule.index) ? { ...rule, clauses: [] } : rule));
      policies.set(key, { ...of, rules: taken });
    }
    return { ...rules, policies };
  }
}

/** The rules that a command is for. None: it is for pods, or all. */
function rulesOf(
  command: Command,
  byChain: ReadonlyMap<string, PolicyRules>,
  policies: NodeRules['policies'],
  names: PeerNames,
): (readonly [PolicyRules, number])[] {
  if (command.do === 'add rule') {
    const of = byChain.get(command.chain);
    const [, index] = /\[(\d+)\]"$/.exec(command.rule) ?? [];
    return of === undefined || index === undefined ? [] : [[of, Number(index)]];
  }
  const set =
    command.do === 'add element' ? command.set.name : command.do === 'add' ? command.object.name : '';
  const [, name = '', chain = '', index, kind] =
    /^((\S+)-(\d+)-\d+)-(pods|blocks|endpoints)-[46]$/.exec(set) ?? [];
  const of = byChain.get(chain);
  if (kind === 'endpoints' && of !== undefined) return [[of, Number(index)]];
  const shared = [...names.names].find(([, each]) => each === name)?.[0];
  return shared === undefined ? [] : rulesWith(shared, policies, names);
}

function rulesWith(
  peers: Peers,
  policies: NodeRules['policies'],
  names: PeerNames,
): (readonly [PolicyRules, number])[] {
  return [...names.users(peers)].flatMap((key) => {
    const of = policies.get(key);
    return (of?.rules ?? []).flatMap(({ index, clauses }) =>
      of !== undefined && clauses.some((clause) => clause.peers === peers) ? [[of, index] as const] : [],
    );
  });
}
