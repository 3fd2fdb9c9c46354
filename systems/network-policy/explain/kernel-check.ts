/**
 * Whether the rules in this machine's kernel say what the policies say.
 *
 * @module
 */
import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';
import { Nftables } from '../../../shared/netlink/nftables.ts';
import { parseAddress } from '../engine/addresses.ts';
import type { Direction } from '../engine/rules.ts';
import { decideInKernel, type KernelPacket } from '../node/nftables/decide.ts';
import { tableName } from '../node/nftables/names.ts';
import type { TableObjects } from '../node/nftables/objects.ts';
import { readTable } from '../node/nftables/table.ts';
import type { ExplainedEnd, ExplainedSide, Explanation } from './explanation.ts';

export interface KernelSide {
  readonly direction: Direction;
  /** `elsewhere`: this kernel does not know the pod, so it has no rules for it. */
  readonly verdict: 'allowed' | 'refused' | 'elsewhere';
  /** Whether that is what the policies say; undefined where the pod is elsewhere. */
  readonly agrees?: boolean;
  /** That the packet came through. */
  readonly chains: readonly string[];
  readonly words: string;
}

export interface KernelCheck {
  readonly backend: 'nftables';
  /** `agrees`: all that is of this machine; `unknown`: neither end is a pod of this machine. */
  readonly result: 'agrees' | 'differs' | 'unknown';
  readonly egress: KernelSide;
  readonly ingress: KernelSide;
}

const protocolNumbers: Readonly<Record<string, number>> = { ICMP: 1, TCP: 6, UDP: 17, ICMPv6: 58, SCTP: 132 };

/**
 * Reads the table of Rampart in the network namespace of this process.
 *
 * @throws {RampartError} `PRIVILEGE` where it may not be read, `UNSUPPORTED` without libnftables and for rules that are not ours.
 */
export function checkKernel(explanation: Explanation): KernelCheck {
  using nft = new Nftables();
  return compareWithKernel(explanation, readTable(nft));
}

/** @param table - undefined: there is none. */
export function compareWithKernel(explanation: Explanation, table: TableObjects | undefined): KernelCheck {
  const { from, to, protocol, port, fromOwnNode } = explanation;
  const [source, destination] = [parseAddress(from.address), parseAddress(to.address)];
  const number = protocolNumbers[protocol];
  if (source === undefined || destination === undefined || number === undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot follow a packet of ${protocol} through the kernel`,
    });
  }
  const packet: KernelPacket = { source, destination, protocol: number, port, fromNode: fromOwnNode };
  const egress = sideOf(table, packet, explanation.egress, from);
  const ingress = sideOf(table, packet, explanation.ingress, to);
  const answers = [egress.agrees, ingress.agrees];
  const result = answers.includes(false) ? 'differs' : answers.includes(true) ? 'agrees' : 'unknown';
  return { backend: 'nftables', result, egress, ingress };
}

function sideOf(
  table: TableObjects | undefined,
  packet: KernelPacket,
  { direction, verdict: said }: ExplainedSide,
  own: ExplainedEnd,
): KernelSide {
  const name = own.pod ?? own.address;
  const expected = said === 'refused' ? 'refused' : 'allowed';
  if (table === undefined) {
    if (expected === 'allowed') {
      const words = `This kernel has no rules of Rampart, so it allows ${direction} of ${name}.`;
      return { direction, verdict: 'allowed', agrees: true, chains: [], words };
    }
    return elsewhere(direction, own, `there is no table ${tableName}`);
  }
  const { verdict, isKnown, chains } = decideInKernel(table, direction, packet);
  if (!isKnown && own.pod !== undefined && verdict !== expected)
    return elsewhere(direction, own, `${own.address} is in no map of the table ${tableName}`);
  if (!isKnown && own.pod !== undefined) return elsewhere(direction, own, 'it has no rules for that pod');
  const agrees = verdict === expected;
  const does = verdict === 'allowed' ? 'allows' : 'refuses';
  const words = agrees
    ? `The kernel ${does} ${direction} of ${name}, as the policies say.`
    : `The kernel ${does} ${direction} of ${name}; the policies say otherwise. The agent of this node may be behind; see rampart status.`;
  return { direction, verdict, agrees, chains, words };
}

function elsewhere(direction: Direction, { pod, address, node }: ExplainedEnd, why: string): KernelSide {
  const where = node === undefined ? 'the node that it runs on' : `node ${node}`;
  const words = `This kernel says nothing of ${direction} of ${pod ?? address}: ${why}. Ask on ${where}.`;
  return { direction, verdict: 'elsewhere', chains: [], words };
}
