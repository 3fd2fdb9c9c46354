/** The rules that all pods share: the jumps into our chains, the ends of these chains, and the default. */
import { isLinkLocal } from '../../engine/addresses.ts';
import type { Direction, Family, NodeRules, RefusalVerdict } from '../../engine/rules.ts';
import type { DataplaneOptions } from '../dataplane.ts';
import { blockMatch, blocksOf, coversAll } from './blocks.ts';
import type { IpSet } from './ipset.ts';
import {
  allowedMark,
  builtinChains,
  comment,
  commonChain,
  compliesMark,
  countNote,
  defaultPolicyChain,
  idOf,
  logPrefix,
  setName,
  topChains,
  trackingChain,
  unknownPodsChain,
} from './names.ts';
import { type FamilyRules, type IptablesRules, noFamilyRules, type Top } from './rules.ts';

export const errors = { 4: 'icmp', 6: 'ipv6-icmp' } as const;
export const established = '-m conntrack --ctstate RELATED,ESTABLISHED';
const notFromNode = '-m addrtype ! --src-type LOCAL';
/** Which address of a packet, source or destination, is checked in which chain. */
const sides = { INPUT: ['-s'], FORWARD: ['-s', '-d'], OUTPUT: ['-d'] } as const;

export interface BaseOptions extends DataplaneOptions {
  /** False if iptables or this kernel lacks the match `hl`. Default: true. */
  readonly matchesHopLimit?: boolean;
}

/** Required hop limits of ICMPv6 messages, keyed by type (RFC 4861 and RFC 3810). */
const hopsOfLink = { 130: 1, 131: 1, 132: 1, 133: 255, 134: 255, 135: 255, 136: 255, 143: 1 } as const;

/**
 * IPv6 depends on neighbour discovery and on multicast listener discovery, whose packets belong to no connection. Both
 * never leave their link, which the hop limit proves: a routed packet has less than 255 (RFC 4861, 7.1), and one with 1
 * is not routed (RFC 3810, 5). ICMP errors need no rule here: they are RELATED to the connection that they are about.
 */
function ofLink({ matchesHopLimit = true }: BaseOptions): string[] {
  return Object.entries(hopsOfLink).map(
    ([type, hops]) =>
      `-p ipv6-icmp -m icmp6 --icmpv6-type ${type} ${matchesHopLimit ? `${hopLimit(hops)} ` : ''}-j ACCEPT`,
  );
}

export function hopLimit(hops: number): string {
  return `-m hl --hl-eq ${hops}`;
}

/**
 * The rules with which the chains of all pods begin, in a chain of their own: the fewer rules there are for each pod,
 * the faster iptables and the kernel apply changes.
 */
function common(family: Family, options: BaseOptions): string[] {
  const note = comment('rule for stateful firewall for pod');
  return [
    `${note} -m conntrack --ctstate ESTABLISHED -j ACCEPT`,
    `! -p ${errors[family]} ${note} -m conntrack --ctstate RELATED -j ACCEPT`,
    ...(family === 4 ? [] : ofLink(options)),
  ];
}

export function compileBase(rules: NodeRules, options: BaseOptions): IptablesRules {
  const sets = options.unknownPods === 'allow' ? [] : ([4, 6] as const).map((each) => knownPods(rules, each));
  return {
    families: { 4: baseOf(rules, 4, options), 6: baseOf(rules, 6, options) },
    sets: new Map(sets.map((set) => [set.name, set])),
  };
}

/** A rule that only makes the kernel track connections (net/netfilter/xt_conntrack.c, conntrack_mt_check). */
export function trackingRules(isTaken: (family: Family) => boolean): IptablesRules {
  const of = (family: Family): FamilyRules => ({
    ...noFamilyRules,
    // If kube-router filters this family, its own rules make the kernel track connections.
    chains: new Map(isTaken(family) ? [] : [[trackingChain, [`${established} -j RETURN`]]]),
  });
  return { families: { 4: of(4), 6: of(6) }, sets: new Map() };
}

function baseOf(rules: NodeRules, family: Family, options: BaseOptions): FamilyRules {
  const blocks = blocksOf(family, rules.podCidrs[family]).map((block) => blockMatch(family, block));
  const denied = options.unknownPods === 'deny' ? blocks : [];
  const monitored = options.unknownPods === 'monitor' ? blocks : [];
  // With a hook for each block, a packet between two unknown pods would pass two hooks and be reported twice, so blocks
  // are not used in monitor mode.
  const isNarrow = monitored.length === 0 && isCovered(rules, family);
  const narrow = isNarrow ? [...blocks, ...linkLocalBlocks(rules, family)] : [];
  return {
    hooks: new Map(builtinChains.map((name) => [name, hooks(name, narrow)])),
    tops: new Map(
      builtinChains.map((name): [typeof top, Top] => {
        const top = topChains[name];
        const unknown = monitoredUnknown(name, family, monitored, options);
        return [top, { pods: [], tail: [...unknown, ...tail(name, family, denied)] }];
      }),
    ),
    chains: new Map([
      [unknownPodsChain, unknownPods(family, denied, options)],
      [defaultPolicyChain, [`-j MARK --set-xmark ${allowedMark}/${allowedMark}`]],
      [commonChain, common(family, options)],
    ]),
  };
}

/**
 * Whether the node's blocks contain the addresses of all its pods, so that hooks for the blocks suffice: network
 * plugins need not take addresses from the blocks.
 */
function isCovered(rules: NodeRules, family: Family): boolean {
  const ranges = rules.podCidrs[family];
  if (ranges.length === 0) return false;
  return coversAll(
    ranges,
    [...rules.pods.values()].flatMap(({ addresses }) => addresses[family].filter((one) => !isLinkLocal(one))),
  );
}

