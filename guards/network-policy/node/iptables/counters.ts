/** How often rules have refused. */
import type { Direction, PodKey } from '../../engine/rules.ts';
import type { Refused } from '../dataplane.ts';

const rejection = /^\[(\d+):(\d+)\] -A (\S+) (-s|-d) .* -j REJECT /gm;

/**
 * @param listings - Of `iptables-save -c`.
 * @param ownerOf - Of a chain; undefined: it is not ours.
 */
export function refusedCounts(
  listings: readonly string[],
  ownerOf: (chain: string) => { readonly pod: PodKey | undefined } | undefined,
): Refused[] {
  const sums = new Map<string, { -readonly [Key in keyof Refused]: Refused[Key] }>();
  for (const listing of listings) {
    for (const [, packets, bytes, chain = '', side] of listing.matchAll(rejection)) {
      const owner = ownerOf(chain);
      if (owner === undefined) continue;
      const direction: Direction = side === '-d' ? 'ingress' : 'egress';
      const key = `${direction} ${owner.pod ?? ''}`;
      const sum = sums.get(key) ?? { pod: owner.pod, direction, verdict: 'refused', packets: 0, bytes: 0 };
      sum.packets += Number(packets);
      sum.bytes += Number(bytes);
      sums.set(key, sum);
    }
  }
  return [...sums.values()];
}
