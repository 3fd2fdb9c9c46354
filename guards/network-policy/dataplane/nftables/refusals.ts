/** The parts of a policy that the kernel rejects: left out, so that they allow nothing and everything else applies. */
import {
  type NodeRules,
  type PeersKey,
  type PolicyProblem,
  type PolicyRules,
  policyRulesKey,
  type RulesChange,
} from '../../engine/rules.ts';
import { peersName, policyChain } from './names.ts';
import type { Command } from './objects.ts';
import type { RefusedCommands } from './program.ts';

/** With this many refusals, single rules are not the cause: nothing more is left out. */
const maxRefusals = 256;

export class Refusals {
  /** Why rules are rejected: keyed by the key of a policy's rules, then by the index of the rule. */
  readonly #rules = new Map<string, Map<number, string>>();
  /** Why the kernel rejects these peers: all rules with them are left out. */
  readonly #peers = new Map<PeersKey, string>();

  /** Forgets all rejections, or those of changed policies and peers: the kernel may accept them now. */
  forget(change?: Pick<RulesChange, 'policies' | 'peers'>): void {
    for (const key of change?.policies ?? [...this.#rules.keys()]) this.#rules.delete(key);
    for (const key of (change?.peers ?? this.#peers).keys()) this.#peers.delete(key);
  }

  problems({ policies }: NodeRules): PolicyProblem[] {
    if (this.#isEmpty) return [];
    return [...policies].flatMap(([key, { policy, direction, rules }]) =>
      rules.flatMap((rule) => {
        const why = this.#why(key, rule);
        const message = `the kernel rejects this rule, so it allows nothing: ${why}`;
        return why === undefined ? [] : [{ policy, field: `spec.${direction}[${rule.index}]`, message }];
      }),
    );
  }

  /** @returns whether there is something new to leave out: also false if policy rules are not the cause */
  learn({ refused }: RefusedCommands, { policies, peers }: NodeRules): boolean {
    const byChain = new Map(
      [...policies.values()].map((of) => [policyChain(of.direction, of.policy), of] as const),
    );
    const byName = new Map([...peers.keys()].map((key) => [peersName(key), key] as const));
    let isNew = false;
    for (const { command, why } of refused) {
      if (this.#rules.size + this.#peers.size > maxRefusals) break;
      const shared = byName.get(/^(peers-[^-]+)-/.exec(setOf(command))?.[1] ?? '');
      if (shared !== undefined) {
        isNew ||= !this.#peers.has(shared);
        this.#peers.set(shared, why);
      }
      const found = ruleOf(command, byChain);
      if (found === undefined) continue;
      const key = policyRulesKey(found.of.direction, found.of.policy);
      const rules = this.#rules.get(key) ?? new Map<number, string>();
      isNew ||= !rules.has(found.index);
      this.#rules.set(key, rules.set(found.index, why));
    }
    return isNew;
  }

  /** The rules without those that the kernel rejects. */
  without(rules: NodeRules): NodeRules {
    if (this.#isEmpty) return rules;
    const policies = new Map(
      [...rules.policies].map(([key, of]) => {
        if (of.rules.every((rule) => this.#why(key, rule) === undefined)) return [key, of];
        const taken = of.rules.map((rule) =>
          this.#why(key, rule) === undefined ? rule : { ...rule, clauses: [] },
        );
        return [key, { ...of, rules: taken }];
      }),
    );
    const peers = new Map([...rules.peers].filter(([key]) => !this.#peers.has(key)));
    return { ...rules, policies, peers };
  }

  get #isEmpty(): boolean {
    return this.#rules.size + this.#peers.size === 0;
  }

  #why(key: string, { index, clauses }: PolicyRules['rules'][number]): string | undefined {
    const why = this.#rules.get(key)?.get(index);
    if (why !== undefined || this.#peers.size === 0) return why;
    return clauses
      .map(({ peers }) => (peers === 'everyone' ? undefined : this.#peers.get(peers)))
      .find((one) => one !== undefined);
  }
}

function setOf(command: Command): string {
  if (command.do === 'add element') return command.set.name;
  return command.do === 'add' ? command.object.name : '';
}

/** The policy rule that a command is for; undefined if the command is for peers, for pods, or for everything. */
function ruleOf(
  command: Command,
  byChain: ReadonlyMap<string, PolicyRules>,
): { readonly of: PolicyRules; readonly index: number } | undefined {
  const [, chain, index] =
    command.do === 'add rule'
      ? [undefined, command.chain, /\[(\d+)\]$/.exec(command.rule.comment ?? '')?.[1]]
      : (/^(\S+)-(\d+)-\d+-endpoints-[46]$/.exec(setOf(command)) ?? []);
  const of = byChain.get(chain ?? '');
  return of === undefined || index === undefined ? undefined : { of, index: Number(index) };
}
