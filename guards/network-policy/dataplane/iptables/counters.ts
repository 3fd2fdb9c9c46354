/** How many packets the rules have refused, or would have refused without monitor mode. */
import type { Direction, PodKey } from '../../engine/rules.ts';
import type { Refused } from '../dataplane.ts';
import { countNote } from './names.ts';

/** Matches a rule that refuses packets, or one that counts packets which would be refused and does not log them. */
const counting = new RegExp(
  String.raw`^\[(\d+):(\d+)\] -A (\S+) (-s|-d) (?:.* -j REJECT |\S+ (${countNote}) (?!.* -j NFLOG ))`,
  'gm',
);

/**
 * Counts the refused packets of each chain's owner.
 *
 * @param listings - Output of `iptables-save -c`.
 * @param ownerOf - Returns the owner of a chain; undefined if the chain is not ours.
 */
export function refusedCounts(
  listings: readonly string[],
  ownerOf: (chain: string) => { readonly pod: PodKey | undefined } | undefined,
): Refused[] {
  const sums = new Map<string, { -readonly [Key in keyof Refused]: Refused[Key] }>();
  for (const listing of listings) {
    for (const [, packets, bytes, chain = '', side, note] of listing.matchAll(counting)) {
      const owner = ownerOf(chain);
      if (owner === undefined) continue;
      const direction: Direction = side === '-d' ? 'ingress' : 'egress';
      const verdict = note === undefined ? 'refused' : 'would-refuse';
      const key = `${direction} ${verdict} ${owner.pod ?? ''}`;
      const sum = sums.get(key) ?? { pod: owner.pod, direction, verdict, packets: 0, bytes: 0 };
      sum.packets += Number(packets);
      sum.bytes += Number(bytes);
      sums.set(key, sum);
    }
  }
  return [...sums.values()];
}
