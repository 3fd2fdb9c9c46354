/**
 * Finds the interfaces of the pods of this node, and notices when they are gone. The cost of a new pod does not
 * depend on the size of the node: only interfaces that belong to no pod yet are examined at their other ends.
 */
import { noTunnels, type Tunnels } from '../../../../lib/netlink/tunnels.ts';
import { type Clock, systemClock } from '../../../../lib/time/clock.ts';
import { isLinkLocal } from '../../engine/addresses.ts';
import { equal } from '../../engine/equal.ts';
import type { Address, LocalPod, PodKey } from '../../engine/rules.ts';
import { NodeInterfaces } from './node-interfaces.ts';
import { type KnownInterface, matchInterfaces, type PodInterface } from './pod-interfaces.ts';

export interface InterfaceSearchOptions {
  /** What an earlier process knew. */
  readonly known: ReadonlyMap<PodKey, KnownInterface>;
  /** Runs code in the node's network namespace. */
  readonly inNetwork: <T>(work: () => T) => T;
  readonly clock?: Clock | undefined;
}

type Pods = ReadonlyMap<PodKey, LocalPod>;

/** The known interface of a pod, and the addresses for which it was found. */
interface Match {
  readonly link: PodInterface;
  readonly addresses: readonly Address[];
}

/** How long to wait until a pod whose interface is unknown is looked for again: a pod without a veth pair never has one. */
const AGAIN_MS = 1000;

/** Dispose it after use. */
export class InterfaceSearch implements Disposable {
  readonly #network: NodeInterfaces;
  readonly #clock: Clock;
  #known: ReadonlyMap<PodKey, KnownInterface>;
  readonly #found = new Map<PodKey, Match>();
  readonly #missing = new Set<PodKey>();
  #lookedMs = -Infinity;
  #tunnels: Tunnels = noTunnels;

  /** @throws {RampartError} if this process may not open the sockets. */
  constructor({ known, inNetwork, clock = systemClock }: InterfaceSearchOptions) {
    this.#network = inNetwork(() => new NodeInterfaces());
    this.#known = known;
    this.#clock = clock;
  }

  linkOf(key: PodKey): PodInterface | undefined {
    return this.#found.get(key)?.link;
  }

  /** Link-local addresses of the found interfaces. */
  get linkLocal(): Address[] {
    return [...this.#found.values()].flatMap(({ link }) => link.linkLocal);
  }

  /**
   * Addresses of the node; the same list while they are the same.
   *
   * @throws {KernelRefusal}
   */
  get nodeAddresses(): readonly Address[] {
    return this.#network.addresses;
  }

  /** Tunnels of the node, as of the last {@link searchAll}. */
  get tunnels(): Tunnels {
    return this.#tunnels;
  }

  /**
   * Reads everything again, also the other ends of interfaces that were found.
   *
   * @returns the pods for which {@link linkOf} is different
   * @throws {KernelRefusal}
   */
  searchAll(pods: Pods): Set<PodKey> {
    this.#network.refresh();
    this.#network.forget();
    this.#tunnels = this.#network.tunnels;
    const changed = this.#match(pods, new Set(pods.keys()));
    this.#missing.clear();
    for (const key of pods.keys()) if (!this.#found.has(key)) this.#missing.add(key);
    this.#lookedMs = this.#clock.monotonicMs();
    return changed;
  }

  /**
   * Looks for the interfaces of pods that have none: of new pods immediately, of others when interfaces have changed,
   * or after a second.
   *
   * @param touched - Pods that may have come, gone, or got other addresses.
   * @returns the pods for which {@link linkOf} is different
   * @throws {KernelRefusal}
   */
  search(pods: Pods, touched: readonly PodKey[]): Set<PodKey> {
    const isChanged = this.#network.refresh();
    const fresh = new Set<PodKey>();
    const gone = new Set<PodKey>();
    for (const key of touched) {
      const pod = pods.get(key);
      const match = this.#found.get(key);
      if (pod === undefined) gone.add(key);
      else if (match === undefined || !this.#holds(match, pod)) fresh.add(key);
    }
    if (isChanged) {
      for (const [key, { link }] of this.#found) {
        if (pods.has(key) && !this.#network.ends.has(link.index)) fresh.add(key);
      }
    }
    for (const key of gone) this.#missing.delete(key);
    for (const key of fresh) this.#missing.add(key);
    const isLate = this.#missing.size > 0 && this.#clock.monotonicMs() - this.#lookedMs >= AGAIN_MS;
    const changed = new Set<PodKey>();
    if (this.#missing.size > 0 && (fresh.size > 0 || isChanged)) this.#match(pods, this.#missing, changed);
    // The other end may have been moved to another namespace, which the kernel does not report.
    if (isLate || [...fresh].some((key) => this.#missing.has(key))) {
      this.#network.forget();
      this.#match(pods, this.#missing, changed);
      this.#lookedMs = this.#clock.monotonicMs();
    }
    for (const key of gone) if (this.#found.delete(key)) changed.add(key);
    return changed;
  }

  /** Whether its interface still exists, and the pod has the addresses for which it was found. */
  #holds({ link, addresses }: Match, pod: LocalPod): boolean {
    return this.#network.ends.has(link.index) && equal(addresses, addressesOf(pod));
  }

  /** @param wanted - The pods whose interfaces are looked for. Pods that get one are removed from {@link #missing}. */
  #match(pods: Pods, wanted: ReadonlySet<PodKey>, changed = new Set<PodKey>()): Set<PodKey> {
    const own = new Map<PodKey, readonly Address[]>();
    for (const key of wanted) {
      const pod = pods.get(key);
      if (pod !== undefined) own.set(key, addressesOf(pod));
    }
    const kept = new Map<PodKey, PodInterface>();
    const taken = new Set<number>();
    for (const [key, { link }] of this.#found) {
      if (own.has(key) || !pods.has(key)) continue;
      kept.set(key, link);
      taken.add(link.index);
    }
    const seen = [...this.#network.ends.values()].flatMap((end) =>
      taken.has(end.index) ? [] : (this.#network.seen(end) ?? []),
    );
    const found = matchInterfaces(own, seen, this.#known, kept);
    for (const key of new Set([...this.#found.keys(), ...found.keys()])) {
      const [before, link] = [this.#found.get(key), found.get(key)];
      if (link === undefined) this.#found.delete(key);
      else {
        const isSame = before !== undefined && equal(before.link, link);
        this.#found.set(key, {
          link: isSame ? before.link : link,
          addresses: own.get(key) ?? before?.addresses ?? [],
        });
        this.#missing.delete(key);
        if (isSame) continue;
      }
      changed.add(key);
    }
    this.#known = found;
    return changed;
  }

  [Symbol.dispose](): void {
    this.#network[Symbol.dispose]();
  }
}

/** Addresses in the pod's status, without link-local ones: those were found at its interface. */
function addressesOf({ addresses }: LocalPod): Address[] {
  return [...addresses[4], ...addresses[6].filter((address) => !isLinkLocal(address))];
}
