/** The connections that the kernel tracks (nf_conntrack, by ctnetlink), read and ended in this process. */
import { constants as osConstants } from 'node:os';

import { SystemCallError } from '../../../../lib/ebpf/libc.ts';
import { attribute, attributesOf, nested } from '../../../../lib/netlink/message.ts';
import { NETLINK_NETFILTER, NetlinkSocket } from '../../../../lib/netlink/socket.ts';

/** include/uapi/linux/netfilter/nfnetlink_conntrack.h: NFNL_SUBSYS_CTNETLINK << 8, and the message. */
const GET = 0x101;
const DELETE = 0x102;
const flowAttributes = { ORIGINAL: 1, REPLY: 2, STATUS: 3, PROTOCOL_INFO: 4, ID: 12, ZONE: 18 } as const;
const protocolInfoAttributes = { TCP: 1, TCP_STATE: 1 } as const;
/** TCP_CONNTRACK_TIME_WAIT and TCP_CONNTRACK_CLOSE. */
const overStates: ReadonlySet<number> = new Set([7, 8]);
const tupleAttributes = { IP: 1, PROTOCOL: 2 } as const;
const ipAttributes = { SOURCE_4: 1, DESTINATION_4: 2, SOURCE_6: 3, DESTINATION_6: 4 } as const;
const protocolAttributes = { NUMBER: 1, SOURCE_PORT: 2, DESTINATION_PORT: 3 } as const;
/** IPS_EXPECTED: it belongs to another one, as the data of FTP. */
const STATUS_EXPECTED = 1;
const NFGEN_BYTES = 4;
/** A table of 250,000 flows is some 60 MB of messages. */
const RECEIVE_BYTES = 1024 * 1024;

/** One way of a connection. */
interface FlowTuple {
  readonly source: bigint;
  readonly destination: bigint;
  /** 0 where the protocol has none. */
  readonly sourcePort: number;
  readonly destinationPort: number;
}

export interface Flow {
  readonly family: 4 | 6;
  /** Of IANA. */
  readonly protocol: number;
  /** As its first packet was, before any translation. */
  readonly original: FlowTuple;
  /** As an answer is, before it is translated back: its source is where the connection really leads to. */
  readonly reply: FlowTuple;
  /** It belongs to another one, and was let through for that. */
  readonly isExpected: boolean;
  /** Of TCP: both ends have ended it, and the kernel only remembers it for a while. */
  readonly isOver: boolean;
  /** What the kernel knows it by. */
  readonly handle: Buffer;
}

/** Of the network namespace that the calling thread had when it was opened. Dispose it after use. */
export class Conntrack implements Disposable {
  readonly #socket = new NetlinkSocket({ protocol: NETLINK_NETFILTER, receiveBytes: RECEIVE_BYTES });

  /**
   * All flows, some hundred at a time; between them the caller may let others have their turn, but not {@link delete}.
   *
   * @throws {RampartError} `PRIVILEGE` without CAP_NET_ADMIN; `SystemCallError` where the kernel has no nf_conntrack_netlink.
   */
  *flows(): Generator<readonly Flow[]> {
    const any = Buffer.alloc(NFGEN_BYTES);
    for (const messages of this.#socket.dump('cannot read the connections of the kernel', GET, [any])) {
      yield messages.flatMap(({ body }) => flowOf(body) ?? []);
    }
  }

  /**
   * Forgets a flow: its next packet is looked at as the first one of a connection.
   *
   * @returns whether it was there.
   * @throws as {@link flows}.
   */
  delete({ family, handle }: Flow): boolean {
    try {
      const general = Buffer.of(family === 4 ? AF_INET : AF_INET6, 0, 0, 0);
      this.#socket.request('cannot delete a connection in the kernel', { type: DELETE }, [general, handle]);
      return true;
    } catch (error) {
      if (error instanceof SystemCallError && error.number === osConstants.errno.ENOENT) return false;
      throw error;
    }
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }
}

const AF_INET = 2;
const AF_INET6 = 10;

function flowOf(body: Buffer): Flow | undefined {
  const general = body.at(0);
  const family = general === AF_INET ? 4 : general === AF_INET6 ? 6 : undefined;
  if (family === undefined) return undefined;
  const attributes = attributesOf(body.subarray(NFGEN_BYTES));
  const [originalBytes, replyBytes] = [
    attributes.get(flowAttributes.ORIGINAL),
    attributes.get(flowAttributes.REPLY),
  ];
  if (originalBytes === undefined || replyBytes === undefined) return undefined;
  const [original, reply] = [tupleOf(originalBytes), tupleOf(replyBytes)];
  if (original === undefined || reply === undefined) return undefined;
  const status = attributes.get(flowAttributes.STATUS)?.readUInt32BE(0) ?? 0;
  const zone = attributes.get(flowAttributes.ZONE);
  const id = attributes.get(flowAttributes.ID);
  return {
    family,
    protocol: original.protocol,
    original: original.tuple,
    reply: reply.tuple,
    isExpected: (status & STATUS_EXPECTED) !== 0,
    isOver: overStates.has(tcpState(attributes.get(flowAttributes.PROTOCOL_INFO)) ?? 0),
    // With its id: another connection with the same ends is not meant.
    handle: Buffer.concat([
      nested(flowAttributes.ORIGINAL, originalBytes),
      ...(zone === undefined ? [] : [attribute(flowAttributes.ZONE, zone)]),
      ...(id === undefined ? [] : [attribute(flowAttributes.ID, id)]),
    ]),
  };
}

function tcpState(info: Buffer | undefined): number | undefined {
  if (info === undefined) return undefined;
  const tcp = attributesOf(info).get(protocolInfoAttributes.TCP);
  return tcp && attributesOf(tcp).get(protocolInfoAttributes.TCP_STATE)?.at(0);
}

function tupleOf(bytes: Buffer): { readonly tuple: FlowTuple; readonly protocol: number } | undefined {
  const attributes = attributesOf(bytes);
  const ip = attributesOf(attributes.get(tupleAttributes.IP) ?? Buffer.alloc(0));
  const protocol = attributesOf(attributes.get(tupleAttributes.PROTOCOL) ?? Buffer.alloc(0));
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
