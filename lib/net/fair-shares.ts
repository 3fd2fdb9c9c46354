/**
 * A bounded amount of something, such as connections or bytes, that sources share. Once it is used up, the source that
 * holds most loses what it has held for longest: a source that takes everything takes it from itself.
 */

export interface FairLimits {
  readonly total: number;
  /** Default: `total`. */
  readonly perSource?: number;
}

interface Source {
  readonly name: string;
  /** The oldest first. */
  readonly shares: Set<Share>;
}

export class FairShares {
  readonly #total: number;
  readonly #perSource: number;
  readonly #sources = new Map<string, Source>();
  #used = 0;

  constructor({ total, perSource = total }: FairLimits) {
    this.#total = total;
    this.#perSource = perSource;
  }

  get used(): number {
    return this.#used;
  }

  /**
   * A share of nothing, to be grown. The caller disposes it.
   *
   * @param onRevoke called when the share is revoked; it holds nothing then, and cannot grow.
   */
  open(name: string, onRevoke: () => void): Share {
    const source = this.#sources.get(name) ?? { name, shares: new Set<Share>() };
    this.#sources.set(name, source);
    const share: Share = new Share({
      make: (units) => this.#makeRoom(source, share, units),
      changed: (units) => void (this.#used += units),
      over: () => {
        source.shares.delete(share);
        if (source.shares.size === 0) this.#sources.delete(name);
      },
      onRevoke,
    });
    source.shares.add(share);
    return share;
  }

  /** @returns false if `share` itself would have to be revoked, or nothing can be */
  #makeRoom(source: Source, share: Share, units: number): boolean {
    while (heldBy(source) + units > this.#perSource) {
      if (!revokeOldest(source, share)) return false;
    }
    while (this.#used + units > this.#total) {
      let [largest, max] = [source, revocableOf(source) + units];
      for (const other of this.#sources.values()) {
        const revocable = revocableOf(other);
        // Among equals, another source is revoked: the newest share is about to be used.
        if (other !== source && revocable >= max && revocable > 0) [largest, max] = [other, revocable];
      }
      if (!revokeOldest(largest, share)) return false;
    }
    return true;
  }
}

interface ShareHooks {
  readonly make: (units: number) => boolean;
  readonly changed: (units: number) => void;
  readonly over: () => void;
  readonly onRevoke: () => void;
}

export class Share implements Disposable {
  readonly #hooks: ShareHooks;
  #units = 0;
  #isOver = false;
  /** Set while requests are being processed: the share is not revoked then. */
  isKept = false;

  constructor(hooks: ShareHooks) {
    this.#hooks = hooks;
  }

  get units(): number {
    return this.#units;
  }

  /** @returns false if there is no room, or the share was revoked: the owner then gives up and disposes it */
  grow(units: number): boolean {
    if (this.#isOver || !this.#hooks.make(units) || this.#isOver) return false;
    this.#units += units;
    this.#hooks.changed(units);
    return true;
  }

  revoke(): void {
    if (this.#isOver) return;
    this[Symbol.dispose]();
    this.#hooks.onRevoke();
  }

  [Symbol.dispose](): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#hooks.changed(-this.#units);
    this.#units = 0;
    this.#hooks.over();
  }
}

function heldBy({ shares }: Source): number {
  let sum = 0;
  for (const { units } of shares) sum += units;
  return sum;
}

function revocableOf({ shares }: Source): number {
  let sum = 0;
  for (const { units, isKept } of shares) if (!isKept) sum += units;
  return sum;
}

/** @returns false if the oldest is `asking`, or nothing can be revoked */
function revokeOldest({ shares }: Source, asking: Share): boolean {
  for (const share of shares) {
    if (share.isKept || (share.units === 0 && share !== asking)) continue;
    if (share === asking) return false;
    share.revoke();
    return true;
  }
  return false;
}
