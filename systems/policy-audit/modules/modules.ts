/**
 * Where the modules of policies come from: `registry://`, `https://`, `file://`. `openModules` (open-modules.ts) makes one.
 */
import type { CredentialsSource, Registry } from '../../../shared/oci/registry.ts';
import type { Sources } from './sources.ts';
import type { TrustRoot } from './trust-root.ts';
import type { Verification } from './verification.ts';

/** What a PolicyServer says of where its modules come from. */
export interface ModuleTerms {
  /** Besides those of the process. */
  readonly sources?: Sources;
  /** In place of that of the process. */
  readonly verification?: Verification;
  /** In place of that of the process. */
  readonly trustRoot?: TrustRoot;
}

export interface FetchOptions {
  /** For registries: of `imagePullSecret` (shared/oci/pull-secrets.ts). */
  readonly pullSecret?: CredentialsSource | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A WebAssembly module. */
export interface FetchedModule {
  /** Of the bytes: `sha256:...`. Two policies with the same digest run the same code. */
  readonly digest: string;
  readonly bytes: Uint8Array;
  /** Of the manifest, for what comes from a registry: to name it for ever as `repository@sha256:...`. */
  readonly manifestDigest?: string;
  /** Why the source could not be asked, where these are the bytes that it had before. */
  readonly stale?: string;
}

export interface Modules extends AsyncDisposable {
  /**
   * The module, its signatures verified where that is asked for. The source is asked each time whether a name points at something
   * else now; the bytes are fetched once, and are checked against their digest each time.
   *
   * @param url - Without a scheme it is that of a registry, as in Kubewarden.
   * @throws {RampartError} `INPUT` for a URL that is none, or a module that is none; `NOT_FOUND`; `API_UNREACHABLE`; `PRIVILEGE` also
   *   for signatures that are not as they have to be; `CORRUPT`; `LIMIT`; `SYSTEM` for files that cannot be read
   */
  fetch(url: string, options?: FetchOptions): Promise<FetchedModule>;
  /** The registries that modules come from, for what policies ask them. It goes with the modules. @throws {RampartError} `SYSTEM`, `FULL` */
  registry(): Promise<Omit<Registry, typeof Symbol.asyncDispose>>;
  /** For the signatures of images that policies ask about. @throws {RampartError} as `registry` */
  trustRoot(): Promise<TrustRoot | undefined>;
}
