/** The recent and new lines of a process, for readers that connect later. */

interface LineFeedOptions {
  /** So many are kept. Default: 1000. */
  readonly maxLines?: number;
  /** So long they may be together, in UTF-16 units: a byte each for ASCII. Default: 1 MiB. */
  readonly maxUnits?: number;
}

/** A line and its number: the first one of a feed is 1, and no number is left out. */
interface NumberedLine {
  readonly number: number;
  readonly line: string;
}

/** Gets each line as it comes. It must not wait. */
type LineListener = (number: number, line: string) => void;

const MAX_LINES = 1000;
const MAX_UNITS = 1024 * 1024;

/** Keeps the last lines in a ring and hands new ones on. Without listeners a line costs one place in the ring. */
export class LineFeed {
  readonly #ring: (string | undefined)[];
  readonly #maxUnits: number;
  readonly #listeners = new Set<LineListener>();
  #last = 0;
  #kept = 0;
  #units = 0;

  constructor({ maxLines = MAX_LINES, maxUnits = MAX_UNITS }: LineFeedOptions = {}) {
    this.#ring = Array.from({ length: maxLines }, () => undefined);
    this.#maxUnits = maxUnits;
  }

  /** The number of the newest line; 0 before the first one. */
  get last(): number {
    return this.#last;
  }

  /** The number that the oldest line has that is kept; `last + 1` where none is. */
  get first(): number {
    return this.#last - this.#kept + 1;
  }

  /** Takes a line, without a newline in it. Never waits. */
  push(line: string): void {
    const place = this.#last % this.#ring.length;
    const before = this.#ring[place];
    if (before !== undefined) {
      this.#units -= before.length;
      this.#kept--;
    }
    this.#ring[place] = line;
    this.#last++;
    this.#kept++;
    this.#units += line.length;
    while (this.#units > this.#maxUnits) this.#dropOldest();
    if (this.#listeners.size > 0) for (const listener of this.#listeners) listener(this.#last, line);
  }

  /** What is kept, oldest first. */
  *kept(): Generator<NumberedLine, void> {
    for (let number = this.first; number <= this.#last; number++) {
      const line = this.#ring[(number - 1) % this.#ring.length];
      if (line !== undefined) yield { number, line };
    }
  }

  /** Calls `listener` for each line from now on, until disposed. */
  subscribe(listener: LineListener): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  #dropOldest(): void {
    const place = (this.first - 1) % this.#ring.length;
    this.#units -= this.#ring[place]?.length ?? 0;
    this.#ring[place] = undefined;
    this.#kept--;
  }
}
