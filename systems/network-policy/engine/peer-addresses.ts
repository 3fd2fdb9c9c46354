/**
 * The addresses of the peers of rules: of pods that come and go, and blocks.
 *
 * @module
 */
import { covers, setOf, withAddress, withoutAddress } from './address-sets.ts';
import type { IpAddress } from './addresses.ts';
import { equal } from './equal.ts';
import { NetChanges } from './net-changes.ts';
import type { Peers } from './parsed-peers.ts';
import type { PodFacts } from './pod-table.ts';
import type { AddressSet, ByFamily, Family, PodKey } from './rules.ts';

/** From this many changes on it is cheaper to sort all again. */
const MANY = 64;

export class PeerAddresses {
  readonly #peers: Peers;
  readonly #members = new Map<PodKey, readonly IpAddress[]>();
  readonly #pending = new NetChanges<IpAddress>();
  #value: ByFamily<AddressSet> | undefined;

  constructor(peers: Peers) {
    this.#peers = peers;
  }

  /**
   * @param selected - One of the peers selects it.
   * @returns whether the addresses are others now
   */
  set(pod: PodFacts, selected: boolean): boolean {
    const before = this.#members.get(pod.key) ?? [];
    // What is in a block is there whatever becomes of the pod.
    const after = selected ? this.#outsideOfBlocks(pod.addresses) : [];
    if (equal(before, after)) return false;
    if (after.length === 0) this.#members.delete(pod.key);
    else this.#members.set(pod.key, after);
    if (this.#value === undefined) return true;
    for (const address of before) this.#pending.went(address.text, address);
    for (const address of after) this.#pending.came(address.text, address);
    return true;
  }

  value(): ByFamily<AddressSet> {
    if (this.#value !== undefined && this.#pending.size === 0) return this.#value;
    const few = this.#pending.size < MANY;
    const { gone, come } = this.#pending.take();
    if (this.#value === undefined || !few) {
      this.#value = this.#sorted();
    } else {
      const value = { ...this.#value };
      for (const address of gone) value[address.family] = withoutAddress(value[address.family], address);
      for (const address of come) value[address.family] = withAddress(value[address.family], address);
      this.#value = value;
    }
    return this.#value;
  }

  #sorted(): ByFamily<AddressSet> {
    const addresses = [...this.#members.values()].flat();
    const of = (family: Family) =>
      setOf(
        family,
        this.#peers.blocks[family],
        addresses.filter((address) => address.family === family),
      );
    return { 4: of(4), 6: of(6) };
  }

  #outsideOfBlocks(addresses: readonly IpAddress[]): readonly IpAddress[] {
    const { blocks } = this.#peers;
    if (blocks[4].length === 0 && blocks[6].length === 0) return addresses;
    return addresses.filter(({ family, value }) => !covers(blocks[family], value));
  }
}
