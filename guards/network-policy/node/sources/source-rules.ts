/**
 * The permitted sources of a pod, in the language of nftables: the rules of a chain that sees all packets
 * from its interface before anything else does.
 *
 * A pod that a policy isolates sends with its own addresses only. Any other pod may also send with addresses
 * that no pod and no node has: a virtual address, those behind a gateway or of a virtual machine.
 */
import { addressValue } from '../../engine/addresses.ts';
import type { Address, ByFamily } from '../../engine/rules.ts';
import type { Tunnels } from '../../../../lib/netlink/tunnels.ts';
import type { PodInterface } from './pod-interfaces.ts';

export interface CheckedPod {
  readonly link: PodInterface;
  /** With the link-local ones of its interface. */
  readonly addresses: ByFamily<readonly Address[]>;
  /** Tunnels of its node. */
  readonly tunnels: Tunnels;
  readonly isIsolated: boolean;
}

/** Sets with the addresses that have an owner, and the MAC addresses of this node's pods. */
export const takenSets = {
  4: { name: 'taken-4', type: 'ipv4_addr' },
  6: { name: 'taken-6', type: 'ipv6_addr' },
  mac: { name: 'taken-mac', type: 'ether_addr' },
} as const;

/** Duplicate address detection, before an address is in use (RFC 4862), and joining its multicast groups (RFC 3810). */
const fromUnspecified =
  'icmpv6 type { mld-listener-report, nd-router-solicit, nd-neighbor-solicit, mld2-listener-report }';

/** Packets that rules of addresses see; any other type reaches others on a bridge past all of them. */
const ipTypes = '{ ip, ip6, arp }';
/**
 * A tag of VLAN 0 is a priority: its packet is delivered like one without a tag, but goes past br_netfilter
 * (net.bridge.bridge-nf-filter-vlan-tagged), as does one of the VLAN that a bridge takes off. Of two tags, the kernel takes off the second only
 * behind this table (net/core/dev.c, __netif_receive_skb_core).
 */
const vlanTypes = '{ 8021q, 8021ad }';

/** @param refuse - The chain for what the pod may not send. */
export function sourceRules({ link, addresses, tunnels, isIsolated }: CheckedPod, refuse: string): string[] {
  const { index, mac, isBridged } = link;
  const no = `goto ${refuse}`;
  /** Nothing of a family that it has no address of. */
  const other = (field: string, own: readonly string[], taken: keyof typeof takenSets): string => {
    const notOwn = own.length === 0 ? '' : `${field} != { ${own.join(', ')} } `;
    if (!isIsolated) return `${notOwn}${field} @${takenSets[taken].name} ${no}`;
    return notOwn === '' ? `${field} ${taken === 6 ? '::/0' : '0.0.0.0/0'} ${no}` : `${notOwn}${no}`;
  };
  return [
    // A chain of nftables may outlive its interface, and then sees another one of the same name (Linux 6.16).
    `iif != ${index} accept comment "${commentOf(link)}"`,
    `ether type ${isIsolated ? `!= ${ipTypes}` : vlanTypes} ${no}`,
    ...(isBridged ? [other('ether saddr', [mac], 'mac')] : []),
    ...(isBridged && isIsolated ? [`arp saddr ether != ${mac} ${no}`] : []),
    // A probe for an address, before it is in use, has none as its source (RFC 5227).
    other('arp saddr ip', isIsolated ? [...addresses[4], '0.0.0.0'] : addresses[4], 4),
    other('ip saddr', addresses[4], 4),
    // A packet from a tunnel has the source that the sender of the tunnel's packet wrote there, on any node.
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

/** For the next process: as many of the addresses as fit. */
function commentOf({ index, mac, linkLocal }: PodInterface): string {
  let text = `${index} ${mac}`;
  for (const address of linkLocal) {
    if (text.length + 1 + address.length > longestComment) break;
    text += ` ${address}`;
  }
  return text;
}

/** nft 1.0.6 has no field for the target of an advertisement. */
function hexOf(address: Address): string {
  return `0x${addressValue(address).toString(16)}`;
}
