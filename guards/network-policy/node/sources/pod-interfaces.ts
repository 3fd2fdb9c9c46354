/**
 * Which interface of the node leads to which pod: the one whose other end has the pod's address, in the pod's network namespace.
 *
 * A pod that may configure its network can give itself the address of another pod. So an interface stays with its pod as long as both
 * are there, and of those that are new, an interface belongs to the only pod that can have it.
 */
import { addressText } from '../../engine/addresses.ts';
import type { Address, PodKey } from '../../engine/rules.ts';

/** An interface of the node whose other end is in another network namespace. */
export interface SeenInterface {
  readonly index: number;
  readonly name: string;
  /** A port of a bridge: its packets reach other pods without being routed. */
  readonly isBridged: boolean;
  /** Of the other end. */
  readonly mac: string;
  readonly addresses: ReadonlySet<Address>;
  readonly linkLocal: readonly Address[];
}

/** What is known about the interface of a pod. */
export interface PodInterface extends Pick<SeenInterface, 'index' | 'name' | 'isBridged' | 'linkLocal'> {
  /** As it was when the interface was found: the pod may change it. */
  readonly mac: string;
}

export type KnownInterface = Pick<PodInterface, 'index' | 'mac' | 'linkLocal'>;

/**
 * @param pods - Of this node, with their addresses.
 * @param before - What was found earlier.
 * @returns a new map; pods whose interface is unknown are not in it.
 */
export function matchInterfaces(
  pods: ReadonlyMap<PodKey, readonly Address[]>,
  seen: readonly SeenInterface[],
  before: ReadonlyMap<PodKey, KnownInterface>,
): Map<PodKey, PodInterface> {
  const free = new Map(seen.map((one) => [one.index, one]));
  const found = new Map<PodKey, { readonly now: SeenInterface; readonly mac: string }>();
  const take = (pod: PodKey, now: SeenInterface, mac: string): void => {
    free.delete(now.index);
    found.set(pod, { now, mac });
  };
  for (const [pod, { index, mac }] of before) {
    const now = free.get(index);
    if (pods.has(pod) && now !== undefined) take(pod, now, mac);
  }
  for (let isNew = true; isNew;) {
    const only = new Map<SeenInterface, PodKey[]>();
    for (const [pod, addresses] of pods) {
      if (found.has(pod)) continue;
      const [one, ...more] = [...free.values()].filter((each) =>
        addresses.some((a) => each.addresses.has(a)),
      );
      if (one !== undefined && more.length === 0) only.set(one, [...(only.get(one) ?? []), pod]);
    }
    isNew = false;
    for (const [one, [pod, ...more]] of only) {
      if (pod === undefined || more.length > 0) continue;
      take(pod, one, one.mac);
      isNew = true;
    }
  }
  const owners = linkLocalOwners(found, before);
  return new Map(
    [...found].map(([pod, { now, mac }]) => {
      const { index, name, isBridged } = now;
      const linkLocal = [...new Set([derivedAddress(mac), ...now.linkLocal])]
        .filter((address) => owners.get(address) === pod)
        .toSorted();
      return [pod, { index, name, isBridged, mac, linkLocal }];
    }),
  );
}

/**
 * An address derived from a MAC address belongs to the pod of that interface, also before it is there; any other one to the pod that had it
 * before, else to the first.
 */
function linkLocalOwners(
  found: ReadonlyMap<PodKey, { readonly now: SeenInterface; readonly mac: string }>,
  before: ReadonlyMap<PodKey, KnownInterface>,
): ReadonlyMap<Address, PodKey> {
  const owners = new Map<Address, PodKey>();
  const claim = (pod: PodKey, address: Address): void => {
    if (!owners.has(address)) owners.set(address, pod);
  };
  for (const [pod, { mac }] of found) claim(pod, derivedAddress(mac));
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
