/**
 * Which interface of the node leads to which pod: the one whose other end has the pod's address, in the pod's
 * network namespace.
 *
 * A pod that may configure its network can give itself the address of another pod. So an interface stays with its
 * pod as long as both exist, and a new interface is assigned to a pod only if no other pod can have it.
 */
import { addressText } from '../../engine/addresses.ts';
import type { Address, PodKey } from '../../engine/rules.ts';

/** An interface of the node whose other end is in another network namespace. */
export interface SeenInterface {
  readonly index: number;
  readonly name: string;
  /** Whether it is a port of a bridge: its packets reach other pods without being routed. */
  readonly isBridged: boolean;
  /** MAC address of the other end. */
  readonly mac: string;
  readonly addresses: ReadonlySet<Address>;
  readonly linkLocal: readonly Address[];
}

/** The known interface of a pod. */
export interface PodInterface extends Pick<SeenInterface, 'index' | 'name' | 'isBridged' | 'linkLocal'> {
  /** MAC address of the other end when the interface was found: the pod may change it. */
  readonly mac: string;
}

/**
 * Maximum number of link-local addresses taken from one pod: a pod that may configure its network can add any number, and each one
 * adds rules that every packet on the node is checked against. An isolated pod cannot send from an address beyond this limit.
 */
const maxLinkLocal = 4;

export type KnownInterface = Pick<PodInterface, 'index' | 'mac' | 'linkLocal'>;

/**
 * Finds the interfaces of pods.
 *
 * @param pods - The pods whose interfaces are looked for, with their addresses.
 * @param seen - Interfaces that may belong to these pods.
 * @param before - What was found earlier.
 * @param kept - The known interfaces of other pods.
 * @returns a new map, including `kept`; pods whose interface is unknown are not in it.
 */
export function matchInterfaces(
  pods: ReadonlyMap<PodKey, readonly Address[]>,
  seen: readonly SeenInterface[],
  before: ReadonlyMap<PodKey, KnownInterface>,
  kept: ReadonlyMap<PodKey, PodInterface> = new Map(),
): Map<PodKey, PodInterface> {
  const free = new Map(seen.map((one) => [one.index, one]));
  const found = new Map<PodKey, Found>();
  const take = (pod: PodKey, now: SeenInterface, mac: string): void => {
    free.delete(now.index);
    found.set(pod, { now, mac, derived: derivedAddress(mac) });
  };
  for (const [pod, { index, mac }] of before) {
    const now = free.get(index);
    if (pods.has(pod) && now !== undefined) take(pod, now, mac);
  }
  const having = new Map<Address, SeenInterface[]>();
  for (const one of free.values()) {
    for (const address of one.addresses) having.set(address, [...(having.get(address) ?? []), one]);
  }
  for (let isNew = true; isNew;) {
    const only = new Map<SeenInterface, PodKey[]>();
    for (const [pod, addresses] of pods) {
      if (found.has(pod)) continue;
      const may = new Set(addresses.flatMap((address) => having.get(address) ?? []));
      const [one, ...more] = [...may].filter(({ index }) => free.has(index));
      if (one !== undefined && more.length === 0) only.set(one, [...(only.get(one) ?? []), pod]);
    }
    isNew = false;
    for (const [one, [pod, ...more]] of only) {
      if (pod === undefined || more.length > 0) continue;
      take(pod, one, one.mac);
      isNew = true;
    }
  }
  const owners = linkLocalOwners(found, before, kept);
  const ownedBy = (pod: PodKey, addresses: readonly Address[]): Address[] =>
    addresses.filter((address) => owners.get(address) === pod);
  const all = new Map<PodKey, PodInterface>();
  for (const [pod, link] of kept) {
    const linkLocal = ownedBy(pod, link.linkLocal);
    all.set(pod, linkLocal.length === link.linkLocal.length ? link : { ...link, linkLocal });
  }
  for (const [pod, { now, mac, derived }] of found) {
    const { index, name, isBridged } = now;
    const known = (before.get(pod)?.linkLocal ?? []).filter((address) => now.linkLocal.includes(address));
    const own = ownedBy(pod, [...new Set([derived, ...known, ...now.linkLocal])]);
    const linkLocal = own.slice(0, maxLinkLocal).toSorted();
    all.set(pod, { index, name, isBridged, mac, linkLocal });
  }
  return all;
}

interface Found {
  readonly now: SeenInterface;
  readonly mac: string;
  /** The link-local address that follows from `mac`. */
  readonly derived: Address;
}

/**
 * An address derived from a MAC address belongs to the pod of that interface, even before the interface has the
 * address. Any other address belongs to the pod that had it earlier, or else to the first pod that has it.
 */
function linkLocalOwners(
  found: ReadonlyMap<PodKey, Found>,
  before: ReadonlyMap<PodKey, KnownInterface>,
  kept: ReadonlyMap<PodKey, PodInterface>,
): ReadonlyMap<Address, PodKey> {
  const owners = new Map<Address, PodKey>();
  const claim = (pod: PodKey, address: Address): void => {
    if (!owners.has(address)) owners.set(address, pod);
  };
  for (const [pod, { derived }] of found) claim(pod, derived);
  for (const [pod, { linkLocal }] of kept) for (const address of linkLocal) claim(pod, address);
  for (const [pod, { now }] of found) {
    for (const address of now.linkLocal)
      if (before.get(pod)?.linkLocal.includes(address)) claim(pod, address);
  }
  for (const [pod, { now }] of found) for (const address of now.linkLocal) claim(pod, address);
  return owners;
}

/** The link-local address with a modified EUI-64 identifier (RFC 4291, appendix A). */
export function derivedAddress(mac: string): Address {
  const [vendor, device] = [mac.slice(0, 8), mac.slice(9)].map((part) => part.replaceAll(':', ''));
  const identifier = BigInt(`0x${vendor}fffe${device}`) ^ (1n << 57n);
  return addressText(6, (0xfe80n << 112n) | identifier);
}
