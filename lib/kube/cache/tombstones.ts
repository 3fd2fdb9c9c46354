import { compareVersions, isOlder } from '../object/resource-version.ts';

/** How many deletions are remembered individually. */
const LIMIT = 10_000;

/** Tells a new object from an old state of one that is gone (events may repeat), if versions compare. */
export class Tombstones {
  readonly #limit: number;
  /** Version of the deletion by key, in the order of the events. */
  readonly #deleted = new Map<string, string>();
  /** All changes up to this version have been seen: an absent object of an older version was deleted. */
  #floor = '';

  constructor(limit: number = LIMIT) {
    this.#limit = limit;
  }

  /** Whether this version of an absent object is older than its deletion. */
  covers(key: string, version: string): boolean {
    const notAfter = (known: string): boolean => (compareVersions(version, known) ?? 1) <= 0;
    return notAfter(this.#deleted.get(key) ?? '') || notAfter(this.#floor);
  }

  add(key: string, version: string): void {
    const known = this.#deleted.get(key);
    if (known !== undefined && isOlder(version, known)) return;
    this.#deleted.delete(key);
    this.#deleted.set(key, version);
    if (this.#deleted.size <= this.#limit) return;
    for (const [oldest, itsVersion] of this.#deleted) {
      // Events come in the order of versions, so this one and all before it have been seen.
      if (this.#floor === '' || isOlder(this.#floor, itsVersion)) this.#floor = itsVersion;
      this.#deleted.delete(oldest);
      return;
    }
  }

  delete(key: string): void {
    this.#deleted.delete(key);
  }

  /** A complete list of this version has come: what it lacks does not exist. */
  reset(version: string): void {
    this.#deleted.clear();
    this.#floor = version;
  }
}
