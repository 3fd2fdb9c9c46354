/**
 * The lanes of a delivery, by callback and Secret. The look-up is on the way of each alert, so nothing is put together
 * for it.
 */
import type { Lane } from './lane.ts';

export class LaneTable implements Iterable<Lane> {
  /** Of traps without a Secret: nearly all. */
  readonly #plain = new Map<string, Lane>();
  /** By Secret, then by callback. */
  readonly #bySecret = new Map<string, Map<string, Lane>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** @param secret `namespace/name`, or empty. */
  get(callback: string, secret: string): Lane | undefined {
    return this.#mapOf(secret)?.get(callback);
  }

  add(lane: Lane): void {
    const { callback, secret } = lane.log;
    let lanes = this.#mapOf(secret);
    if (lanes === undefined) this.#bySecret.set(secret, (lanes = new Map()));
    lanes.set(callback, lane);
    this.#size++;
  }

  delete(lane: Lane): void {
    const { callback, secret } = lane.log;
    const lanes = this.#mapOf(secret);
    if (lanes?.delete(callback) !== true) return;
    this.#size--;
    if (lanes.size === 0) this.#bySecret.delete(secret);
  }

  *[Symbol.iterator](): Iterator<Lane> {
    yield* this.#plain.values();
    for (const lanes of this.#bySecret.values()) yield* lanes.values();
  }

  #mapOf(secret: string): Map<string, Lane> | undefined {
    return secret === '' ? this.#plain : this.#bySecret.get(secret);
  }
}
