/**
 * A packet, and what the rules that are in the kernel do with it: the same words for every dataplane.
 *
 * @module
 */
import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';
import type { IpAddress } from '../engine/addresses.ts';
import type { Direction } from '../engine/rules.ts';

/** The first one of a connection. */
export interface KernelPacket {
  readonly source: IpAddress;
  readonly destination: IpAddress;
  /** IANA's number. */
  readonly protocol: number;
  /** Of the destination. */
  readonly port: number | undefined;
  /** The source is an address of the node itself. */
  readonly fromNode: boolean;
}

export interface KernelDecision {
  readonly verdict: 'allowed' | 'refused';
  /** Whether the address is that of a pod that the kernel knows. */
  readonly isKnown: boolean;
  /** The chains that it came through. */
  readonly chains: readonly string[];
}

/** Rules that are in a kernel. */
export interface KernelRuleset {
  /** `nftables`, `iptables (nft)`, `iptables (legacy)` */
  readonly backend: string;
  /** @throws {RampartError} `UNSUPPORTED` for a rule that it does not know: it never guesses. */
  decide(direction: Direction, packet: KernelPacket): KernelDecision;
}

/** More than any packet goes through, and few enough for the stack; a loop is refused by the kernel itself. */
export const MOST_CHAINS = 1024;

export function unknownRule(rule: string): RampartError {
  return new RampartError(errorCodes.UNSUPPORTED, {
    what: 'cannot tell what the rules in the kernel do',
    why: `it has a rule that Rampart did not make: ${rule}`,
    next: 'A running agent repairs this within a minute',
  });
}
