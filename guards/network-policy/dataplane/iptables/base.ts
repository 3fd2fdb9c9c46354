/** The rules shared by all pods: the jumps into our chains, their ends, and the default. */
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
/** Which end of a packet is checked in which chain. */
const sides = { INPUT: ['-s'], FORWARD: ['-s', '-d'], OUTPUT: ['-d'] } as const;

export interface BaseOptions extends DataplaneOptions {
  /** False: iptables or this kernel lacks the match `hl`. */
  readonly matchesHopLimit?: boolean;
}

/** Required hop limits of ICMPv6 messages, keyed by type (RFC 4861 and RFC 3810). */
const hopsOfLink = { 130: 1, 131: 1, 132: 1, 133: 255, 134: 255, 135: 255, 136: 255, 143: 1 } as const;

/**
 * IPv6 depends on neighbour discovery and on listener discovery for multicast, and they belong to no
 * connection. Both stay on their link, which the hop limit shows: a routed packet has less than 255 (RFC
 * 4861, 7.1), and one with 1 is not routed (RFC 3810, 5). ICMP errors belong to a connection: an error is
 * RELATED to the one that it is about.
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
 * The common beginning of the chains of all pods: the more rules it has, the longer iptables and the kernel
 * take for each change.
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

/**
 * A rule that makes the kernel track connections (net/netfilter/xt_conntrack.c, conntrack_mt_check), and does
 * nothing else.
 */
export function trackingRules(isTaken: (family: Family) => boolean): IptablesRules {
  const of = (family: Family): FamilyRules => ({
    ...noFamilyRules,
    // Where kube-router filters, its own rules already make the kernel track connections.
    chains: new Map(isTaken(family) ? [] : [[trackingChain, [`${established} -j RETURN`]]]),
  });
  return { families: { 4: of(4), 6: of(6) }, sets: new Map() };
}

function baseOf(rules: NodeRules, family: Family, options: BaseOptions): FamilyRules {
  const blocks = blocksOf(family, rules.podCidrs[family]).map((block) => blockMatch(family, block));
  const denied = options.unknownPods === 'deny' ? blocks : [];
  const monitored = options.unknownPods === 'monitor' ? blocks : [];
  // A packet of two unknown pods would pass both of its hooks, and be reported twice.
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

/** The node's blocks may stand for all its pods only if all have an address in them: network plugins need not use them. */
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
  // A node always reaches its own pods. Not in FORWARD: there, a source address of the node is forged.
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
    // Before compliant packets are accepted: they comply only as far as the other end is concerned.
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

/** Here and not in the chain of unknown pods, which a packet may pass twice: each packet is reported once for each direction. */
function monitoredUnknown(
  name: keyof typeof topChains,
  family: Family,
  blocks: readonly string[],
  { logGroups }: DataplaneOptions,
): string[] {
  return sides[name].flatMap((side) =>
    blocks.flatMap((block) => {
      const direction = side === '-s' ? 'egress' : 'ingress';
      // NEW leaves out packets of known connections, and neighbour discovery, which is not tracked (net/netfilter/nf_conntrack_proto_icmpv6.c).
      const who = `${side} ${block} ${countNote} ${ofNoPod(side, family)} -m conntrack --ctstate NEW`;
      return [
        ...nflog(logGroups, who, 'would-refuse', unknownPodsChain, direction),
        // That chain is empty: the rule only counts.
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
  // The node's own address may be in the block.
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

/** A rule for each group. */
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
 * Over IPv6, connect(2) reports an ICMP error only after a second: TCP gets a reset. Not within a bridge for a translated destination: there a
 * reset goes past conntrack (net/ipv6/netfilter/nf_reject_ipv6.c, nf_send_reset6), and its source would be the pod, not the Service.
 */
export function rejects(family: Family, ends: string, matches: string): string[] {
  if (family === 4) return [`${ends} ${matches} -j REJECT --reject-with icmp-port-unreachable`];
  return [
    `${ends} -p tcp ${matches} -m conntrack --ctstate DNAT -m physdev --physdev-is-bridged -j REJECT --reject-with icmp6-port-unreachable`,
    `${ends} -p tcp ${matches} -j REJECT --reject-with tcp-reset`,
    `${ends} ${matches} -j REJECT --reject-with icmp6-port-unreachable`,
  ];
}
