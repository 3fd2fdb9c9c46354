/**
 * The addresses that have an owner: those of pods anywhere in the cluster, those of the node, and the link-local
 * ones of pods' interfaces.
 */
import { NetChanges } from '../../engine/net-changes.ts';
import type { Address, AddressChange } from '../../engine/rules.ts';

export class TakenAddresses {
  /** How many pods have each address. */
  readonly #counts = new Map<Address, number>();
  #others: ReadonlySet<Address> = new Set();
  /** Changes since {@link takeChange} was last called. */
  readonly #unreported = new NetChanges<Address>();

  [Symbol.iterator](): Iterator<Address> {
    return this.#counts.keys();
  }

  /** Applies changes of pods' addresses. */
  change({ gone, come }: AddressChange): void {
    for (const address of come) this.#count(address, 1);
    for (const address of gone) this.#count(address, -1);
  }

  /** Sets all addresses other than those of pods. */
  setOthers(others: ReadonlySet<Address>): void {
    this.change({ gone: [...this.#others.difference(others)], come: [...others.difference(this.#others)] });
    this.#others = others;
  }

  /** The change since the last call. */
  takeChange(): AddressChange {
    return this.#unreported.take();
  }

  #count(address: Address, by: 1 | -1): void {
    const count = (this.#counts.get(address) ?? 0) + by;
    if (count === 0) this.#counts.delete(address);
    else this.#counts.set(address, count);
    if (by === 1 && count === 1) this.#unreported.came(address, address);
    if (by === -1 && count === 0) this.#unreported.went(address, address);
  }
}
