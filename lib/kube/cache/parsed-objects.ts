import { errorCodes, RampartError } from '../../errors/errors.ts';

/** At most `limit` objects, evicting the least recently read; garbage collection may take any of them. */
export class ParsedObjects<T extends object> {
  readonly #limit: number;
  /** In the order of their last read. */
  readonly #objects = new Map<string, WeakRef<T>>();

  /** @throws {RampartError} `INPUT` for an invalid limit. */
  constructor(limit: number) {
    if (!Number.isSafeInteger(limit) || limit < 0) {
      throw new RampartError(errorCodes.INPUT, {
        what: `a limit of ${limit} objects`,
        why: 'it is not an integer of at least 0',
      });
    }
    this.#limit = limit;
  }

  get(key: string): T | undefined {
    const known = this.#objects.get(key);
    if (known === undefined) return undefined;
    this.#objects.delete(key);
    const object = known.deref();
    if (object !== undefined) this.#objects.set(key, known);
    return object;
  }

  /** Like `get`, but does not count as a read. */
  peek(key: string): T | undefined {
    return this.#objects.get(key)?.deref();
  }

  set(key: string, object: T): void {
    this.#objects.delete(key);
    this.#objects.set(key, new WeakRef(object));
    if (this.#objects.size <= this.#limit) return;
    for (const oldest of this.#objects.keys()) {
      this.#objects.delete(oldest);
      return;
    }
  }

  delete(key: string): void {
    this.#objects.delete(key);
  }
}
