/** Fetches modules of policies from their URLs. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { BlobCache } from '../../../lib/oci/blob-cache.ts';
import { digestOf } from '../../../lib/oci/digest.ts';
import { everyWay, Exchange, ExchangeError, type Security } from '../../../lib/oci/exchange.ts';
import { openRegistry } from '../../../lib/oci/open-registry.ts';
import { isHtml } from '../../../lib/oci/html.ts';
import { hostName } from '../../../lib/oci/reference.ts';
import type { Layer, PullOptions, Registry } from '../../../lib/oci/registry.ts';
import { type FetchedModule, type FetchOptions, type Modules, trustRootHint } from './modules.ts';
import { noSources, type Sources } from './sources.ts';
import { verifySignatures } from '../../../lib/oci/signatures/signatures.ts';
import type { TrustRoot } from '../../../lib/oci/signatures/trust-root.ts';
import type { Verification } from '../../../lib/oci/signatures/verification.ts';
import { unreadable } from '../../../lib/files/yaml-file.ts';

export interface ModulesOptions {
  /** Created if it is missing, accessible to its owner only. */
  readonly cacheDirectory: string;
  readonly sources?: Sources | undefined;
  /** If set, modules without these signatures are refused, and so are all modules that cannot be signed. */
  readonly verification?: Verification | undefined;
  /** Verifies keyless signatures of modules, and of the images that policies verify. */
  readonly trustRoot?: TrustRoot | undefined;
  /** Limit for one module. Default: 64 MiB. */
  readonly maxModuleBytes?: number;
  readonly logger: Logger;
}

const MAX_MODULE_BYTES = 64 << 20;
/** Limit of all cached modules, once for registries and once for other servers. */
const CACHE_BYTES = 1 << 30;
/** A request fails if no byte arrives for this long. */
const IDLE_TIMEOUT_MS = 15_000;
const layerTypes: ReadonlySet<string> = new Set([
  'application/vnd.wasm.content.layer.v1+wasm',
  'application/wasm',
]);

/**
 * The caller disposes the result.
 *
 * @throws {RampartError} `SYSTEM`, `FULL` if the cache cannot be created
 * @example
 * await using modules = await openModules({ cacheDirectory: '/var/lib/rampart/modules', logger });
 * const { bytes, digest } = await modules.fetch('registry://registry.example/policies/no-latest:v1', { signal });
 */
export async function openModules(options: ModulesOptions): Promise<Modules> {
  const { cacheDirectory, sources = noSources, maxModuleBytes = MAX_MODULE_BYTES, logger } = options;
  const registry = await openRegistry({
    cacheDirectory: join(cacheDirectory, 'registries'),
    limits: { layerBytes: maxModuleBytes, cacheBytes: CACHE_BYTES },
    insecureSources: sources.insecure,
    authorities: sources.authorities,
    proxies: sources.proxies,
    logger,
  });
  const cache = await BlobCache.open({
    directory: join(cacheDirectory, 'https'),
    maxBytes: CACHE_BYTES,
    logger,
  });
  return new SourcedModules(options, registry, cache);
}

class SourcedModules implements Modules {
  readonly #options: ModulesOptions;
  readonly #registry: Registry;
  readonly #cache: BlobCache;
  readonly #exchange: Exchange;
  readonly #maxBytes: number;

