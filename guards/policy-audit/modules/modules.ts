/**
 * Where the modules of policies come from: `registry://`, `https://`, `file://`. `openModules` (open-modules.ts) creates one.
 */
import type { CredentialsSource, Registry } from '../../../lib/oci/registry.ts';
import type { Sources } from './sources.ts';
import type { TrustRoot } from '../../../lib/oci/signatures/trust-root.ts';
import type { Verification } from '../../../lib/oci/signatures/verification.ts';

/** How to configure the trust root of keyless signatures, for messages. */
export const trustRootHint =
  'Set one with --sigstore-trust-config, or in sigstoreTrustConfig of the PolicyServer';

/** A PolicyServer's settings for the sources of its modules. */
export interface ModuleTerms {
  /** Added to those of the process. */
  readonly sources?: Sources;
  /** Replaces the verification of the process. */
  readonly verification?: Verification;
  /** Replaces the trust root of the process. */
  readonly trustRoot?: TrustRoot;
}

export interface FetchOptions {
  /** Credentials for registries, from `imagePullSecret` (lib/oci/pull-secrets.ts). */
  readonly pullSecret?: CredentialsSource | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A WebAssembly module. */
export interface FetchedModule {
  /** Digest of the bytes: `sha256:...`. Two policies with the same digest run the same code. */
  readonly digest: string;
  readonly bytes: Uint8Array;
  /** Digest of the manifest, for a module from a registry: pins it as `repository@sha256:...`. */
  readonly manifestDigest?: string;
  /** Set if these are cached bytes since the source could not be queried: the reason. */
  readonly stale?: string;
}

export interface Modules extends AsyncDisposable {
  /**
   * The module, with its signatures verified if required. Each call asks the source for the current digest of the
   * name. The bytes are fetched only once, and checked against their digest each time.
   *
   * @param url - Without a scheme, `registry://` is assumed, as in Kubewarden.
   * @throws {RampartError} `INPUT` for a malformed URL or module; `NOT_FOUND`; `API_UNREACHABLE`; `PRIVILEGE` also
   * for missing or wrong signatures; `CORRUPT`; `LIMIT`; `SYSTEM` for files that cannot be read
   */
  fetch(url: string, options?: FetchOptions): Promise<FetchedModule>;
  /**
   * The registries that modules come from, for policies that query them. Disposed with the modules. @throws
   * {RampartError} `SYSTEM`, `FULL`
   */
  registry(): Promise<Omit<Registry, typeof Symbol.asyncDispose>>;
  /** The trust root for image signatures that policies verify. @throws {RampartError} like `registry` */
  trustRoot(): Promise<TrustRoot | undefined>;
}
