/**
 * Rules that check the sources of a pod's packets, in nft's language: for a chain that sees all packets from the
 * pod's interface before anything else does.
 *
 * A pod that a policy isolates may send with its own addresses only. Any other pod may also send with addresses
 * that no pod and no node has: a virtual address, or those behind a gateway or of a virtual machine.
 */
import { addressValue } from '../../engine/addresses.ts';
import type { Address, ByFamily } from '../../engine/rules.ts';
import type { Tunnels } from '../../../../lib/netlink/tunnels.ts';
import type { PodInterface } from './pod-interfaces.ts';

export interface CheckedPod {
  readonly link: PodInterface;
  /** The pod's addresses, including the link-local ones of its interface. */
  readonly addresses: ByFamily<readonly Address[]>;
  /** Tunnels of the pod's node. */
  readonly tunnels: Tunnels;
  readonly isIsolated: boolean;
}

/** Sets of the addresses that have an owner, and of the MAC addresses of this node's pods. */
export const takenSets = {
  4: { name: 'taken-4', type: 'ipv4_addr' },
  6: { name: 'taken-6', type: 'ipv6_addr' },
  mac: { name: 'taken-mac', type: 'ether_addr' },
} as const;

/**
 * Messages without a source address: for duplicate address detection, before an address is in use (RFC 4862), and
 * to join its multicast groups (RFC 3810).
 */
const fromUnspecified =
  'icmpv6 type { mld-listener-report, nd-router-solicit, nd-neighbor-solicit, mld2-listener-report }';

/** Packets that rules about addresses can match. On a bridge, packets of any other type reach other pods past all these rules. */
const ipTypes = '{ ip, ip6, arp }';
/**
 * VLAN tags hide the packet behind them from br_netfilter (net.bridge.bridge-nf-filter-vlan-tagged): one of VLAN 0
 * only gives a priority, so the packet is delivered like one without a tag, and a bridge may remove the tag of its
 * own VLAN. Of two tags, the kernel removes the second only after this table (net/core/dev.c,
 * __netif_receive_skb_core).
 */
const vlanTypes = '{ 8021q, 8021ad }';

/** @param refuse - The chain for packets that the pod may not send. */
export function sourceRules({ link, addresses, tunnels, isIsolated }: CheckedPod, refuse: string): string[] {
  const { index, mac, isBridged } = link;
  const no = `goto ${refuse}`;
  /** Refuses sources that the pod may not use; all of them if the pod is isolated and has no address of the family. */
  const other = (field: string, own: readonly string[], taken: keyof typeof takenSets): string => {
    const notOwn = own.length === 0 ? '' : `${field} != { ${own.join(', ')} } `;
    if (!isIsolated) return `${notOwn}${field} @${takenSets[taken].name} ${no}`;
    return notOwn === '' ? `${field} ${taken === 6 ? '::/0' : '0.0.0.0/0'} ${no}` : `${notOwn}${no}`;
  };
  return [
    // A chain of nftables may outlive its interface, and then sees the packets of a later interface with the same name (Linux 6.16).
    `iif != ${index} accept comment "${commentOf(link)}"`,
    `ether type ${isIsolated ? `!= ${ipTypes}` : vlanTypes} ${no}`,
    ...(isBridged ? [other('ether saddr', [mac], 'mac')] : []),
    ...(isBridged && isIsolated ? [`arp saddr ether != ${mac} ${no}`] : []),
    // A probe for an address that is not in use yet has no source address (RFC 5227).
    other('arp saddr ip', isIsolated ? [...addresses[4], '0.0.0.0'] : addresses[4], 4),
    other('ip saddr', addresses[4], 4),
    // A packet inside a tunnel has whatever source its sender wrote, and may come from any node.
    ...(tunnels.protocols.length === 0 ? [] : [`meta l4proto { ${tunnels.protocols.join(', ')} } ${no}`]),
    ...(tunnels.udpPorts.length === 0 ? [] : [`udp dport { ${tunnels.udpPorts.join(', ')} } ${no}`]),
    // A router advertisement would give pods on the bridge addresses that no policy knows, and a router that sees their traffic.
    `icmpv6 type { nd-router-advert, nd-redirect } ${no}`,
    ...(isIsolated
      ? [
          `icmpv6 type nd-neighbor-advert ${addresses[6].map((own) => `@th,64,128 != ${hexOf(own)} `).join('')}${no}`,
          `ip6 saddr :: ${fromUnspecified} accept`,
        ]
      : []),
    other('ip6 saddr', addresses[6], 6),
  ];
}

/** A comment may have 127 bytes. */
const longestComment = 127;

/**
 * The comment that describes the interface for the next process: its index, its MAC address, and as many link-local addresses as fit.
 */
function commentOf({ index, mac, linkLocal }: PodInterface): string {
  let text = `${index} ${mac}`;
  for (const address of linkLocal) {
    if (text.length + 1 + address.length > longestComment) break;
    text += ` ${address}`;
  }
  return text;
}

/**
 * The address in hexadecimal, for a raw payload match (`@th,64,128`): nft 1.0.6 has no keyword for the target address of a neighbor
 * advertisement.
 */
function hexOf(address: Address): string {
  return `0x${addressValue(address).toString(16)}`;
}