  constructor(options: ModulesOptions, registry: Registry, cache: BlobCache) {
    this.#options = options;
    this.#registry = registry;
    this.#cache = cache;
    this.#maxBytes = options.maxModuleBytes ?? MAX_MODULE_BYTES;
    this.#exchange = new Exchange({
      authorities: new Map(Object.entries(options.sources?.authorities ?? {})),
      proxies: options.sources?.proxies,
      idleTimeoutMs: IDLE_TIMEOUT_MS,
    });
  }

  async fetch(text: string, options: FetchOptions = {}): Promise<FetchedModule> {
    options.signal?.throwIfAborted();
    const url = parseModuleUrl(text);
    if (url.scheme !== 'registry' && this.#options.verification !== undefined) {
      throw new RampartError(errorCodes.PRIVILEGE, {
        what: `cannot run ${text}`,
        why: 'signatures are required, and only modules from a registry can have them',
        next: 'Push it to a registry and sign it',
      });
    }
    if (url.scheme === 'registry') return this.#fromRegistry(url.reference, options);
    if (url.scheme === 'file') return this.#fromFile(url.path, text);
    return this.#fromServer(url.url, options);
  }

  registry(): Promise<Registry> {
    return Promise.resolve(this.#registry);
  }

  trustRoot(): Promise<TrustRoot | undefined> {
    return Promise.resolve(this.#options.trustRoot);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#exchange[Symbol.dispose]();
    await this.#registry[Symbol.asyncDispose]();
  }

  async #fromRegistry(reference: string, { pullSecret, signal }: FetchOptions): Promise<FetchedModule> {
    const pull: PullOptions = {
      policy: 'Always',
      credentials: pullSecret,
      signal,
    };
    const artifact = await this.#registry.pull(reference, pull);
    const { verification, trustRoot } = this.#options;
    if (verification !== undefined) {
      await verifySignatures(this.#registry, artifact, { verification, trustRoot, trustRootHint }, pull);
    }
    const bytes = await this.#registry.layer(artifact, moduleLayer(artifact.layers, reference), pull);
    return {
      ...checked(bytes, reference),
      manifestDigest: artifact.digest,
      ...(artifact.stale !== undefined && { stale: artifact.stale.message }),
    };
  }

  async #fromFile(path: string, text: string): Promise<FetchedModule> {
    try {
      await using file = await open(path, 'r');
      const stats = await file.stat();
      if (!stats.isFile())
        throw new RampartError(errorCodes.INPUT, { what: `${text} is not a regular file` });
      if (stats.size > this.#maxBytes) throw tooLarge(text, stats.size, this.#maxBytes);
      return checked(await file.readFile(), text);
    } catch (error) {
      throw error instanceof RampartError ? error : unreadable(text, error);
    }
  }

  async #fromServer(url: URL, { signal }: FetchOptions): Promise<FetchedModule> {
    const name = url.href;
    try {
      const bytes = await this.#download(url, signal);
      const found = checked(bytes, name);
      await this.#cache.keepBlob(found.digest, bytes);
      await this.#cache.keepReference(name, '', found.digest);
      return found;
    } catch (error) {
      if (!(error instanceof RampartError) || error.code !== errorCodes.API_UNREACHABLE) throw error;
      const digest = await this.#cache.reference(name, '');
      const bytes = digest === undefined ? undefined : await this.#cache.blob(digest);
      if (digest === undefined || bytes === undefined) throw error;
      this.#options.logger.warn(
        { err: error, module: name },
        'the server of a module is unavailable; using its last response',
      );
      return { digest, bytes, stale: error.message };
    }
  }

  /** Tries the ways that are allowed for the host, the most secure one first. */
  async #download(url: URL, signal: AbortSignal | undefined): Promise<Uint8Array> {
    const { insecure } = this.#options.sources ?? noSources;
    const mayBeInsecure = insecure.includes(url.host) || insecure.includes(hostName(url.host));
    if (url.protocol === 'http:' && !mayBeInsecure) {
      throw new RampartError(errorCodes.INPUT, {
        what: `cannot fetch ${url.href}`,
        why: 'the connection would not use TLS',
        next: `Use https://, or add ${url.host} to insecure_sources in sources.yml`,
      });
    }
    const ways =
      url.protocol === 'http:' ? (['plain'] as const) : mayBeInsecure ? everyWay : (['verified'] as const);
    let failure: ExchangeError | undefined;
    for (const security of ways) {
      const target = new URL(url);
      if (security === 'plain') target.protocol = 'http:';
      try {
        return await this.#ask(target, security, signal);
      } catch (error) {
        if (!(error instanceof ExchangeError)) throw error;
        signal?.throwIfAborted();
        failure ??= error;
      }
    }
    throw new RampartError(errorCodes.API_UNREACHABLE, {
      what: `cannot fetch ${url.href}`,
      why: failure?.message ?? 'no endpoint is usable',
      ...(failure?.tls === true && { next: `Add its certificate authority to sources.yml` }),
      cause: failure,
    });
  }

  async #ask(url: URL, security: Security, signal: AbortSignal | undefined): Promise<Uint8Array> {
    const what = `the module ${url.href}`;
    const { status, body } = await this.#exchange.ask({
      url,
      security,
      maxBytes: this.#maxBytes,
      what,
      signal,
    });
    if (status === 200) return body;
    const code =
      status === 404 || status === 410
        ? errorCodes.NOT_FOUND
        : status === 401 || status === 403
          ? errorCodes.PRIVILEGE
          : errorCodes.API_UNREACHABLE;
    throw new RampartError(code, { what: `cannot fetch ${url.href}`, why: `${url.host} answers ${status}` });
  }
}

