/**
 * A connection as reported by the kernel (nf_conntrack, by ctnetlink):
 * include/uapi/linux/netfilter/nfnetlink_conntrack.h.
 */
import { attributesOf } from '../../../../lib/netlink/message.ts';
import { addressText } from '../../engine/addresses.ts';
import type { Address } from '../../engine/rules.ts';

export const familyNumbers = { 4: 2, 6: 10 } as const;
export const flowAttributes = {
  ORIGINAL: 1,
  REPLY: 2,
  STATUS: 3,
  PROTOCOL_INFO: 4,
  ID: 12,
  ZONE: 18,
} as const;
const protocolInfoAttributes = { TCP: 1, TCP_STATE: 1 } as const;
/** TCP_CONNTRACK_TIME_WAIT and TCP_CONNTRACK_CLOSE. */
const overStates: ReadonlySet<number> = new Set([7, 8]);
const tupleAttributes = { IP: 1, PROTOCOL: 2 } as const;
const ipAttributes = { SOURCE_4: 1, DESTINATION_4: 2, SOURCE_6: 3, DESTINATION_6: 4 } as const;
const protocolAttributes = { NUMBER: 1, SOURCE_PORT: 2, DESTINATION_PORT: 3 } as const;
/** IPS_EXPECTED: the connection belongs to another one, like the data connection of FTP. */
const STATUS_EXPECTED = 1;
/** struct nfgenmsg, before the attributes. */
export const NFGEN_BYTES = 4;

/** One direction of a connection. */
interface FlowTuple {
  readonly source: bigint;
  readonly destination: bigint;
  /** 0 if the protocol has none. */
  readonly sourcePort: number;
  readonly destinationPort: number;
}

export interface Flow {
  readonly family: 4 | 6;
  /** IANA's number. */
  readonly protocol: number;
  /** The ends in the first packet, before any translation. */
  readonly original: FlowTuple;
  /** The ends in an answer, before it is translated back: its source is the real destination of the connection. */
  readonly reply: FlowTuple;
  /** Whether the connection belongs to another one, and was allowed because of that one. */
  readonly isExpected: boolean;
  /** For TCP: both ends have closed it, and the kernel only remembers it for a while. */
  readonly isOver: boolean;
}

/** A flow as the rules see it: the address of a Service is already replaced by that of its pod, and the source is not yet masqueraded. */
export interface SeenFlow {
  readonly from: Address;
  readonly fromPort: number;
  readonly to: Address;
  readonly port: number;
}

export function seenFlow({ family, original, reply }: Flow): SeenFlow {
  return {
    from: addressText(family, original.source),
    fromPort: original.sourcePort,
    to: addressText(family, reply.source),
    port: reply.sourcePort,
  };
}

/**
 * Parses the connection in a message. `undefined` if it is neither IPv4 nor IPv6.
 *
 * @param body - The message after its header.
 */
export function readFlow(
  body: Buffer,
): { readonly flow: Flow; readonly attributes: ReadonlyMap<number, Buffer> } | undefined {
  const general = body.at(0);
  const family = general === familyNumbers[4] ? 4 : general === familyNumbers[6] ? 6 : undefined;
  if (family === undefined) return undefined;
  const attributes = attributesOf(body.subarray(NFGEN_BYTES));
  const original = tupleOf(attributes.get(flowAttributes.ORIGINAL));
  const reply = tupleOf(attributes.get(flowAttributes.REPLY));
  if (original === undefined || reply === undefined) return undefined;
  const status = attributes.get(flowAttributes.STATUS)?.readUInt32BE(0) ?? 0;
  const flow = {
    family,
    protocol: original.protocol,
    original: original.tuple,
    reply: reply.tuple,
    isExpected: (status & STATUS_EXPECTED) !== 0,
    isOver: overStates.has(tcpState(attributes.get(flowAttributes.PROTOCOL_INFO)) ?? 0),
  } as const;
  return { flow, attributes };
}

const nothing = Buffer.alloc(0);

function tcpState(info: Buffer | undefined): number | undefined {
  if (info === undefined) return undefined;
  const tcp = attributesOf(info).get(protocolInfoAttributes.TCP);
  return tcp && attributesOf(tcp).get(protocolInfoAttributes.TCP_STATE)?.at(0);
}

function tupleOf(
  bytes: Buffer | undefined,
): { readonly tuple: FlowTuple; readonly protocol: number } | undefined {
  if (bytes === undefined) return undefined;
  const attributes = attributesOf(bytes);
  const ip = attributesOf(attributes.get(tupleAttributes.IP) ?? nothing);
  const protocol = attributesOf(attributes.get(tupleAttributes.PROTOCOL) ?? nothing);
  const source = ip.get(ipAttributes.SOURCE_4) ?? ip.get(ipAttributes.SOURCE_6);
  const destination = ip.get(ipAttributes.DESTINATION_4) ?? ip.get(ipAttributes.DESTINATION_6);
  const number = protocol.get(protocolAttributes.NUMBER)?.at(0);
  if (source === undefined || destination === undefined || number === undefined) return undefined;
  return {
    protocol: number,
    tuple: {
      source: addressOf(source),
      destination: addressOf(destination),
      sourcePort: protocol.get(protocolAttributes.SOURCE_PORT)?.readUInt16BE(0) ?? 0,
      destinationPort: protocol.get(protocolAttributes.DESTINATION_PORT)?.readUInt16BE(0) ?? 0,
    },
  };
}

function addressOf(bytes: Buffer): bigint {
  if (bytes.length === 4) return BigInt(bytes.readUInt32BE(0));
  return (bytes.readBigUInt64BE(0) << 64n) | bytes.readBigUInt64BE(8);
}
