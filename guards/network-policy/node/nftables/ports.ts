/** Ports as matches of rules. */
import type { PortRange } from '../../engine/rules.ts';
import { protocolNumbers } from '../kernel-packet.ts';
import type { Match, Transport } from './rule.ts';

const lastPort = 65_535;

/**
 * A list of matches for each range; an empty list matches everything. None: nothing is allowed. Not one set of ports for each rule: the
 * time that a listing takes grows with the number of sets of ranges (docs/decisions/0011-nftables-by-libnftables.md).
 */
export function portMatches(ports: 'any' | readonly PortRange[]): Match[][] {
  if (ports === 'any') return [[]];
  const protocols = [...new Set(ports.map(({ protocol }) => protocol))].sort();
  return protocols.flatMap((protocol) =>
    mergedPorts(ports.filter((range) => range.protocol === protocol)).map(({ first, last }): Match[] => {
      if (first === 0 && last === lastPort)
        return [{ kind: 'protocol', protocol: protocolNumbers[protocol] }];
      return [{ kind: 'destination port', protocol: protocol.toLowerCase() as Transport, first, last }];
    }),
  );
}

/** Ranges that overlap or touch are merged. */
function mergedPorts(ports: readonly PortRange[]): { first: number; last: number }[] {
  const merged: { first: number; last: number }[] = [];
  for (const { first, last } of [...ports].sort((a, b) => a.first - b.first)) {
    const before = merged.at(-1);
    if (before !== undefined && first <= before.last + 1) before.last = Math.max(before.last, last);
    else merged.push({ first, last });
  }
  return merged;
}
