/**
 * Whether this guard may have left rules in the kernel. A process without the guard checks this at each start, so
 * no program is started for it.
 */
import { readFileSync } from 'node:fs';

import { attributesOf } from '../../../lib/netlink/message.ts';
import { NETLINK_NETFILTER, NetlinkSocket } from '../../../lib/netlink/socket.ts';
import { bareTableName } from '../dataplane/nftables/names.ts';

/** include/uapi/linux/netfilter/nf_tables.h: NFNL_SUBSYS_NFTABLES << 8, and NFT_MSG_GETTABLE. */
const GET_TABLE = 0xa01;
const TABLE_NAME = 1;
const NFGEN_BYTES = 4;
/** The table of iptables-nft, in `ip` and `ip6`. */
const filter = 'filter';
/** Tables of legacy iptables. */
const legacyNames = ['/proc/net/ip_tables_names', '/proc/net/ip6_tables_names'];

/**
 * Checks the network namespace of the calling thread. Also true if another program has a table that could contain
 * our rules.
 *
 * @throws {RampartError} `PRIVILEGE` without CAP_NET_ADMIN; `SystemCallError` if the kernel has no nf_tables.
 */
export function mayHaveRules(): boolean {
  return (
    tableNames().some((name) => name === filter || name.startsWith(bareTableName)) ||
    legacyNames.some(hasFilter)
  );
}

function tableNames(): string[] {
  using socket = new NetlinkSocket({ protocol: NETLINK_NETFILTER });
  const names: string[] = [];
  const any = Buffer.alloc(NFGEN_BYTES);
  for (const messages of socket.dump('cannot list the tables of nftables', GET_TABLE, [any])) {
    for (const { body } of messages) {
      const name = attributesOf(body.subarray(NFGEN_BYTES)).get(TABLE_NAME);
      if (name !== undefined) names.push(name.toString('latin1').replace(/\0.*$/s, ''));
    }
  }
  return names;
}

function hasFilter(path: string): boolean {
  try {
    return readFileSync(path, 'latin1').split('\n').includes(filter);
  } catch {
    // The module is not loaded, so there are no rules.
    return false;
  }
}
