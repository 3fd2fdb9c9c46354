/**
 * Rules of nftables as data: the statements that this dataplane uses, and no others. rule-text.ts prints and reads them in nft's
 * language, encode-rule.ts encodes them for the kernel.
 */
import type { AddressRange, Family } from '../../engine/rules.ts';
import { protocolNumbers } from '../kernel-packet.ts';

/** Keyed by nft's names. */
export const transports = {
  tcp: protocolNumbers.TCP,
  udp: protocolNumbers.UDP,
  sctp: protocolNumbers.SCTP,
} as const;
export type Transport = keyof typeof transports;

/** The numbers of RFC 3810 and RFC 4861, keyed by nft's names. */
export const icmpv6Types = {
  'mld-listener-query': 130,
  'mld-listener-report': 131,
  'mld-listener-done': 132,
  'nd-router-solicit': 133,
  'nd-router-advert': 134,
  'nd-neighbor-solicit': 135,
  'nd-neighbor-advert': 136,
  'mld2-listener-report': 143,
} as const;

export type Side = 'saddr' | 'daddr';
/** `original source` is the source of the connection's first packet, `reply source` that of the packets that answer it. */
export type PairedAddress = 'destination' | 'original source' | 'reply source';
export type ConnectionState = 'established' | 'related' | 'invalid';

export type MappedObject = 'counter' | 'limit';

export type Verdict =
  | { readonly kind: 'accept' | 'drop' | 'return' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string };

interface AddressOf {
  readonly family: Family;
  readonly side: Side;
}

export type Match =
  | ({ readonly kind: 'address'; readonly range: AddressRange } & AddressOf)
  | ({ readonly kind: 'address in set'; readonly set: string } & AddressOf)
  /** The packet's destination: address, protocol and port. */
  | { readonly kind: 'endpoint in set'; readonly family: Family; readonly set: string }
  /** Whether the address on that side belongs to the node: `is` is the required answer. */
  | { readonly kind: 'local address'; readonly side: Side; readonly is: boolean }
  | { readonly kind: 'protocol'; readonly protocol: number }
  | {
      readonly kind: 'destination port';
      readonly protocol: Transport;
      readonly first: number;
      readonly last: number;
    }
  | {
      readonly kind: 'icmpv6 type';
      readonly family: 6;
      readonly types: readonly (keyof typeof icmpv6Types)[];
    }
  /** In the IPv6 header: how many routers may still forward the packet. */
  | { readonly kind: 'hop limit'; readonly family: 6; readonly hops: number }
  | { readonly kind: 'connection state'; readonly states: readonly ConnectionState[] }
  /** The packet's source, paired with another address of the packet or of its connection. */
  | {
      readonly kind: 'pair in set';
      readonly family: Family;
      readonly other: PairedAddress;
      readonly set: string;
    }
  /** The destination of the connection was translated, as that of a Service is. */
  | { readonly kind: 'translated destination' }
  /** The packet came from a port of a bridge, or from the bridge itself. */
  | { readonly kind: 'from a bridge' };

export type Statement =
  | Match
  /** Matches up to `perMinute` packets a minute, after a burst. */
  | { readonly kind: 'limit'; readonly perMinute: number; readonly burst: number }
  | { readonly kind: 'log'; readonly prefix: string; readonly group: number }
  | { readonly kind: 'counter'; readonly name: string }
  | { readonly kind: 'reject'; readonly with: 'tcp reset' | 'icmp error' }
  /** The verdict that the map has for the address. */
  | ({ readonly kind: 'verdict map'; readonly map: string } & AddressOf)
  /** The counter or limit that the map has for the address. Without one, the rule ends. */
  | ({ readonly kind: 'object map'; readonly object: MappedObject; readonly map: string } & AddressOf)
  | Verdict
  | Listed;

/** Nft's text, uninterpreted: for comparison and output. It has no encoding. */
export interface Listed {
  readonly kind: 'listed';
  readonly text: string;
}

export interface Rule {
  /** In this order; the first match that fails ends the rule. */
  readonly statements: readonly Statement[];
  readonly comment?: string | undefined;
}

/** A chain that the kernel calls at a hook. Its policy is to accept. */
export interface BaseChain {
  readonly hook: 'forward' | 'input' | 'output';
  readonly priority: number;
}

export const accept: Verdict = { kind: 'accept' };

export function rule(...statements: readonly Statement[]): Rule {
  return { statements };
}
