/**
 * Ends TCP connections so that both of their ends notice, and ensures that they stay ended.
 *
 * A connection that the kernel's conntrack has forgotten may be resumed by a packet in the middle of it
 * (net.netfilter.nf_conntrack_tcp_loose), and if that packet comes from the server, the rules see a connection that the server starts. So
 * packets of exactly these connections are recognized for a while. The first that an end sends becomes a reset for the other end; those after
 * it, such as retransmissions, are answered with a reset.
 * A packet that starts a new connection between the same ends is not one of them.
 */
import { cutTableName } from '../../dataplane/nftables/names.ts';
import { type Nftables } from '../../dataplane/nftables/nftables.ts';
import { isMissing, isRefusal } from '../../dataplane/nftables/table.ts';
import type { SeenFlow } from '../conntrack/flow.ts';

/** How long an idle end may take to send its next packet and be notified. */
const TIMEOUT = '10m';
/** Each flow takes two entries; flows that do not fit are only removed from conntrack. */
const SIZE = 65_536;

const families = [
  { family: 4, type: 'ipv4_addr', ip: 'ip' },
  { family: 6, type: 'ipv6_addr', ip: 'ip6' },
] as const;

/** The commands that create the table, or adopt an existing one; run with the first flow that is cut. */
function tableCommands(): string[] {
  const table = cutTableName;
  return [
    `add table ${table}`,
    ...families.flatMap(({ family, type }) =>
      ['flows', 'told'].map(
        (name) =>
          `add set ${table} ${name}-${family} { type ${type} . ${type} . inet_service . inet_service; flags dynamic,timeout; timeout ${TIMEOUT}; size ${SIZE}; }`,
      ),
    ),
    `add chain ${table} cut`,
    `flush chain ${table} cut`,
    ...families.flatMap(({ family, ip }) => {
      const key = `${ip} saddr . ${ip} daddr . tcp sport . tcp dport`;
      const goesOn = `add rule ${table} cut tcp flags & (syn | rst) == 0 ${key}`;
      const [flows, reported] = [`@flows-${family}`, `@told-${family}`];
      return [
        `add rule ${table} cut tcp flags & syn == syn delete ${flows} { ${key} } delete ${reported} { ${key} }`,
        `${goesOn} ${reported} reject with tcp reset`,
        `${goesOn} ${flows} add ${reported} { ${key} } delete ${flows} { ${key} } tcp flags set rst accept`,
      ];
    }),
    ...['forward', 'input', 'output'].flatMap((hook) => [
      `add chain ${table} ${hook} { type filter hook ${hook} priority -11; policy accept; }`,
      `flush chain ${table} ${hook}`,
      `add rule ${table} ${hook} meta l4proto tcp jump cut`,
    ]),
  ];
}

/** Ends these TCP flows, whichever end sends first. @throws {RampartError} if nft refuses it */
export function refuseFlows(nft: Nftables, flows: readonly SeenFlow[]): void {
  const kept = flows.slice(0, SIZE / 4);
  const elements = families.flatMap(({ family }) => {
    const keys = kept
      .filter(({ to }) => to.includes(':') === (family === 6))
      .flatMap(({ from, fromPort, to, port }) => [
        `${from} . ${to} . ${fromPort} . ${port}`,
        `${to} . ${from} . ${port} . ${fromPort}`,
      ]);
    return keys.length === 0 ? [] : [`add element ${cutTableName} flows-${family} { ${keys.join(', ')} }`];
  });
  nft.run([...tableCommands(), ...elements].join('\n'));
}

/** Removes the table. @returns whether it existed. @throws {RampartError} if nft refuses it */
export function removeCutTable(nft: Nftables): boolean {
  try {
    nft.run(`delete table ${cutTableName}`);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** Removes the table once it is empty. */
export function removeIdleCutTable(nft: Nftables): void {
  let listing: string;
  try {
    listing = nft.list(`list table ${cutTableName}`);
  } catch (error) {
    if (isRefusal(error)) return;
    throw error;
  }
  if (!listing.includes('elements = {')) removeCutTable(nft);
}
