/** The client of OCI registries: fetches artifacts by reference, through mirrors and the cache on disk. */
import { isObject } from '../json/json.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import type { Logger } from '../telemetry/log.ts';
import type { ProxySettings } from '../net/proxy.ts';
import { type Clock, systemClock } from '../time/clock.ts';
import { credentialsKey } from './authentication.ts';
import { BlobCache } from './blob-cache.ts';
import { checkDigest, digestOf, isDigest } from './digest.ts';
import { endpointClient, type GetFromEndpoint } from './endpoint-client.ts';
import { type Answer, Exchange } from './exchange.ts';
import {
  acceptManifests,
  choosePlatform,
  type Descriptor,
  type Manifest,
  parseManifest,
} from './manifest.ts';
import { formatReference, parseReference, type Reference } from './reference.ts';
import { endpointsOf, noRegistriesConf, type RegistriesConf } from './registries-conf.ts';
import type { Artifact, Layer, PullOptions, Registry } from './registry.ts';
import { orAborted } from '../time/abort.ts';

export interface RegistryOptions {
  /** Shared with other processes that use the same cache; created if it is missing, accessible to its owner only. */
  readonly cacheDirectory: string;
  readonly limits?: {
    /** Limit for one layer. Default: 128 MiB. */
    readonly layerBytes?: number;
    /** Limit for the entire cache on disk. Default: 1 GiB. */
    readonly cacheBytes?: number;
  };
  readonly registriesConf?: RegistriesConf | undefined;
  /** Hosts (`registry.example`, `127.0.0.1:5000`) that may be accessed with any certificate, or without TLS. */
  readonly insecureSources?: readonly string[];
  /** Keyed by host: certificate authorities as PEM, besides those that the machine trusts. */
  readonly authorities?: Readonly<Record<string, readonly string[]>>;
  /** Default: those of the environment. */
  readonly proxies?: ProxySettings | undefined;
  /** A request fails after this long without a byte. Default: 15 s. */
  readonly idleTimeoutMs?: number | undefined;
  readonly logger: Logger;
  readonly clock?: Clock;
}

const defaults = { layerBytes: 128 << 20, cacheBytes: 1 << 30, idleTimeoutMs: 15_000 };
/** The limit of a manifest's size that registries have, too. */
const MAX_MANIFEST_BYTES = 4 << 20;

/** Node.js names of architectures, mapped to those of images. */
const architectures: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386', ppc64: 'ppc64le' };

/**
 * The caller disposes the registry: running fetches fail then.
 *
 * @throws {RampartError} `SYSTEM`, `FULL` if the cache cannot be created
 * @example
 * await using registry = await openRegistry({ cacheDirectory: '/var/lib/rampart/oci', logger });
 * const artifact = await registry.pull('registry.example/team/policy:v1', { signal });
 * for (const layer of artifact.layers) await use(await registry.layer(artifact, layer, { signal }));
 */
export async function openRegistry(options: RegistryOptions): Promise<Registry> {
  const cache = await BlobCache.open({
    directory: options.cacheDirectory,
    maxBytes: options.limits?.cacheBytes ?? defaults.cacheBytes,
    logger: options.logger,
  });
  return new CachingRegistry(options, cache);
}

/** A reference, with the credentials and the pull policy. */
interface Pull {
  readonly reference: Reference;
  /** As requested. */
  readonly text: string;
  readonly options: PullOptions;
  /** Represents the credentials. */
  readonly key: string;
}

class CachingRegistry implements Registry {
  readonly #cache: BlobCache;
  readonly #exchange: Exchange;
  readonly #get: GetFromEndpoint;
  readonly #conf: RegistriesConf;
  readonly #maxLayerBytes: number;
  readonly #logger: Logger;
  /** One of several concurrent requests for the same content fetches it, and the others find it in the cache. */
  readonly #fetching = new KeyedLock();

