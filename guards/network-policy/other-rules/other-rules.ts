/**
 * Effects of other programs' rules on packets of pods: another enforcer of policies, and chains that drop all
 * packets that they do not accept.
 */
import { isKubeRouterChain, kubeRouterTables } from './kube-router-names.ts';
import type { KeptNamespace } from '../dataplane/namespace.ts';
import { type KernelChain, type KernelChains, readChains } from './other-chains.ts';

export interface DroppingChain {
  readonly family: string;
  readonly hook: string;
  /** Whether the chain certainly drops all new connections, since no rule in it lets any pass. */
  readonly isCertain: boolean;
  /** The variant of iptables that made the chain: in its own tables, packets that Rampart's rules accept do not reach the chain. */
  readonly iptables: 'nft' | 'legacy' | undefined;
  readonly words: string;
}

export interface OtherRules {
  /** A sentence for each enforcer. */
  readonly enforcers: readonly string[];
  readonly dropping: readonly DroppingChain[];
  /** Parts that could not be read, and why. */
  readonly unread: readonly string[];
}

export const noOtherRules: OtherRules = { enforcers: [], dropping: [], unread: [] };

/** How to recognize the rules of programs that enforce policies: by their tables or chains. Cilium and Antrea do not use netfilter. */
const enforcers: readonly (readonly [name: string, is: (chain: KernelChain) => boolean])[] = [
  [
    'kube-router',
    ({ family, table, name }) => kubeRouterTables.includes(`${family} ${table}`) || isKubeRouterChain(name),
  ],
  ['Calico', ({ table, name }) => table === 'calico' || /^cali-(?:FORWARD|fw-|tw-)/.test(name)],
  ['kube-network-policies', ({ table }) => /^(?:kindnet|kube)-network-policies$/.test(table)],
];

/** In the order in which a forwarded packet passes them. Packets that a bridge forwards pass them too. */
const hooksOfForwarded: readonly string[] = ['prerouting', 'forward', 'postrouting'];
const hooks: readonly string[] = [...hooksOfForwarded, 'input', 'output'];

export async function readOtherRules(namespace: KeptNamespace, signal?: AbortSignal): Promise<OtherRules> {
  return otherRules(await readChains(namespace, signal));
}

export function otherRules({ chains, unread }: KernelChains): OtherRules {
  return {
    unread,
    enforcers: enforcers.flatMap(([name, is]) => {
      const places = new Set(chains.filter(is).map(placeOf));
      if (places.size === 0) return [];
      const next =
        name === 'kube-router' ? '; once it has ended, `rampart network takeover` removes them' : '';
      return [
        `${name} has rules in ${[...places].join(', ')}, which may refuse what the policies allow${next}`,
      ];
    }),
    dropping: chains.flatMap((chain) => {
      const { base, family } = chain;
      if (base === undefined || base.policy !== 'drop' || !hooks.includes(base.hook)) return [];
      const isCertain = !base.mayAccept && family !== 'bridge';
      const iptables =
        chain.by !== 'nft' ? chain.by : /^ip6? filter$/.test(`${family} ${chain.table}`) ? 'nft' : undefined;
      const what = isCertain
        ? 'drops every new connection'
        : 'drops what its rules do not accept, and these are not evaluated';
      const words = `chain ${chain.name} in ${placeOf(chain)} (hook ${base.hook}, priority ${base.priority}) ${what}`;
      return [{ family, hook: base.hook, isCertain, iptables, words }];
    }),
  };
}

function placeOf({ by, family, table }: KernelChain): string {
  if (by === 'nft') return `table ${family} ${table}`;
  const program = family === 'ip6' ? 'ip6tables' : 'iptables';
  return `table ${table} of ${program}-${by}`;
}

/** The dropping chains that a packet passes. */
export function droppingOf(
  { dropping }: OtherRules,
  { family, way }: { readonly family: 4 | 6; readonly way: 'through' | 'to node' | 'from node' },
): readonly DroppingChain[] {
  const seen = {
    through: hooksOfForwarded,
    'to node': ['prerouting', 'input'],
    'from node': ['output', 'postrouting'],
  };
  const families = ['inet', 'bridge', family === 4 ? 'ip' : 'ip6'];
  return dropping.filter((chain) => families.includes(chain.family) && seen[way].includes(chain.hook));
}
