/**
 * What guards need of an OCI registry: an artifact by its reference, checked against its digests, from the cache on disk where it
 * is there. `openRegistry` (open-registry.ts) makes one.
 */

/** When the registry is asked: as `imagePullPolicy` of a container. */
type PullPolicy = 'Always' | 'IfNotPresent' | 'Never';

/** For a registry that wants an identity token (`identitytoken` of a Docker config), the username is `<token>`. */
export interface Credentials {
  readonly username: string;
  readonly password: string;
}

/** Asked with the registry's host (`ghcr.example:5000`) and repository. */
export type CredentialsSource = (registry: string, repository: string) => Credentials | undefined;

export interface PullOptions {
  /** Default: `IfNotPresent`. */
  readonly policy?: PullPolicy;
  /** What was fetched with credentials is given from the cache to those only who have the same. */
  readonly credentials?: CredentialsSource | undefined;
  /** Of an index, the entry that is taken. Default: linux and this machine's architecture. */
  readonly platform?: { readonly os: string; readonly architecture: string };
  readonly signal?: AbortSignal | undefined;
}

/** What a reference points at now. */
export interface Artifact {
  /** `registry.example/team/policy:v1` as it was asked for. */
  readonly reference: string;
  /** Of the manifest: `sha256:...`. */
  readonly digest: string;
  /** What the reference itself points at, to compare with `digestOf`: the digest of an index where it is one, else `digest`. */
  readonly referenceDigest: string;
  /** Why the registry could not be asked, where this is what the reference pointed at before. */
  readonly stale?: string;
  readonly artifactType: string | undefined;
  readonly annotations: Readonly<Record<string, string>>;
  /** The decoded config; `{}` where it is empty, or no JSON object. */
  readonly config: Record<string, unknown>;
  readonly configMediaType: string;
  readonly layers: readonly Layer[];
}

export interface Layer {
  readonly mediaType: string;
  readonly digest: string;
  readonly sizeBytes: number;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Refuses to hold what is larger than the limits it was opened with. */
export interface Registry extends AsyncDisposable {
  /** @throws {RampartError} `NOT_FOUND`, `INPUT` (malformed reference), `API_UNREACHABLE`, `PRIVILEGE` (refused), `CORRUPT`, `LIMIT` */
  pull(reference: string, options?: PullOptions): Promise<Artifact>;
  /** The bytes of a layer, as stored; the digest is checked each time. */
  layer(artifact: Artifact, layer: Layer, options?: PullOptions): Promise<Uint8Array>;
  /** The manifest or index that a reference points at, as the registry has it. */
  manifest(reference: string, options?: PullOptions): Promise<Record<string, unknown>>;
  /** The digest that a tag points at, without fetching what is behind it. */
  digestOf(reference: string, options?: PullOptions): Promise<string>;
}
