/**
 * Which changes may lack their author because a record of it is missing: the kernel lost it, or it was dropped
 * for lack of room. Times are `performance.now()`.
 */
export class AuthorLoss {
  readonly #lateMs: number;
  #lost = 0;
  #lostMs = -Infinity;
  #drops = 0;
  #droppedMs = -Infinity;
  #inRound = false;

  /** @param lateMs an event comes at most this long after its record */
  constructor(lateMs: number) {
    this.#lateMs = lateMs;
  }

  /** Whether records were found missing when this round began: any of its changes may be another process's. */
  get inRound(): boolean {
    return this.#inRound;
  }

  /**
   * Begins a round.
   *
   * @param lost records lost by the kernel so far
   * @param drops how often records were dropped so far
   * @returns the number of records that the kernel has lost since the last round
   */
  look(lost: number, drops: number): number {
    const nowMs = performance.now();
    const count = lost - this.#lost;
    this.#lost = lost;
    const isDropped = drops > this.#drops;
    this.#drops = drops;
    if (isDropped) this.#droppedMs = nowMs;
    this.#inRound = count > 0 || isDropped;
    if (this.#inRound) this.#lostMs = nowMs;
    return count;
  }

  /** Whether a missing record may belong to the events that come now. */
  get mayConcernNow(): boolean {
    return performance.now() <= this.#lostMs + this.#lateMs;
  }

  /** Whether the record of a change that was added at this time may have been dropped. */
  mayBeDropped(addedMs: number): boolean {
    return addedMs < this.#droppedMs + this.#lateMs;
  }
}
