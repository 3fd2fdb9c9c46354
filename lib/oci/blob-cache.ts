/**
 * Content by digest on disk, and the digests that references last resolved to. Content is checked at each
 * read; the least recently used content is removed when the cache is full.
 *
 *     blobs/sha256-<hex>      content
 *     references/<hex>        by reference and credentials: {"reference", "digest"}
 */
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { fileError, RampartError } from '../errors/errors.ts';
import type { Logger } from '../telemetry/log.ts';
import { agrees, digestOf, isDigest } from './digest.ts';

interface BlobCacheOptions {
  readonly directory: string;
  /** Limit of the total size of all blobs. */
  readonly maxBytes: number;
  readonly logger: Logger;
}

/** Limit of references; each takes some 200 bytes. */
const MAX_REFERENCES = 10_000;
/** Age at which a temporary file counts as left by a killed process: no write takes this long. */
const ABANDONED_MS = 3600_000;

export class BlobCache {
  readonly #blobs: string;
  readonly #references: string;
  readonly #maxBytes: number;
  readonly #logger: Logger;
  /** The secret of this cache: credentials cannot be guessed from its keys. */
  readonly salt: string;

  private constructor(options: BlobCacheOptions, salt: string) {
    this.#blobs = join(options.directory, 'blobs');
    this.#references = join(options.directory, 'references');
    this.#maxBytes = options.maxBytes;
    this.#logger = options.logger;
    this.salt = salt;
  }

  /** Creates the directory if it is missing. @throws {RampartError} `SYSTEM`, `FULL` */
  static async open(options: BlobCacheOptions): Promise<BlobCache> {
    try {
      for (const name of ['', 'blobs', 'references']) {
        const path = join(options.directory, name);
        await mkdir(path, { recursive: true, mode: 0o700 });
        await chmod(path, 0o700);
      }
      const cache = new BlobCache(options, await saltOf(options.directory));
      await cache.#trim();
      return cache;
    } catch (error) {
      if (error instanceof RampartError) throw error;
      throw fileError(`cannot store artifacts in ${options.directory}`, error);
    }
  }

  /** The content; undefined if it is not cached. Damaged content is removed, and logged. */
  async blob(digest: string): Promise<Uint8Array | undefined> {
    const path = this.#pathOf(digest);
    let bytes: Uint8Array;
    try {
      bytes = await readFile(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
        this.#logger.warn({ err: error, digest }, 'cannot read a cached artifact; fetching it again');
      }
      return undefined;
    }
    if (!agrees(bytes, digest)) {
      this.#logger.warn({ digest, path }, 'a cached artifact is damaged; fetching it again');
      await rm(path, { force: true });
      return undefined;
    }
    const now = new Date();
    // The file may have been removed meanwhile: then it needs no mark.
    await utimes(path, now, now).catch(() => undefined);
    return bytes;
  }

  /** Stores verified content. A failure to store it is only logged. */
  async keepBlob(digest: string, bytes: Uint8Array): Promise<void> {
    if (bytes.length > this.#maxBytes) {
      this.#logger.warn({ digest, bytes: bytes.length }, 'an artifact exceeds the cache size; not cached');
      return;
    }
    await this.#write(this.#pathOf(digest), bytes);
    await this.#trim(this.#pathOf(digest));
  }

  /** Removes all content except these digests. */
  async retain(digests: ReadonlySet<string>): Promise<void> {
    const kept = new Set([...digests].map((digest) => this.#pathOf(digest)));
    for (const { path } of await entriesOf(this.#blobs)) if (!kept.has(path)) await rm(path, { force: true });
  }

  /** The digest that a reference last resolved to with the credentials of `key`. */
  async reference(reference: string, key: string): Promise<string | undefined> {
    try {
      const text = await readFile(this.#referencePath(reference, key), 'utf8');
      const kept = JSON.parse(text) as { reference?: unknown; digest?: unknown };
      const { digest } = kept;
      return kept.reference === reference && typeof digest === 'string' && isDigest(digest)
        ? digest
        : undefined;
    } catch {
      return undefined;
    }
  }

  async keepReference(reference: string, key: string, digest: string): Promise<void> {
    if ((await this.reference(reference, key)) === digest) return;
    await this.#write(
      this.#referencePath(reference, key),
      Buffer.from(JSON.stringify({ reference, digest })),
    );
  }

  /** Call it once the registry has said that the reference does not exist, or is not accessible with the credentials of `key`. */
  async forgetReference(reference: string, key: string): Promise<void> {
    await rm(this.#referencePath(reference, key), { force: true });
  }

  #pathOf(digest: string): string {
    if (!isDigest(digest)) throw new TypeError(`${digest} is not a digest`);
    return join(this.#blobs, digest.replace(':', '-'));
  }

  #referencePath(reference: string, key: string): string {
    return join(this.#references, digestOf(Buffer.from(`${reference}\n${key}`)).slice('sha256:'.length));
  }

  /** Atomic, even if the power fails. */
  async #write(path: string, bytes: Uint8Array): Promise<void> {
    const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
    try {
      await writeFile(temporary, bytes, { flag: 'wx', mode: 0o600, flush: true });
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => undefined);
      this.#logger.warn({ err: error, path }, 'cannot cache an artifact; it will be fetched again');
    }
  }

  /** Removes the least recently used content until the rest fits; `keep` stays. */
  async #trim(keep?: string): Promise<void> {
    const blobs = await entriesOf(this.#blobs);
    let sizeBytes = blobs.reduce((sum, blob) => sum + blob.sizeBytes, 0);
    for (const { path, sizeBytes: own } of blobs) {
      if (sizeBytes <= this.#maxBytes) break;
      if (path === keep) continue;
      await rm(path, { force: true });
      sizeBytes -= own;
    }
    const references = await entriesOf(this.#references);
    for (const { path } of references.slice(0, Math.max(0, references.length - MAX_REFERENCES))) {
      await rm(path, { force: true });
    }
  }
}

interface FileEntry {
  readonly path: string;
  readonly sizeBytes: number;
  readonly usedMs: number;
}

/** The least recently used first. Leftovers of old writes are removed. */
async function entriesOf(directory: string): Promise<FileEntry[]> {
  const entries: FileEntry[] = [];
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    const stats = await stat(path).catch(() => undefined);
    if (stats === undefined) continue;
    if (!name.endsWith('.tmp')) entries.push({ path, sizeBytes: stats.size, usedMs: stats.mtimeMs });
    else if (Date.now() - stats.mtimeMs > ABANDONED_MS) await rm(path, { force: true });
  }
  return entries.sort((a, b) => a.usedMs - b.usedMs);
}

async function saltOf(directory: string): Promise<string> {
  const path = join(directory, 'salt');
  for (;;) {
    try {
      const text = await readFile(path, 'utf8');
      if (/^[0-9a-f]{64}$/.test(text)) return text;
      // The file is incomplete. With a new salt, the references stored so far are not found, and are resolved again.
      await rm(path, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    try {
      await writeFile(path, randomBytes(32).toString('hex'), { flag: 'wx', mode: 0o600 });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}
