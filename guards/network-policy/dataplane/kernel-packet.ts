/** A packet, and what the rules in the kernel do with it: the same types for every dataplane. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { IpAddress } from '../engine/addresses.ts';
import type { Direction, RefusalVerdict } from '../engine/rules.ts';

/** IANA's protocol numbers. */
export const protocolNumbers = { ICMP: 1, TCP: 6, UDP: 17, ICMPv6: 58, SCTP: 132 } as const;
const protocolNames = new Map<number, string>(
  Object.entries(protocolNumbers).map(([name, number]) => [number, name]),
);

/** Such as `TCP`; for a protocol without a name here, its number. */
export function protocolName(number: number): string {
  return protocolNames.get(number) ?? String(number);
}

/** The first packet of a connection. */
export interface KernelPacket {
  readonly source: IpAddress;
  readonly destination: IpAddress;
  /** One of `protocolNumbers`. */
  readonly protocol: number;
  /** Port of the destination. */
  readonly port: number | undefined;
  /** Whether the source is an address of the node itself. */
  readonly fromNode: boolean;
}

export interface KernelDecision {
  /** `would-refuse`: allowed, and reported as what would be refused without monitor mode. */
  readonly verdict: 'allowed' | RefusalVerdict;
  /** Whether the address is that of a pod that the kernel knows. */
  readonly isKnown: boolean;
  /** The chains that the packet has passed. */
  readonly chains: readonly string[];
}

/** Rules that are in a kernel. */
export interface KernelRuleset {
  /** `nftables`, `iptables (nft)`, `iptables (legacy)` */
  readonly backend: string;
  /** @throws {RampartError} `UNSUPPORTED` for a rule that it does not know: it never guesses. */
  decide(direction: Direction, packet: KernelPacket): KernelDecision;
}

/** More than any packet passes, and few enough for the stack; the kernel itself refuses loops. */
const MAX_CHAINS = 1024;

/** The effect of a rule: `continue` with the next one, or `return` to the calling chain. */
export type RuleVerdict = 'accept' | 'refuse' | 'continue' | 'return';

/**
 * Follows the rules of a chain, one after the other.
 *
 * @param rules - Undefined: there is no such chain.
 * @param chains - Those that the packet has passed: this one is added.
 */
export function followChain<Rule>(
  name: string,
  rules: readonly Rule[] | undefined,
  chains: string[],
  verdictOf: (rule: Rule) => RuleVerdict,
): Exclude<RuleVerdict, 'return'> {
  if (rules === undefined || chains.length >= MAX_CHAINS) throw unknownRule(`chain ${name} is missing`);
  chains.push(name);
  for (const rule of rules) {
    const verdict = verdictOf(rule);
    if (verdict !== 'continue') return verdict === 'return' ? 'continue' : verdict;
  }
  return 'continue';
}

export function unknownRule(rule: string): RampartError {
  return new RampartError(errorCodes.UNSUPPORTED, {
    what: 'cannot tell what the rules in the kernel do',
    why: `there is a rule that Rampart did not create: ${rule}`,
    next: 'A running agent repairs this within a minute',
  });
}