function linkLocalBlocks({ pods }: NodeRules, family: Family): string[] {
  return [...pods.values()].some(({ addresses }) => addresses[family].some(isLinkLocal)) ? ['fe80::/10'] : [];
}

function hooks(name: keyof typeof topChains, blocks: readonly string[]): string[] {
  // A node can always reach its own pods. This does not apply to FORWARD, where a source address of the node is forged.
  const target = name === 'OUTPUT' ? `${notFromNode} -j ${topChains[name]}` : `-j ${topChains[name]}`;
  if (blocks.length === 0) return [`${comment('kube-router netpol')} ${target}`];
  return sides[name].flatMap((side) =>
    blocks.map((block) => {
      const id = idOf(name, side, block);
      return `${side} ${block} ${comment(`kube-router netpol - ${id}`)} ${target}`;
    }),
  );
}

function tail(name: keyof typeof topChains, family: Family, denied: readonly string[]): string[] {
  return [
    // These rules precede the one that accepts packets that comply: a packet of an unknown pod can only comply with the
    // policies of the pod at its other end.
    ...sides[name].flatMap((side) =>
      denied.map(
        (block) =>
          `${side} ${block} ${comment('rule to apply default pod firewall to addresses of no known pod')} ${ofNoPod(side, family)} -j ${unknownPodsChain}`,
      ),
    ),
    `${comment('rule to explicitly ACCEPT traffic that comply to network policies')} -m mark --mark ${compliesMark}/${compliesMark} -j ACCEPT`,
    `${comment('rule to apply default pod firewall')} -j ${unknownPodsChain}`,
  ];
}

/**
 * Reports packets of unknown pods in monitor mode. These rules are not in the chain of unknown pods, which a packet may
 * pass twice, so each packet is reported once for each direction.
 */
function monitoredUnknown(
  name: keyof typeof topChains,
  family: Family,
  blocks: readonly string[],
  { logGroups }: DataplaneOptions,
): string[] {
  return sides[name].flatMap((side) =>
    blocks.flatMap((block) => {
      const direction = side === '-s' ? 'egress' : 'ingress';
      // NEW leaves out packets of known connections, and neighbour discovery, which is untracked
      // (net/netfilter/nf_conntrack_proto_icmpv6.c).
      const who = `${side} ${block} ${countNote} ${ofNoPod(side, family)} -m conntrack --ctstate NEW`;
      return [
        ...nflog(logGroups, who, 'would-refuse', unknownPodsChain, direction),
        // The target chain is empty, so this rule only counts.
        `${who} -j ${unknownPodsChain}`,
      ];
    }),
  );
}

function knownName(family: Family): string {
  return setName('DST', family, idOf('known pods', String(family)));
}

function knownPods(rules: NodeRules, family: Family): IpSet {
  const addresses = [...rules.pods.values()].flatMap(({ addresses: all }) => all[family]);
  return { name: knownName(family), type: 'hash:ip', family, members: new Set(addresses) };
}

function ofNoPod(side: '-s' | '-d', family: Family): string {
  const [word, type] = side === '-s' ? ['src', '--src-type'] : ['dst', '--dst-type'];
  // The block may contain the node's own address.
  return `-m set ! --match-set ${knownName(family)} ${word} -m addrtype ! ${type} LOCAL`;
}

function unknownPods(family: Family, denied: readonly string[], { logGroups }: DataplaneOptions): string[] {
  if (denied.length === 0) return [];
  const refusals = (side: '-s' | '-d', direction: Direction): string[] =>
    denied.flatMap((block) => {
      const who = `${side} ${block} ${ofNoPod(side, family)}`;
      return [
        ...nflog(logGroups, who, 'refused', unknownPodsChain, direction),
        ...rejects(family, `${side} ${block}`, ofNoPod(side, family)),
      ];
    });
  return [
    `${established} -j ACCEPT`,
    ...(family === 4 ? [] : [`-p ${errors[family]} -j ${commonChain}`]),
    ...refusals('-s', 'egress'),
    ...refusals('-d', 'ingress'),
  ];
}

/** One rule for each group. */
export function nflog(
  groups: readonly number[],
  matches: string,
  ...of: readonly [
    verdict: RefusalVerdict,
    chain: string,
    direction: Direction,
    pod?: string,
    policies?: readonly string[],
  ]
): string[] {
  const log = `${matches} -m limit --limit 10/min --limit-burst 10 -j NFLOG --nflog-prefix "${logPrefix(...of)}" --nflog-group`;
  return groups.map((group) => `${log} ${group}`);
}

/**
 * Over IPv6, connect(2) reports an ICMP error only after a second, so TCP gets a reset. An exception are packets with a
 * translated destination that are forwarded within a bridge: there, a reset bypasses conntrack
 * (net/ipv6/netfilter/nf_reject_ipv6.c, nf_send_reset6), so it would come from the pod and not from the Service.
 */
export function rejects(family: Family, ends: string, matches: string): string[] {
  if (family === 4) return [`${ends} ${matches} -j REJECT --reject-with icmp-port-unreachable`];
  return [
    `${ends} -p tcp ${matches} -m conntrack --ctstate DNAT -m physdev --physdev-is-bridged -j REJECT --reject-with icmp6-port-unreachable`,
    `${ends} -p tcp ${matches} -j REJECT --reject-with tcp-reset`,
    `${ends} ${matches} -j REJECT --reject-with icmp6-port-unreachable`,
  ];
}
