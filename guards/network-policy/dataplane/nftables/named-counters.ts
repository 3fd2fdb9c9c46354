/**
 * Reads the named counters of a table with nf_tables messages of its own
 * (include/uapi/linux/netfilter/nf_tables.h): to list counters, libnftables reads all sets of the table with their
 * elements.
 */
import {
  attribute,
  attributesOf,
  bytes32,
  messageFlags,
  textBytes,
  textOf,
} from '../../../../lib/netlink/message.ts';
import type { NetlinkSocket } from '../../../../lib/netlink/socket.ts';
import { tableFamilies } from './nftables-batch.ts';

/** NFNL_SUBSYS_NFTABLES << 8, and NFT_MSG_GETOBJ. */
const GET_OBJECT = 0xa13;
const objectAttributes = { TABLE: 1, NAME: 2, TYPE: 3, DATA: 4 } as const;
const counterAttributes = { BYTES: 1, PACKETS: 2 } as const;
/** NFT_OBJECT_COUNTER */
const COUNTER = 1;
const NFGEN_BYTES = 4;
/** A listing is repeated if a table has changed during it. */
const ATTEMPTS = 10;

export interface Count {
  readonly packets: number;
  readonly bytes: number;
}

/**
 * Keyed by name. Empty if the table does not exist.
 *
 * @param socket - A socket of `NETLINK_NETFILTER`.
 * @throws {RampartError} `PRIVILEGE` without CAP_NET_ADMIN; `SYSTEM` if the kernel has no nf_tables.
 */
export function readCounters(
  socket: NetlinkSocket,
  family: keyof typeof tableFamilies,
  table: string,
): Map<string, Count> {
  const request = [
    Buffer.of(tableFamilies[family], 0, 0, 0),
    attribute(objectAttributes.TABLE, textBytes(table)),
    attribute(objectAttributes.TYPE, bytes32(COUNTER)),
  ];
  for (let attempt = 1; ; attempt++) {
    const counters = new Map<string, Count>();
    let isWhole = true;
    for (const messages of socket.dump('cannot read the counters of nftables', GET_OBJECT, request)) {
      for (const { flags, body } of messages) {
        if ((flags & messageFlags.DUMP_INTR) !== 0) isWhole = false;
        const found = attributesOf(body.subarray(NFGEN_BYTES));
        const data = attributesOf(found.get(objectAttributes.DATA) ?? Buffer.alloc(0));
        const numberOf = (type: number): number => Number(data.get(type)?.readBigUInt64BE(0) ?? 0);
        counters.set(textOf(found.get(objectAttributes.NAME)), {
          packets: numberOf(counterAttributes.PACKETS),
          bytes: numberOf(counterAttributes.BYTES),
        });
      }
    }
    if (isWhole || attempt === ATTEMPTS) return counters;
  }
}
