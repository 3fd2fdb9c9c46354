/**
 * The interfaces of the node that lead to other network namespaces, and the node's own addresses: listed
 * once, then kept up to date by the kernel's messages. Events at the other ends are not reported, so these
 * are read on demand.
 */
import { KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import { messagesOf } from '../../../../lib/netlink/message.ts';
import {
  interfaceAddresses,
  macAddressesIn,
  type InterfaceAddress,
  networkEvent,
  networkGroups,
  type PairEnd,
  pairEnds,
} from '../../../../lib/netlink/peer-namespaces.ts';
import { RouteSocket } from '../../../../lib/netlink/route.ts';
import { NETLINK_ROUTE, NetlinkSocket } from '../../../../lib/netlink/socket.ts';
import { type Tunnels, tunnelsOf } from '../../../../lib/netlink/tunnels.ts';
import { addressText, isLinkLocal } from '../../engine/addresses.ts';
import type { Address } from '../../engine/rules.ts';
import type { SeenInterface } from './pod-interfaces.ts';

/** Bound to the network namespace of the thread that opened it. Dispose it after use. */
export class NodeInterfaces implements Disposable {
  readonly #stack: DisposableStack;
  readonly #route: RouteSocket;
  readonly #events: NetlinkSocket;
  #ends: Map<number, PairEnd> | undefined;
  #addresses: readonly Address[] | undefined;

  /** @throws {RampartError} `SYSTEM`, {@link KernelRefusal} */
  constructor() {
    using stack = new DisposableStack();
    this.#route = stack.use(new RouteSocket({ isStrict: true }));
    this.#events = stack.use(new NetlinkSocket({ protocol: NETLINK_ROUTE, groups: networkGroups }));
    this.#stack = stack.move();
  }

  /**
   * Reads pending messages of the kernel.
   *
   * @returns whether interfaces have changed since the last call
   */
  refresh(): boolean {
    let isChanged = false;
    for (let bytes = this.#events.receive(); bytes !== 'nothing'; bytes = this.#events.receive()) {
      if (bytes === 'overrun') {
        isChanged = true;
        this.forget();
        continue;
      }
      for (const message of messagesOf(bytes)) {
        const event = networkEvent(message);
        if (event?.kind === 'address') this.#addresses = undefined;
        if (event?.kind !== 'interface') continue;
        const { index, end } = event;
        isChanged ||= end !== undefined || this.#ends?.has(index) === true;
        if (end === undefined) this.#ends?.delete(index);
        else this.#ends?.set(index, end);
      }
    }
    return isChanged;
  }

  /** Forgets all interfaces, so that they are listed again. */
  forget(): void {
    this.#ends = this.#addresses = undefined;
  }

  /** Keyed by index. @throws {KernelRefusal} */
  get ends(): ReadonlyMap<number, PairEnd> {
    return (this.#ends ??= new Map(pairEnds(this.#route).map((end) => [end.index, end])));
  }

  /**
   * Addresses of the node itself; the same list while they are the same.
   *
   * @throws {KernelRefusal}
   */
  get addresses(): readonly Address[] {
    return (this.#addresses ??= interfaceAddresses(this.#route).map(textOf));
  }

  /**
   * Tunnels of the node, read again.
   *
   * @throws {KernelRefusal}
   */
  get tunnels(): Tunnels {
    return tunnelsOf(this.#route);
  }

  /**
   * An interface with its other end; undefined if that end is gone or is not Ethernet.
   *
   * @throws {KernelRefusal} if the kernel has no information about other namespaces (before Linux 5.0).
   */
  seen({ peer, ...own }: PairEnd): SeenInterface | undefined {
    try {
      const mac = macAddressesIn(this.#route, peer.namespaceId).get(peer.index);
      if (mac === undefined) return undefined;
      const all = interfaceAddresses(this.#route, peer.namespaceId).filter(
        ({ index }) => index === peer.index,
      );
      const addresses = all.map(textOf);
      return { ...own, mac, addresses: new Set(addresses), linkLocal: addresses.filter(isLinkLocal) };
    } catch (error) {
      // The namespace may have disappeared between two requests.
      if (error instanceof KernelRefusal) return undefined;
      throw error;
    }
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

function textOf({ family, address }: InterfaceAddress): Address {
  return addressText(family, BigInt(`0x${address.toString('hex')}`));
}
