/**
 * The parts of an OCI registry that Rampart needs: an artifact by its reference, verified against its
 * digests, from the cache on disk if possible. `openRegistry` (open-registry.ts) creates one.
 */

import type { RampartError } from '../errors/errors.ts';

/** When the registry is queried: like `imagePullPolicy` of a container. */
type PullPolicy = 'Always' | 'IfNotPresent' | 'Never';

/** For a registry that requires an identity token (`identitytoken` of a Docker config), the username is `<token>`. */
export interface Credentials {
  readonly username: string;
  readonly password: string;
}

/** Called with the registry's host (`ghcr.example:5000`) and repository. */
export type CredentialsSource = (registry: string, repository: string) => Credentials | undefined;

export interface PullOptions {
  /** Default: `IfNotPresent`. */
  readonly policy?: PullPolicy;
  /** Content fetched with credentials is returned from the cache only for the same credentials. */
  readonly credentials?: CredentialsSource | undefined;
  /** Which entry of an index to use. Default: linux and this machine's architecture. */
  readonly platform?: { readonly os: string; readonly architecture: string };
  readonly signal?: AbortSignal | undefined;
}

/** The artifact that a reference points at now. */
export interface Artifact {
  /** `registry.example/team/policy:v1` as requested. */
  readonly reference: string;
  /** Digest of the manifest: `sha256:...`. */
  readonly digest: string;
  /**
   * The digest that the reference itself points at, to compare with `digestOf`: that of the index if it is
   * one, otherwise `digest`.
   */
  readonly referenceDigest: string;
  /** Set if the registry could not be queried, and this is what the reference last pointed at: why it could not. */
  readonly stale?: RampartError;
  /** The decoded config; `{}` if it is empty or not a JSON object. */
  readonly config: Record<string, unknown>;
  readonly layers: readonly Layer[];
}

export interface Layer {
  readonly mediaType: string;
  readonly digest: string;
  readonly sizeBytes: number;
  readonly annotations: Readonly<Record<string, string>>;
}

/** A client of registries. It rejects content above the limits that it was opened with. */
export interface Registry extends AsyncDisposable {
  /** @throws {RampartError} `NOT_FOUND`, `INPUT` (malformed reference), `API_UNREACHABLE`, `PRIVILEGE` (refused), `CORRUPT`, `LIMIT` */
  pull(reference: string, options?: PullOptions): Promise<Artifact>;
  /** The bytes of a layer, as stored; the digest is verified each time. */
  layer(artifact: Artifact, layer: Layer, options?: PullOptions): Promise<Uint8Array>;
  /** The manifest or index that a reference points at, as stored in the registry. */
  manifest(reference: string, options?: PullOptions): Promise<Record<string, unknown>>;
  /** The digest that a tag points at, without fetching the content. */
  digestOf(reference: string, options?: PullOptions): Promise<string>;
}
