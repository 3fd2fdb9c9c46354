/**
 * Modules whose cache is created when the first one is fetched: CEL policies need no disk space, and the operator's disk may be
 * read-only.
 */
import { hash, KeyObject } from 'node:crypto';

import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import type { FetchedModule, FetchOptions, ModuleTerms, Modules } from './modules.ts';

class LazyModules implements Modules {
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

  async trustRoot(): ReturnType<Modules['trustRoot']> {
    return (await this.#modules()).trustRoot();
  }

  async #modules(): Promise<Modules> {
    this.#opened ??= this.#open();
    try {
      return await this.#opened;
    } catch (error) {
      // The next policy opens the modules again.
      this.#opened = undefined;
      if (error instanceof RampartError) throw error;
      throw new RampartError(errorCodes.SYSTEM, {
        what: 'cannot store policy modules',
        why: messageOf(error),
        next: 'Name a writable directory with --policy-modules',
        cause: error,
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (await this.#opened?.catch(() => undefined))?.[Symbol.asyncDispose]();
  }
}

/** Modules for each PolicyServer, by its settings; PolicyServers with the same settings share them. */
export class ModulesByTerms implements AsyncDisposable {
  readonly #open: (terms: ModuleTerms, part: string) => Promise<Modules>;
  readonly #modules = new Map<string, LazyModules>();

  /**
   * @param open - Gets the name of the modules' cache directory, below the common one: '' without settings. The
   * directories differ so that no PolicyServer uses modules from a source that only another one allows.
   */
  constructor(open: (terms: ModuleTerms, part: string) => Promise<Modules>) {
    this.#open = open;
  }

  of(terms: ModuleTerms): Modules {
    const part = termsName(terms);
    let modules = this.#modules.get(part);
    if (modules === undefined)
      this.#modules.set(part, (modules = new LazyModules(() => this.#open(terms, part))));
    return modules;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#modules.values()].map((modules) => modules[Symbol.asyncDispose]()));
  }
}

/** A name for these settings: the same for equal settings; '' without any. */
export function termsName(terms: ModuleTerms): string {
  const isPlain = Object.values(terms).every((term) => term === undefined);
  return isPlain ? '' : `terms-${hash('sha256', textOf(terms)).slice(0, 16)}`;
}

/** JSON of the settings; keys of signers are objects, which have to be exported. */
function textOf(terms: ModuleTerms): string {
  return JSON.stringify(terms, (_name, value: unknown) =>
    value instanceof KeyObject ? value.export({ type: 'spki', format: 'pem' }) : value,
  );
}
