/** The recent and new lines of a process, for readers that connect later. */

interface LineFeedOptions {
  /** How many lines of each kind are kept. Default: 1000. */
  readonly maxLines?: number;
  /** Limit of the total length of the kept lines of a kind, in UTF-16 units: a byte each for ASCII. Default: 2 MiB. */
  readonly maxUnits?: number;
}

/** A line and its number: the first line of a feed has number 1, and no number is left out. */
interface NumberedLine {
  readonly number: number;
  readonly line: string;
}

/** Gets each line as it comes. It must not wait. */
type LineListener = (number: number, line: string) => void;

const MAX_LINES = 1000;
const MAX_UNITS = 2 * 1024 * 1024;

/**
 * Keeps the last lines of each kind, so that many of one kind do not push out the few of another, and passes new lines on. Without
 * listeners a line costs one place in a ring. Kinds are few, and named by the program.
 */
export class LineFeed {
  readonly #options: Required<LineFeedOptions>;
  readonly #rings = new Map<string, Ring>();
  readonly #listeners = new Set<LineListener>();
  #last = 0;

  constructor({ maxLines = MAX_LINES, maxUnits = MAX_UNITS }: LineFeedOptions = {}) {
    this.#options = { maxLines, maxUnits };
  }

  /** The number of the newest line; 0 before the first one. */
  get last(): number {
    return this.#last;
  }

  /** The number of the oldest kept line; `last + 1` if none is kept. */
  get first(): number {
    return Math.min(this.#last + 1, ...[...this.#rings.values()].map(({ first }) => first));
  }

  /** Takes a line, without a newline in it. Never waits. */
  push(line: string, kind = ''): void {
    let ring = this.#rings.get(kind);
    if (ring === undefined) this.#rings.set(kind, (ring = new Ring(this.#options)));
    ring.push(++this.#last, line);
    if (this.#listeners.size > 0) for (const listener of this.#listeners) listener(this.#last, line);
  }

  /** The kept lines of all kinds, oldest first. */
  kept(): NumberedLine[] {
    return [...this.#rings.values()].flatMap((ring) => ring.kept()).toSorted((a, b) => a.number - b.number);
  }

  /** Calls `listener` for each line from now on, until disposed. */
  subscribe(listener: LineListener): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }
}

/** The last lines of one kind. */
class Ring {
  readonly #lines: (string | undefined)[];
  readonly #numbers: number[];
  readonly #maxUnits: number;
  /** How many lines were added so far, including those no longer kept. */
  #taken = 0;
  #kept = 0;
  #units = 0;

  constructor({ maxLines, maxUnits }: Required<LineFeedOptions>) {
    this.#lines = Array.from({ length: maxLines }, () => undefined);
    this.#numbers = Array.from({ length: maxLines }, () => 0);
    this.#maxUnits = maxUnits;
  }

  /** The number of the oldest; infinite if none is kept. */
  get first(): number {
    return this.#kept === 0 ? Infinity : (this.#numbers[this.#place(this.#taken - this.#kept)] ?? Infinity);
  }

  push(number: number, line: string): void {
    if (this.#kept === this.#lines.length) this.#dropOldest();
    const place = this.#place(this.#taken++);
    this.#lines[place] = line;
    this.#numbers[place] = number;
    this.#kept++;
    this.#units += line.length;
    while (this.#units > this.#maxUnits) this.#dropOldest();
  }

  kept(): NumberedLine[] {
    return Array.from({ length: this.#kept }, (_, index) => {
      const place = this.#place(this.#taken - this.#kept + index);
      return { number: this.#numbers[place] ?? 0, line: this.#lines[place] ?? '' };
    });
  }

  #dropOldest(): void {
    const place = this.#place(this.#taken - this.#kept);
    this.#units -= this.#lines[place]?.length ?? 0;
    this.#lines[place] = undefined;
    this.#kept--;
  }

  #place(at: number): number {
    return at % this.#lines.length;
  }
}
