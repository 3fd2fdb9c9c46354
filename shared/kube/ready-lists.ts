/**
 * What is ready to be worked on, in levels of urgency.
 *
 * @module
 */
import { errorCodes, RampartError } from '../observe/errors.ts';

/** What a thing needs to be in a list: it is its own link, so that it can leave from the middle. */
export interface Ready {
  level: number;
  previous: this | undefined;
  next: this | undefined;
}

interface Level<T> {
  first: T | undefined;
  last: T | undefined;
  size: number;
  /** Takes from other levels since the last one from here while something waited here. */
  passedOver: number;
}

/** One list for each level, oldest first. Level 0 goes first, but no level starves. */
export class ReadyLists<T extends Ready> {
  readonly #levels: Level<T>[];
  readonly #passOver: number;
  #size = 0;

  /**
   * `passOver`: a level that was passed over this many times is served next, however much waits above it.
   *
   * @throws {RampartError} `INPUT` for numbers that are not whole or below 1.
   */
  constructor(levels: number, passOver: number) {
    if (!Number.isInteger(levels) || levels < 1 || !Number.isInteger(passOver) || passOver < 1) {
      throw new RampartError(errorCodes.INPUT, {
        what: `workqueue with ${levels} levels and passOver ${passOver}`,
        why: 'both must be whole numbers of at least 1',
      });
    }
    this.#passOver = passOver;
    this.#levels = Array.from({ length: levels }, () => emptyLevel<T>());
  }

  get size(): number {
    return this.#size;
  }

  get levels(): number {
    return this.#levels.length;
  }

  sizes(): readonly number[] {
    return this.#levels.map(({ size }) => size);
  }

  has(level: number): boolean {
    return this.#levels[level] !== undefined;
  }

  /** Adds what is in no list to the end of its level. */
  append(item: T): void {
    const list = this.#levels[item.level] as Level<T>;
    item.previous = list.last;
    item.next = undefined;
    if (list.last === undefined) list.first = item;
    else list.last.next = item;
    list.last = item;
    list.size++;
    this.#size++;
  }

  /** Removes what is in the list of its level. */
  remove(item: T): void {
    const list = this.#levels[item.level] as Level<T>;
    if (item.previous === undefined) list.first = item.next;
    else item.previous.next = item.next;
    if (item.next === undefined) list.last = item.previous;
    else item.next.previous = item.previous;
    item.previous = item.next = undefined;
    list.size--;
    this.#size--;
  }

  /** Removes and returns the oldest of the most urgent level, or of one that has been passed over too often. */
  take(): T | undefined {
    if (this.#size === 0) return undefined;
    const chosen = this.#choose();
    for (const level of this.#levels) {
      if (level === chosen || level.size === 0) level.passedOver = 0;
      else level.passedOver++;
    }
    const item = chosen?.first;
    if (item !== undefined) this.remove(item);
    return item;
  }

  clear(): void {
    for (const level of this.#levels) Object.assign(level, emptyLevel<T>());
    this.#size = 0;
  }

  #choose(): Level<T> | undefined {
    let chosen: Level<T> | undefined;
    for (const level of this.#levels) {
      if (level.size === 0) continue;
      const overdue = level.passedOver >= this.#passOver;
      if (chosen === undefined || (overdue && level.passedOver > chosen.passedOver)) chosen = level;
    }
    return chosen;
  }
}

function emptyLevel<T>(): Level<T> {
  return { first: undefined, last: undefined, size: 0, passedOver: 0 };
}