function moduleLayer(layers: readonly Layer[], reference: string): Layer {
  const [layer, second] = layers.filter(({ mediaType }) => layerTypes.has(mediaType));
  if (layer !== undefined && second === undefined) return layer;
  throw new RampartError(errorCodes.INPUT, {
    what: `${reference} is not a policy`,
    why:
      layer === undefined
        ? `it has no WebAssembly layer, but ${layers.map(({ mediaType }) => mediaType || 'none').join(', ') || 'no layers'}`
        : 'it has more than one WebAssembly layer',
    next: 'Push the module as a single layer of type application/vnd.wasm.content.layer.v1+wasm, as `kwctl push` does',
  });
}

function checked(bytes: Uint8Array, what: string): FetchedModule {
  // "\0asm": https://webassembly.github.io/spec/core/binary/modules.html
  if (!Buffer.from('\0asm').equals(bytes.subarray(0, 4))) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${what} is not a WebAssembly module`,
      why: isHtml(bytes) ? 'it is an HTML page, for example of a login or an error' : 'its header is missing',
    });
  }
  return { digest: digestOf(bytes), bytes };
}

function tooLarge(what: string, sizeBytes: number, limit: number): RampartError {
  return new RampartError(errorCodes.LIMIT, {
    what: `${what} is too large`,
    why: `it has ${sizeBytes} bytes, and the limit is ${limit}`,
  });
}

/** The `module` of a policy, parsed. */
type ModuleUrl =
  | { readonly scheme: 'registry'; readonly reference: string }
  | { readonly scheme: 'http' | 'https'; readonly url: URL }
  | { readonly scheme: 'file'; readonly path: string };

/** @throws {RampartError} `INPUT` */
function parseModuleUrl(text: string): ModuleUrl {
  const refuse = (why: string): RampartError =>
    new RampartError(errorCodes.INPUT, {
      what: `${JSON.stringify(text.slice(0, 200))} is not a policy module`,
      why,
      next: 'Use registry://host/repository:tag, https://host/policy.wasm or file:///path/policy.wasm',
    });
  const scheme = /^([a-zA-Z][a-zA-Z0-9+.-]*):\/\//.exec(text)?.[1]?.toLowerCase() ?? 'registry';
  const rest = text.replace(/^[a-zA-Z][a-zA-Z0-9+.-]*:\/\//, '');
  if (rest === '') throw refuse('it names no module');
  if (scheme === 'registry') return { scheme, reference: rest };
  if (scheme === 'file') {
    if (!rest.startsWith('/')) throw refuse('the path of a file:// URL must begin with "/"');
    try {
      return { scheme, path: decodeURIComponent(rest) };
    } catch {
      throw refuse('its percent-encoding is malformed');
    }
  }
  if (scheme === 'https' || scheme === 'http') {
    if (!URL.canParse(text)) throw refuse('it is not a URL');
    const url = new URL(text);
    if (url.username !== '' || url.password !== '') throw refuse('a URL must not contain credentials');
    return { scheme, url };
  }
  throw refuse(`${scheme}:// is not supported`);
}
