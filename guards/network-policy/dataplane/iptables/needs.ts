/** What our rules require of iptables and the kernel, tried where it is harmless: in an unreachable chain. */
import { existsSync } from 'node:fs';

import { effectiveCapabilities } from '../../../../lib/ebpf/features/capabilities.ts';
import type { KeptNamespace } from '../namespace.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import type { Family } from '../../engine/rules.ts';
import { hopLimit } from './base.ts';
import { runProgram } from './run-program.ts';
import { Trial } from './trial.ts';
import { type Iptables, iptablesInUse } from './variant.ts';

export interface IptablesNeeds {
  /** Undefined: not installed. */
  readonly iptables: Iptables | undefined;
  /** `7.17`; undefined: not installed. */
  readonly ipset: string | undefined;
  /** Missing programs and kernel modules, each with the reason. Empty: nothing is missing. */
  readonly missing: readonly string[];
  /** Why hop limits cannot be matched, and the consequence: the other rules work without them. Undefined if they can be matched. */
  readonly withoutHopLimit: string | undefined;
}

type Rule = readonly [module: string, rule: Readonly<Record<Family, string>>];

/** Trial rules, each with the kernel module that provides its match or target. */
function rulesWith(set: string): readonly Rule[] {
  return [
    both('xt_comment', '-m comment --comment trial'),
    both('xt_conntrack', '-m conntrack --ctstate RELATED,ESTABLISHED'),
    both('xt_addrtype', '-m addrtype --src-type LOCAL'),
    both('xt_mark', '-m mark --mark 0x10000/0x10000 -j MARK --set-xmark 0x0/0x10000'),
    both('xt_limit', '-m limit --limit 10/min'),
    both('xt_physdev', '-m physdev --physdev-is-bridged'),
    both('xt_tcpudp', '-p tcp -m tcp --dport 80'),
    both('xt_NFLOG', '-j NFLOG --nflog-group 100'),
    [
      'ipt_REJECT',
      {
        4: '-j REJECT --reject-with icmp-port-unreachable',
        6: '-j REJECT --reject-with icmp6-port-unreachable',
      },
    ],
    both('xt_set', `-m set --match-set ${set} src`),
  ];
}

const hopLimitRule: Rule = both('xt_hl', hopLimit(255));

function both(module: string, rule: string): Rule {
  return [module, { 4: rule, 6: rule }];
}

/**
 * iptables 1.8 needs it because `libxt_set` gets the names of sets by getsockopt(2) on a raw socket; legacy
 * iptables does everything through such a socket.
 */
const needsRaw =
  'CAP_NET_RAW: iptables reads the names of sets through a raw socket, and legacy iptables uses one for everything';

/**
 * Tries what our rules require. Leaves nothing behind.
 *
 * @param namespace - The network namespace to try it in.
 * @param used - The network namespace in which to look up which variant of iptables is in use.
 */
export async function examineIptables(
  namespace: KeptNamespace,
  signal?: AbortSignal,
  used: KeptNamespace = namespace,
): Promise<IptablesNeeds> {
  const missing: string[] = [];
  let withoutHopLimit: string | undefined;
  const reported = async <T>(work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof RampartError)) throw error;
      missing.push(error.message);
      return undefined;
    }
  };
  const mayAsk = effectiveCapabilities().includes('CAP_NET_RAW');
  if (!mayAsk) missing.push(needsRaw);
  const iptables = await reported(() => iptablesInUse(used, undefined, signal));
  const ipset = await reported(async () => await ipsetVersion(namespace, signal));
  if (mayAsk && iptables !== undefined && ipset !== undefined) {
    const trial = new Trial(iptables, namespace, signal);
    for (const family of existsSync('/proc/sys/net/ipv6') ? ([4, 6] as const) : ([4] as const)) {
      missing.push(...((await reported(() => missingIn(trial, family))) ?? []));
    }
    if (missing.length === 0 && existsSync('/proc/sys/net/ipv6')) {
      const [module, rule] = hopLimitRule;
      const why = await reported(() => trial.rules(6, [rule[6]]));
      if (why !== undefined)
        withoutHopLimit = `routed packets that look like neighbour discovery pass: ${module}: ${why}`;
    }
  }
  return { iptables, ipset, missing: [...new Set(missing)], withoutHopLimit };
}

async function ipsetVersion(namespace: KeptNamespace, signal: AbortSignal | undefined): Promise<string> {
  // `--version` needs no privilege, and names the kernel's protocol only if the kernel has one.
  const { out } = await runProgram({ program: 'ipset', args: ['--version'], namespace, signal });
  return /v([\d.]+)/.exec(out)?.[1] ?? 'unknown';
}

async function missingIn(trial: Trial, family: Family): Promise<readonly string[]> {
  return await trial.withSet(family, async (set) => {
    const all = rulesWith(set);
    const refused = await trial.rules(
      family,
      all.map(([, rule]) => rule[family]),
    );
    if (refused === undefined) return [];
    // Errors that do not depend on the rule: the lock cannot be opened, or the table is missing.
    const always = await trial.rules(family, []);
    if (always !== undefined) return [always];
    const missing: string[] = [];
    for (const [module, rule] of all) {
      const why = await trial.rules(family, [rule[family]]);
      if (why !== undefined) missing.push(`${module}: ${why}`);
    }
    return missing;
  });
}

/** @throws {RampartError} `UNSUPPORTED` with everything that is missing. */
export function requireIptables({
  iptables,
  missing,
}: Pick<IptablesNeeds, 'iptables' | 'missing'>): Iptables {
  if (iptables !== undefined && missing.length === 0) return iptables;
  throw new RampartError(errorCodes.UNSUPPORTED, {
    what: 'cannot program iptables',
    why: missing.join('; '),
    next: 'Install or load what is missing. In a cluster, the component deploy/network-policy-iptables grants CAP_NET_RAW and the lock',
  });
}
