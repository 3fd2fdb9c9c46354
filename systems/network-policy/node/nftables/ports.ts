/**
 * Ports as nft matches and lists them.
 *
 * @module
 */
import type { PortRange, Protocol } from '../../engine/rules.ts';

export const protocolNumbers = { TCP: 6, UDP: 17, SCTP: 132 } as const satisfies Record<Protocol, number>;
const matchNames = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const satisfies Record<Protocol, string>;
const lastPort = 65_535;

/** A match for each protocol; one that is empty matches all. None: nothing is allowed. */
export function portMatches(ports: 'any' | readonly PortRange[]): string[] {
  if (ports === 'any') return [''];
  const protocols = [...new Set(ports.map(({ protocol }) => protocol))].sort();
  return protocols.map((protocol) => {
    const merged = mergedPorts(ports.filter((range) => range.protocol === protocol));
    const texts = merged.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`));
    if (merged[0]?.first === 0 && merged[0].last === lastPort) return `meta l4proto ${protocolNumbers[protocol]}`;
    return `${matchNames[protocol]} dport ${texts.length === 1 ? texts[0] : `{ ${texts.join(', ')} }`}`;
  });
}

/** Ranges that overlap or touch are one: nft refuses the first and lists the second so. */
function mergedPorts(ports: readonly PortRange[]): { first: number; last: number }[] {
  const merged: { first: number; last: number }[] = [];
  for (const { first, last } of [...ports].sort((a, b) => a.first - b.first)) {
    const before = merged.at(-1);
    if (before !== undefined && first <= before.last + 1) before.last = Math.max(before.last, last);
    else merged.push({ first, last });
  }
  return merged;
}
