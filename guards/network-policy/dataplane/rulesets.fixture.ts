/** Each dataplane's kernel content for the rules of a node. */
import type { NodeRules } from '../engine/rules.ts';
import { defaultDataplaneOptions } from './dataplane.ts';
import { compileBase } from './iptables/base.ts';
import * as iptables from './iptables/decide.ts';
import { compilePod } from './iptables/pod.ts';
import { compilePolicy } from './iptables/policy.ts';
import { type IptablesRules, merged } from './iptables/rules.ts';
import { targetsOf } from './iptables/targets.ts';
import type { KernelRuleset } from './kernel-packet.ts';
import * as nftables from './nftables/decide.ts';
import type { TableObjects } from './nftables/objects.ts';
import { wholeTable } from './nftables/whole-table.fixture.ts';

export function nftablesRuleset(table: TableObjects): KernelRuleset {
  return { backend: 'nftables', decide: (...packet) => nftables.decideInKernel(table, ...packet) };
}

export function iptablesRuleset(rules: IptablesRules): KernelRuleset {
  return { backend: 'iptables (nft)', decide: (...packet) => iptables.decideInKernel(rules, ...packet) };
}

export function allIptables(rules: NodeRules): IptablesRules {
  return merged([
    compileBase(rules, defaultDataplaneOptions),
    ...[...rules.pods.values()].map((pod) => compilePod(pod, defaultDataplaneOptions)),
    ...[...targetsOf(rules)].map(([key, targets]) =>
      compilePolicy(rules.policies.get(key)!, rules.peers, targets, () => 0),
    ),
  ]);
}

/** By backend. */
export const rulesets: Readonly<Record<string, (rules: NodeRules) => KernelRuleset>> = {
  nftables: (rules) => nftablesRuleset(wholeTable(rules)),
  iptables: (rules) => iptablesRuleset(allIptables(rules)),
};
