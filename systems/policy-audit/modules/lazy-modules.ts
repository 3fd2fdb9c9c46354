/**
 * Modules whose cache is made when the first one is fetched: policies of CEL need no place on a disk, and the operator's may be
 * read-only.
 *
 * @module
 */
import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';
import type { FetchedModule, FetchOptions, Modules } from './modules.ts';

export class LazyModules implements Modules {
  readonly #open: () => Promise<Modules>;
  #opened: Promise<Modules> | undefined;

  constructor(open: () => Promise<Modules>) {
    this.#open = open;
  }

  async fetch(url: string, options?: FetchOptions): Promise<FetchedModule> {
    return (await this.#modules()).fetch(url, options);
  }

  async registry(): ReturnType<Modules['registry']> {
    return (await this.#modules()).registry();
  }

  async #modules(): Promise<Modules> {
    this.#opened ??= this.#open();
    try {
      return await this.#opened;
    } catch (error) {
      // The next policy tries again.
      this.#opened = undefined;
      if (error instanceof RampartError) throw error;
      throw new RampartError(errorCodes.SYSTEM, {
        what: 'policy modules cannot be stored',
        why: error instanceof Error ? error.message : String(error),
        next: 'Name a writable directory with --policy-modules',
        cause: error,
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (await this.#opened?.catch(() => undefined))?.[Symbol.asyncDispose]();
  }
}
