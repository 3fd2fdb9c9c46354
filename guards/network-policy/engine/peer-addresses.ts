/** The addresses of the peers of rules: those of pods, which come and go, and those of blocks. */
import { covers, firstIndex, rangesOf } from './address-sets.ts';
import type { IpAddress } from './addresses.ts';
import { equal } from './equal.ts';
import { NetChanges } from './net-changes.ts';
import type { Peers as ParsedPeers } from './parsed-peers.ts';
import type { PodFacts } from './pod-table.ts';
import type { Address, AddressSet, ByFamily, Family, Peers, PeersChange, PodKey } from './rules.ts';

/** From this many changes on, it is cheaper to sort everything again. */
const MANY = 64;

const none: readonly IpAddress[] = [];

export class PeerAddresses {
  readonly #intervals: ParsedPeers['blocks'];
  readonly #blocks: ByFamily<AddressSet>;
  readonly #members = new Map<PodKey, readonly IpAddress[]>();
  /** Changes since {@link value} was last called. */
  readonly #pending = new NetChanges<IpAddress>();
  #value: Peers | undefined;
  /** Changes since {@link takeChange} was last called; undefined before the first call. */
  #unreported: NetChanges<IpAddress> | undefined;

  constructor({ blocks }: ParsedPeers) {
    this.#intervals = blocks;
    this.#blocks = { 4: rangesOf(4, blocks[4]), 6: rangesOf(6, blocks[6]) };
  }

  /**
   * @param selected - Whether one of the peers selects the pod.
   * @returns whether the addresses have changed
   */
  set(pod: PodFacts, selected: boolean): boolean {
    const before = this.#members.get(pod.key) ?? none;
    // An address in a block is a peer's address whatever happens to the pod.
    const after = selected ? this.#outsideOfBlocks(pod.addresses) : none;
    if (equal(before, after)) return false;
    if (after.length === 0) this.#members.delete(pod.key);
    else this.#members.set(pod.key, after);
    if (this.#value !== undefined) note(this.#pending, before, after);
    if (this.#unreported !== undefined) note(this.#unreported, before, after);
    return true;
  }

  /** Whether there are neither pods nor blocks. */
  get isEmpty(): boolean {
    return this.#members.size + this.#blocks[4].length + this.#blocks[6].length === 0;
  }

  value(): Peers {
    if (this.#value !== undefined && this.#pending.size === 0) return this.#value;
    const few = this.#pending.size < MANY;
    const { gone, come } = this.#pending.take();
    let pods: Record<Family, readonly Address[]>;
    if (this.#value === undefined || !few) {
      const { 4: four, 6: six } = textsOf([...this.#members.values()].flat());
      pods = { 4: four.toSorted(), 6: six.toSorted() };
    } else {
      pods = { ...this.#value.pods };
      for (const { family, text } of gone)
        pods[family] = pods[family].toSpliced(placeOf(pods[family], text), 1);
      for (const { family, text } of come)
        pods[family] = pods[family].toSpliced(placeOf(pods[family], text), 0, text);
    }
    this.#value = { pods, blocks: this.#blocks };
    return this.#value;
  }

  /** The changes since the last call; undefined on the first call. */
  takeChange(): PeersChange | undefined {
    const unreported = this.#unreported;
    this.#unreported ??= new NetChanges();
    if (unreported === undefined) return undefined;
    const changes = unreported.take();
    const [gone, come] = [textsOf(changes.gone), textsOf(changes.come)];
    return { 4: { gone: gone[4], come: come[4] }, 6: { gone: gone[6], come: come[6] } };
  }

  #outsideOfBlocks(addresses: readonly IpAddress[]): readonly IpAddress[] {
    const blocks = this.#intervals;
    if (blocks[4].length === 0 && blocks[6].length === 0) return addresses;
    const isCovered = ({ family, value }: IpAddress): boolean => covers(blocks[family], value);
    // Usually no address is in a block: then the pod's own list is returned, and no copy is held.
    return addresses.some(isCovered) ? addresses.filter((address) => !isCovered(address)) : addresses;
  }
}

function note(
  changes: NetChanges<IpAddress>,
  before: readonly IpAddress[],
  after: readonly IpAddress[],
): void {
  for (const address of before) changes.went(address.text, address);
  for (const address of after) changes.came(address.text, address);
}

function textsOf(addresses: readonly IpAddress[]): ByFamily<Address[]> {
  const texts: ByFamily<Address[]> = { 4: [], 6: [] };
  for (const { family, text } of addresses) texts[family].push(text);
  return texts;
}

/** The index where the address is, or where it would have to be inserted. */
function placeOf(sorted: readonly Address[], one: Address): number {
  return firstIndex(sorted.length, (at) => (sorted[at] as Address) >= one);
}