  constructor(options: RegistryOptions, cache: BlobCache) {
    const { logger, clock = systemClock, registriesConf = noRegistriesConf } = options;
    this.#cache = cache;
    this.#conf = registriesConf;
    this.#logger = logger;
    this.#maxLayerBytes = options.limits?.layerBytes ?? defaults.layerBytes;
    this.#exchange = new Exchange({
      authorities: new Map(Object.entries(options.authorities ?? {})),
      idleTimeoutMs: options.idleTimeoutMs ?? defaults.idleTimeoutMs,
      proxies: options.proxies,
    });
    const insecure = new Set(options.insecureSources);
    this.#get = endpointClient({ exchange: this.#exchange, insecure, clock, logger });
  }

  async pull(text: string, options: PullOptions = {}): Promise<Artifact> {
    const pull = this.#pullOf(text, options);
    const { digest: referenceDigest, stale } = await this.#resolve(pull);
    const wanted = options.platform ?? {
      os: 'linux',
      architecture: architectures[process.arch] ?? process.arch,
    };
    let digest = referenceDigest;
    let manifest = await this.#manifest(pull, digest);
    if (manifest.kind === 'index') {
      ({ digest } = choosePlatform(manifest, wanted, text));
      manifest = await this.#manifest(pull, digest);
      if (manifest.kind === 'index') {
        throw new RampartError(errorCodes.CORRUPT, {
          what: `${text} is an index of indexes`,
          why: 'nested indexes are not supported',
        });
      }
    }
    return {
      reference: text,
      digest,
      referenceDigest,
      ...(stale !== undefined && { stale }),
      config: await this.#config(pull, manifest),
      layers: manifest.layers,
    };
  }

  async layer(artifact: Artifact, layer: Layer, options: PullOptions = {}): Promise<Uint8Array> {
    const pull = this.#pullOf(artifact.reference, options);
    if (layer.sizeBytes > this.#maxLayerBytes) {
      throw new RampartError(errorCodes.LIMIT, {
        what: `the layer ${layer.digest} of ${artifact.reference} is too large`,
        why: `it has ${layer.sizeBytes} bytes, and the limit is ${this.#maxLayerBytes}`,
        next: 'Make it smaller, or raise the limit',
      });
    }
    return this.#blob(pull, layer, `the layer ${layer.digest} of ${artifact.reference}`);
  }

  async manifest(text: string, options: PullOptions = {}): Promise<Record<string, unknown>> {
    const pull = this.#pullOf(text, options);
    const { digest } = await this.#resolve(pull);
    const bytes = await this.#manifestBytes(pull, digest);
    // Throws if the manifest is malformed.
    parseManifest(bytes, text);
    return JSON.parse(Buffer.from(bytes).toString()) as Record<string, unknown>;
  }

  async digestOf(text: string, options: PullOptions = {}): Promise<string> {
    const pull = this.#pullOf(text, options);
    return (await this.#resolve({ ...pull, options: { policy: 'Always', ...options } })).digest;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#exchange[Symbol.dispose]();
  }

  #pullOf(text: string, options: PullOptions): Pull {
    const reference = parseReference(text);
    const credentials = options.credentials?.(reference.registry, reference.repository);
    return { reference, text, options, key: credentialsKey(credentials, this.#cache.salt) };
  }

  /** The digest that the reference resolves to with these credentials. */
  async #resolve(pull: Pull): Promise<{ readonly digest: string; readonly stale?: RampartError }> {
    const { reference, text, options, key } = pull;
    const policy = options.policy ?? 'IfNotPresent';
    const name = formatReference(reference);
    const known = await this.#cache.reference(name, key);
    // The content of a digest never changes.
    if (known !== undefined && (policy !== 'Always' || reference.digest !== undefined))
      return { digest: known };
    if (policy === 'Never') {
      throw new RampartError(errorCodes.NOT_FOUND, {
        what: `${text} is not in the cache`,
        why: 'it was never fetched with these credentials, and its pull policy is Never',
        next: 'Allow fetching it, with IfNotPresent or Always',
      });
    }
    try {
      const digest = await this.#ask(pull);
      await this.#cache.keepReference(name, key, digest);
      return { digest };
    } catch (error) {
      if (!(error instanceof RampartError)) throw error;
      // The image was removed, or access was revoked: the cached state is invalid.
      if (error.code === errorCodes.NOT_FOUND || error.code === errorCodes.PRIVILEGE) {
        await this.#cache.forgetReference(name, key);
      }
      if (error.code !== errorCodes.API_UNREACHABLE || known === undefined) throw error;
      this.#logger.warn(
        { err: error, reference: text, digest: known },
        'a registry is unavailable; using its last response',
      );
      return { digest: known, stale: error };
    }
  }

  /** Queries the registry for the digest. Fetches the manifest if the registry does not report it otherwise. */
  async #ask(pull: Pull): Promise<string> {
    const { digest, tag } = pull.reference;
    const path = `manifests/${digest ?? tag}`;
    const known = digest === undefined ? undefined : await this.#cache.blob(digest);
    if (digest === undefined || known !== undefined) {
      const answer = await this.#fetch(pull, path, 'HEAD', pull.text);
      const reported = answer.headers['docker-content-digest'];
      if (typeof reported === 'string' && isDigest(reported)) {
        if (digest === undefined || reported === digest) return reported;
      }
    }
    const { body } = await this.#fetch(pull, path, 'GET', pull.text);
    const own = digest ?? digestOf(body);
    checkDigest(body, own, `the manifest of ${pull.text}`);
    await this.#cache.keepBlob(own, body);
    return own;
  }

  async #manifest(pull: Pull, digest: string): Promise<ReturnType<typeof parseManifest>> {
    return parseManifest(await this.#manifestBytes(pull, digest), pull.text);
  }

  #manifestBytes(pull: Pull, digest: string): Promise<Uint8Array> {
    const what = `the manifest of ${pull.text}`;
    return this.#kept(digest, pull, what, () => this.#fetch(pull, `manifests/${digest}`, 'GET', what));
  }

  async #config(pull: Pull, { config }: Manifest): Promise<Record<string, unknown>> {
    if (config.sizeBytes > MAX_MANIFEST_BYTES) {
      throw new RampartError(errorCodes.LIMIT, {
        what: `the config of ${pull.text} is too large`,
        why: `it has ${config.sizeBytes} bytes, and the limit is ${MAX_MANIFEST_BYTES}`,
      });
    }
    const bytes = await this.#blob(pull, config, `the config of ${pull.text}`);
    try {
      const value: unknown = JSON.parse(Buffer.from(bytes).toString());
      return isObject(value) ? value : {};
    } catch {
      // Artifacts of other tools may have any kind of config.
      return {};
    }
  }

  async #blob(pull: Pull, { digest, sizeBytes }: Layer | Descriptor, what: string): Promise<Uint8Array> {
    const bytes = await this.#kept(digest, pull, what, () =>
      this.#fetch(pull, `blobs/${digest}`, 'GET', what, sizeBytes),
    );
    if (bytes.length === sizeBytes) return bytes;
    throw new RampartError(errorCodes.CORRUPT, {
      what: `${what} does not match its manifest`,
      why: `it has ${bytes.length} bytes, not ${sizeBytes}`,
    });
  }

  /** From the cache, or fetched; always verified. */
  async #kept(
    digest: string,
    { options, text }: Pull,
    what: string,
    fetch: () => Promise<Answer>,
  ): Promise<Uint8Array> {
    using _ = await this.#fetching.take(digest, options.signal);
    const there = await this.#cache.blob(digest);
    if (there !== undefined) return there;
    if (options.policy === 'Never') {
      throw new RampartError(errorCodes.NOT_FOUND, {
        what: `${what} is not in the cache`,
        why: `the pull policy of ${text} is Never`,
      });
    }
    const { body } = await fetch();
    checkDigest(body, digest, what);
    await this.#cache.keepBlob(digest, body);
    return body;
  }

  /** From the first endpoint that has it. */
  async #fetch(
    { reference, options }: Pull,
    path: string,
    method: 'GET' | 'HEAD',
    what: string,
    maxBytes = MAX_MANIFEST_BYTES,
  ): Promise<Answer> {
    const failures: RampartError[] = [];
    for (const endpoint of endpointsOf(reference, this.#conf)) {
      try {
        return await this.#get({
          endpoint,
          credentials: options.credentials?.(endpoint.registry, endpoint.repository),
          path,
          method,
          accept: path.startsWith('manifests/') ? acceptManifests : '*/*',
          maxBytes,
          what,
          signal: options.signal,
        });
      } catch (error) {
        if (!(error instanceof RampartError) || !mayBeElsewhere(error)) throw error;
        const { registry } = endpoint;
        this.#logger.debug({ err: error, registry }, 'a registry did not return an artifact');
        failures.push(error);
      }
    }
    throw worstOf(failures);
  }
}

