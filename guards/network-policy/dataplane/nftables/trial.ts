/** Whether this kernel can do what the table needs. */
import { tableName } from './names.ts';
import { Nftables } from './nftables.ts';

const trialTable = `${tableName}-trial`;

/**
 * Checks whether the kernel accepts rules like ours, in a table that the same transaction removes.
 *
 * @throws {RampartError} for what it rejected.
 */
export function tryNftables(): void {
  using nft = new Nftables();
  nft.run(`add table ${trialTable}
add set ${trialTable} peers { type ipv4_addr . inet_proto . inet_service; }
add map ${trialTable} pods { type ipv6_addr : verdict; }
add map ${trialTable} counters { type ipv6_addr : counter; }
add map ${trialTable} limits { type ipv6_addr : limit; }
add chain ${trialTable} in { type filter hook forward priority -9; policy accept; }
add rule ${trialTable} in ct state established,related accept
add rule ${trialTable} in ip6 daddr vmap @pods
add rule ${trialTable} in ip daddr . meta l4proto . th dport @peers accept
add rule ${trialTable} in fib saddr type local accept
add rule ${trialTable} in counter name ip6 daddr map @counters limit name ip6 daddr map @limits log prefix "trial" group 100
add rule ${trialTable} in meta l4proto 6 reject with tcp reset
add rule ${trialTable} in counter reject
delete table ${trialTable}`);
}
