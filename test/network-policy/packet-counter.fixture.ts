/**
 * Counts arriving packets of a host, behind all of its rules, by nft matches: also those that no socket
 * receives.
 */
import { Nftables } from '../../guards/network-policy/dataplane/nftables/nftables.ts';
import type { Host } from './listeners.fixture.ts';

export class PacketCounter implements Disposable {
  readonly #nft: Nftables;

  /** @param matches - By the name of a counter. Counted packets go no further. */
  constructor({ namespace }: Host, matches: Readonly<Record<string, string>>) {
    this.#nft = namespace.run(() => new Nftables());
    this.#nft.run(
      [
        'add table inet seen',
        'add chain inet seen input { type filter hook input priority 300; policy accept; }',
        ...Object.entries(matches).flatMap(([name, match]) => [
          `add counter inet seen ${name}`,
          `add rule inet seen input ${match} counter name ${name} drop`,
        ]),
      ].join('\n'),
    );
  }

  count(name: string): number {
    const listing = this.#nft.list(`list counter inet seen ${name}`);
    return Number(/packets (\d+)/.exec(listing)?.[1]);
  }

  [Symbol.dispose](): void {
    this.#nft.run('delete table inet seen');
    this.#nft[Symbol.dispose]();
  }
}