function mayBeElsewhere({ code }: RampartError): boolean {
  return (
    code === errorCodes.NOT_FOUND || code === errorCodes.API_UNREACHABLE || code === errorCodes.PRIVILEGE
  );
}

/** The error to report: that of the last endpoint, which is the host in the name. Errors of mirrors are reported with it. */
function worstOf(failures: readonly RampartError[]): RampartError {
  const last = failures.at(-1);
  if (last === undefined) throw new TypeError('a reference without an endpoint');
  const [before] = failures;
  if (failures.length === 1 || before === undefined) return last;
  return new RampartError(last.code, {
    what: last.message,
    detail: failures
      .slice(0, -1)
      .map((each) => `Mirror: ${each.message}`)
      .join('\n'),
    cause: last,
  });
}

/** A lock for each key, granted in order of arrival. */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<void>>();

  /** Resolves when it is the caller's turn; the caller disposes the result. Rejects with the signal's reason. */
  async take(key: string, signal?: AbortSignal): Promise<Disposable> {
    signal?.throwIfAborted();
    const before = this.#tails.get(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    const tail = before === undefined ? promise : before.then(() => promise);
    this.#tails.set(key, tail);
    void tail.then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    });
    if (before !== undefined) {
      try {
        await orAborted(before, signal);
      } catch (error) {
        // Later callers wait for earlier ones all the same.
        resolve();
        throw error;
      }
    }
    return { [Symbol.dispose]: resolve };
  }
}
