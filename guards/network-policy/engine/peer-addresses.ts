/** The addresses of the peers of rules: those of pods, which come and go, and those of blocks. */
import { firstIndex, rangesOf } from './address-sets.ts';
import type { IpAddress } from './addresses.ts';
import { equal } from './equal.ts';
import { NetChanges } from './net-changes.ts';
import type { Peers as ParsedPeers } from './parsed-peers.ts';
import type { PodFacts } from './pod-table.ts';
import type { Address, AddressSet, ByFamily, Peers, PeersChange, PodKey } from './rules.ts';

/** From this many changes on, it is cheaper to sort everything again. */
const MANY = 64;

/** Lists are copied once edits are one for this many pods, so that their share of an event does not grow with the lists. */
const EDITED_SHARE = 16;

const none: readonly IpAddress[] = [];

type PodLists = Peers['pods'];

interface Edit {
  readonly isNew: boolean;
  readonly address: IpAddress;
}

export class PeerAddresses {
  readonly #blocks: ByFamily<AddressSet>;
  readonly #members = new Map<PodKey, readonly IpAddress[]>();
  /** Changes since {@link value} was last called. */
  readonly #pending = new NetChanges<IpAddress>();
  #value: Peers | undefined;
  /** The pods of an earlier value, and what has changed since: values share both, each with its number of edits. */
  #base: PodLists = { 4: [], 6: [] };
  #edits: Edit[] = [];
  /** Changes since {@link takeChange} was last called; undefined before the first call. */
  #unreported: NetChanges<IpAddress> | undefined;

  constructor({ blocks }: Pick<ParsedPeers, 'blocks'>) {
    this.#blocks = { 4: rangesOf(4, blocks[4]), 6: rangesOf(6, blocks[6]) };
  }

  /**
   * @param selected - Whether one of the peers selects the pod.
   * @returns whether the addresses have changed
   */
  set(pod: PodFacts, selected: boolean): boolean {
    const before = this.#members.get(pod.key) ?? none;
    const after = selected ? pod.addresses : none;
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
    if (this.#value === undefined || !few) {
      const { 4: four, 6: six } = textsOf([...this.#members.values()].flat());
      this.#base = { 4: four.toSorted(), 6: six.toSorted() };
      this.#edits = [];
    } else {
      if (this.#edits.length >= Math.max(MANY, this.#members.size / EDITED_SHARE)) {
        this.#base = edited(this.#base, this.#edits);
        this.#edits = [];
      }
      for (const address of gone) this.#edits.push({ isNew: false, address });
      for (const address of come) this.#edits.push({ isNew: true, address });
    }
    this.#value = peersOf(this.#base, this.#edits, this.#blocks);
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
}

/**
 * The lists of pods are made when they are first read: a dataplane that gets a change does not read them, and the lists of all pods of a large
 * cluster would be most of the garbage of an event.
 */
function peersOf(base: PodLists, edits: readonly Edit[], blocks: Peers['blocks']): Peers {
  const { length } = edits;
  let pods = length === 0 ? base : undefined;
  return {
    get pods() {
      return (pods ??= edited(base, edits.slice(0, length)));
    },
    blocks,
  };
}

function edited(base: PodLists, edits: readonly Edit[]): PodLists {
  const lists = { 4: [...base[4]], 6: [...base[6]] };
  for (const { isNew, address } of edits) {
    const list = lists[address.family];
    const at = placeOf(list, address.text);
    if (isNew) list.splice(at, 0, address.text);
    else list.splice(at, 1);
  }
  return lists;
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
