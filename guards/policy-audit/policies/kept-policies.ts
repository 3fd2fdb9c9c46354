/**
 * The last version of each policy that could be evaluated, with its modules, on disk. After a restart it is used until the current
 * version can be evaluated: what was refused stays refused.
 *
 *     policies/HEX.json      by ID: the object and the digests of its modules
 *     blobs/, references/    the modules (lib/oci/blob-cache.ts)
 */
import { hash } from 'node:crypto';
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { errorCodes, fileError, RampartError } from '../../../lib/errors/errors.ts';
import { BlobCache } from '../../../lib/oci/blob-cache.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import type { FetchedModule, Modules } from '../modules/modules.ts';
import type { ModuleSource } from './open-policy.ts';

export interface KeptPoliciesOptions {
  /** Created if it is missing, accessible to its owner only. */
  readonly directory: string;
  /** This process's requirements for modules: modules kept under other requirements are not used. */
  readonly demands: string;
  readonly logger: Logger;
}

interface KeptRecord {
  readonly id: string;
  readonly demands: string;
  /** Terms of its PolicyServer, see {@link ModuleSource.terms}. */
  readonly terms: string;
  readonly object: AnyKubewardenPolicy;
  /** Digests of modules, keyed by URL. */
  readonly digests: Readonly<Record<string, string>>;
}

/** The modules that a policy has fetched while it was opened. */
export class FetchedModules {
  readonly byUrl = new Map<string, FetchedModule>();
  terms = '';

  /** Returns a source that records what is fetched through it. */
  through(source: ModuleSource): Pick<Modules, 'fetch'> {
    this.terms = source.terms;
    return {
      fetch: async (url, options) => {
        const module = await source.fetch(url, options);
        this.byUrl.set(url, module);
        return module;
      },
    };
  }
}

export class KeptPolicies {
  readonly #options: KeptPoliciesOptions;
  readonly #blobs: BlobCache;
  readonly #records: Map<string, KeptRecord>;
  /** Settles when the last change is done. Changes run one at a time, since each removes modules that no record names. */
  #changing: Promise<void> = Promise.resolve();

  private constructor(options: KeptPoliciesOptions, blobs: BlobCache, records: Map<string, KeptRecord>) {
    this.#options = options;
    this.#blobs = blobs;
    this.#records = records;
  }

  /**
   * @throws {RampartError} `SYSTEM`, `FULL` if the directory cannot be created
   * @example
   * const kept = await KeptPolicies.open({ directory: '/var/lib/rampart/policies/kept', demands: '', logger });
   * await kept.keep(policy.id, object, fetched);
   */
  static async open(options: KeptPoliciesOptions): Promise<KeptPolicies> {
    const { directory, logger } = options;
    const blobs = await BlobCache.open({ directory, maxBytes: Infinity, logger });
    const records = new Map<string, KeptRecord>();
    try {
      mkdirSync(join(directory, 'policies'), { recursive: true, mode: 0o700 });
      for (const name of await readdir(join(directory, 'policies'))) {
        const path = join(directory, 'policies', name);
        const record = await readRecord(path);
        if (record === undefined) await rm(path, { force: true });
        else records.set(record.id, record);
      }
    } catch (error) {
      throw fileError(`cannot keep policies in ${directory}`, error);
    }
    return new KeptPolicies(options, blobs, records);
  }

  /** The last evaluated version of a policy's object; undefined if it is not kept. */
  object(id: string): AnyKubewardenPolicy | undefined {
    const record = this.#records.get(id);
    return record?.demands === this.#options.demands ? record.object : undefined;
  }

  /** The modules of the kept version, as a source. */
  through(id: string): (source: ModuleSource) => Pick<Modules, 'fetch'> {
    return ({ terms }) => ({
      fetch: async (url) => {
        const record = this.#records.get(id);
        const digest = record?.terms === terms ? record.digests[url] : undefined;
        const bytes = digest === undefined ? undefined : await this.#blobs.blob(digest);
        if (digest !== undefined && bytes !== undefined) return { digest, bytes };
        throw new RampartError(errorCodes.NOT_FOUND, { what: `${url} is not kept` });
      },
    });
  }

  /** Keeps this version in place of the previous one. A failure is logged. */
  keep(id: string, object: AnyKubewardenPolicy, { byUrl, terms }: FetchedModules): Promise<void> {
    const { demands } = this.#options;
    const digests = Object.fromEntries(Array.from(byUrl, ([url, { digest }]) => [url, digest] as const));
    const { status: _status, ...rest } = object;
    const { managedFields: _fields, ...metadata } = rest.metadata;
    const written = { ...rest, metadata } as AnyKubewardenPolicy;
    const record: KeptRecord = { id, demands, terms, object: written, digests };
    const text = JSON.stringify(record);
    return this.#change(id, async () => {
      if (contentOf(this.#records.get(id)) === contentOf(record)) return;
      for (const { digest, bytes } of byUrl.values()) await this.#blobs.keepBlob(digest, bytes);
      const path = this.#pathOf(id);
      await writeFile(`${path}.tmp`, text, { mode: 0o600, flush: true });
      await rename(`${path}.tmp`, path);
      this.#records.set(id, record);
    });
  }

  /** Forgets all other policies: they no longer exist. */
  retain(ids: ReadonlySet<string>): Promise<void> {
    return this.#change('', async () => {
      for (const id of this.#records.keys()) if (!ids.has(id)) await this.#remove(id);
    });
  }

  forget(id: string): Promise<void> {
    return this.#change(id, () => this.#remove(id));
  }

  async #remove(id: string): Promise<void> {
    await rm(this.#pathOf(id), { force: true });
    this.#records.delete(id);
  }

  #change(policy: string, work: () => Promise<void>): Promise<void> {
    this.#changing = this.#changing.then(async () => {
      try {
        await work();
        const named = [...this.#records.values()].flatMap(({ digests }) => Object.values(digests));
        await this.#blobs.retain(new Set(named));
      } catch (err) {
        this.#options.logger.warn({ err, policy }, 'cannot keep a policy for the next start');
      }
    });
    return this.#changing;
  }

  #pathOf(id: string): string {
    return join(this.#options.directory, 'policies', `${hash('sha256', id)}.json`);
  }
}

/** The content of a record, without what changes with each write of the policy's status. */
function contentOf(record: KeptRecord | undefined): string {
  return JSON.stringify(record, (name, value: unknown) => (name === 'resourceVersion' ? undefined : value));
}

/** A record; undefined if the file is damaged, or was left by a killed process. */
async function readRecord(path: string): Promise<KeptRecord | undefined> {
  if (!path.endsWith('.json')) return undefined;
  try {
    const record = JSON.parse(await readFile(path, 'utf8')) as KeptRecord;
    return typeof record.id === 'string' && typeof record.object.metadata.uid === 'string'
      ? record
      : undefined;
  } catch {
    return undefined;
  }
}
