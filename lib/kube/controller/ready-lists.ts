/** Keys that are ready to be processed, by level. */
/** The level of a key: 0 is the most urgent. */
export type Urgency = 0 | 1;

/** How often level 1 is passed over before it is served: a full level 0 leaves it a tenth of the workers. */
export const PASS_OVER = 10;

/** An element of a list is its own link, so that it can leave from the middle. */
export interface Ready {
  level: Urgency;
  previous: this | undefined;
  next: this | undefined;
}

interface Level<T> {
  first: T | undefined;
  last: T | undefined;
  size: number;
}

/** One list for each level, oldest first. Level 0 goes first, but level 1 does not starve. */
export class ReadyLists<T extends Ready> {
  readonly #levels: readonly [Level<T>, Level<T>] = [emptyLevel(), emptyLevel()];
  /** How often level 0 was served in a row while level 1 had items. */
  #passedOver = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  sizes(): readonly number[] {
    return this.#levels.map(({ size }) => size);
  }

  /** Adds an item that is in no list to the end of its level. */
  append(item: T): void {
    const list = this.#levels[item.level];
    item.previous = list.last;
    item.next = undefined;
    if (list.last === undefined) list.first = item;
    else list.last.next = item;
    list.last = item;
    list.size++;
    this.#size++;
  }

  /** Removes an item from the list of its level. */
  remove(item: T): void {
    const list = this.#levels[item.level];
    if (item.previous === undefined) list.first = item.next;
    else item.previous.next = item.next;
    if (item.next === undefined) list.last = item.previous;
    else item.next.previous = item.previous;
    item.previous = item.next = undefined;
    list.size--;
    this.#size--;
  }

  /** Removes and returns the oldest item of level 0, or of level 1 if that was passed over too often. */
  take(): T | undefined {
    const [urgent, other] = this.#levels;
    const isOverdue = other.size > 0 && this.#passedOver >= PASS_OVER;
    const takesUrgent = urgent.size > 0 && !isOverdue;
    this.#passedOver = takesUrgent && other.size > 0 ? this.#passedOver + 1 : 0;
    const item = (takesUrgent ? urgent : other).first;
    if (item !== undefined) this.remove(item);
    return item;
  }

  clear(): void {
    for (const level of this.#levels) Object.assign(level, emptyLevel<T>());
    this.#size = this.#passedOver = 0;
  }
}

function emptyLevel<T>(): Level<T> {
  return { first: undefined, last: undefined, size: 0 };
}
