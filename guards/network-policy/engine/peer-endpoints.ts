/** The named ports of an egress rule, resolved on the pods that it allows. */
import { covers, firstIndex } from './address-sets.ts';
import { addressValue, type IpAddress } from './addresses.ts';
import { equal } from './equal.ts';
import { NetChanges } from './net-changes.ts';
import type { Peers } from './parsed-peers.ts';
import type { NamedPort } from './parsed-ports.ts';
import type { PodFacts } from './pod-table.ts';
import type { ByFamily, Endpoint, Family, PodKey } from './rules.ts';

/** From this many changes on, it is cheaper to sort everything again. */
const MANY = 64;

export class PeerEndpoints {
  readonly #blocks: Peers['blocks'] | undefined;
  readonly #names: readonly NamedPort[];
  readonly #members = new Map<PodKey, readonly FamilyEndpoint[]>();
  readonly #pending = new NetChanges<FamilyEndpoint>();
  #value: ByFamily<readonly Endpoint[]> | undefined;

  constructor(peers: 'everyone' | Peers, names: readonly NamedPort[]) {
    this.#blocks = peers === 'everyone' ? undefined : peers.blocks;
    this.#names = names;
  }

  /**
   * @param selected - Whether one of the peers selects the pod; if not, only its addresses in a block count.
   * @returns whether the endpoints have changed
   */
  set(pod: PodFacts, selected: boolean): boolean {
    const addresses = selected ? pod.addresses : pod.addresses.filter((address) => this.#inBlock(address));
    const before = this.#members.get(pod.key) ?? [];
    const after = endpointsOf(pod, addresses, this.#names);
    if (equal(before, after)) return false;
    if (after.length === 0) this.#members.delete(pod.key);
    else this.#members.set(pod.key, after);
    if (this.#value === undefined) return true;
    for (const one of before) this.#pending.went(keyOf(one), one);
    for (const one of after) this.#pending.came(keyOf(one), one);
    return true;
  }

  value(): ByFamily<readonly Endpoint[]> {
    if (this.#value !== undefined && this.#pending.size === 0) return this.#value;
    const few = this.#pending.size < MANY;
    const { gone, come } = this.#pending.take();
    if (this.#value === undefined || !few) {
      this.#value = byFamily([...this.#members.values()].flat());
    } else {
      const value = { ...this.#value };
      for (const { family, endpoint } of gone) {
        value[family] = value[family].toSpliced(placeOf(value[family], endpoint), 1);
      }
      for (const { family, endpoint } of come) {
        value[family] = value[family].toSpliced(placeOf(value[family], endpoint), 0, endpoint);
      }
      this.#value = value;
    }
    return this.#value;
  }

  #inBlock({ family, value }: IpAddress): boolean {
    return this.#blocks !== undefined && covers(this.#blocks[family], value);
  }
}

interface FamilyEndpoint {
  readonly family: Family;
  readonly endpoint: Endpoint;
}

/** The named ports resolved on these pods, sorted. */
export function podEndpoints(
  pods: Iterable<PodFacts>,
  names: readonly NamedPort[],
): ByFamily<readonly Endpoint[]> {
  return byFamily([...pods].flatMap((pod) => endpointsOf(pod, pod.addresses, names)));
}

function endpointsOf(
  pod: PodFacts,
  addresses: readonly IpAddress[],
  names: readonly NamedPort[],
): FamilyEndpoint[] {
  const found = new Map<string, FamilyEndpoint>();
  for (const { name, protocol, port } of pod.ports) {
    if (!names.some((one) => one.name === name && one.protocol === protocol)) continue;
    for (const { family, text } of addresses) {
      const one = { family, endpoint: { address: text, protocol, port } };
      // Two names of the same port are one endpoint.
      found.set(keyOf(one), one);
    }
  }
  return [...found.values()];
}

function keyOf({ endpoint: { address, protocol, port } }: FamilyEndpoint): string {
  return `${address} ${protocol} ${port}`;
}

function byFamily(all: readonly FamilyEndpoint[]): ByFamily<readonly Endpoint[]> {
  const of = (wanted: Family) =>
    all
      .filter(({ family }) => family === wanted)
      .map(({ endpoint }) => ({ endpoint, value: addressValue(endpoint.address) }))
      .toSorted((a, b) => order(a.value, a.endpoint, b.value, b.endpoint))
      .map(({ endpoint }) => endpoint);
  return { 4: of(4), 6: of(6) };
}

/** The index where the endpoint is, or where it would have to be inserted. */
function placeOf(endpoints: readonly Endpoint[], one: Endpoint): number {
  const value = addressValue(one.address);
  return firstIndex(endpoints.length, (at) => {
    const other = endpoints[at] as Endpoint;
    return order(addressValue(other.address), other, value, one) >= 0;
  });
}

function order(value: bigint, a: Endpoint, otherValue: bigint, b: Endpoint): number {
  if (value !== otherValue) return value < otherValue ? -1 : 1;
  if (a.protocol !== b.protocol) return a.protocol < b.protocol ? -1 : 1;
  return a.port - b.port;
}
