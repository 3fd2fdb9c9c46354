/** `oci`: data about images, from their registries. */
import type { PullOptions, Registry } from '../../../../lib/oci/registry.ts';
import type { JsonObject } from '../evaluator.ts';
import { payloadObject, payloadText } from './payload.ts';

/** Policies' requests to registries; see {@link imagesOf}. */
export interface ImageSource {
  /** `sha256:...`: the digest of the manifest or index that a reference points to. */
  digest(image: string, signal?: AbortSignal): Promise<string>;
  /** The manifest or index as stored in the registry. */
  manifest(image: string, signal?: AbortSignal): Promise<JsonObject>;
  /** For an index, the image for this machine. */
  manifestAndConfig(image: string, signal?: AbortSignal): Promise<ImageAndConfig>;
}

export interface ImageAndConfig {
  readonly manifest: JsonObject;
  readonly digest: string;
  readonly config: JsonObject;
}

/** Verifies signatures of an image: `v1/verify`, `v2/verify`. */
export interface ImageVerifier {
  /** @param input - A SigstoreVerificationInputV1 or V2. @throws {Error} whose message says why the image is not trusted. */
  verify(input: JsonObject, signal?: AbortSignal): Promise<{ readonly digest: string }>;
}

export interface OciCalls {
  readonly images: ImageSource | undefined;
  readonly verifier: ImageVerifier | undefined;
}

/** @throws {Error} */
export async function answerOci(
  operation: string,
  payload: unknown,
  { images, verifier }: OciCalls,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  if (operation === 'v1/verify' || operation === 'v2/verify') {
    if (verifier === undefined) throw new Error('image signatures cannot be verified');
    const { digest } = await verifier.verify(payloadObject(payload), signal);
    return { is_trusted: true, digest };
  }
  if (images === undefined) throw new Error('there is no registry to query');
  const image = payloadText(payload);
  if (operation === 'v1/manifest_digest') return { digest: await images.digest(image, signal) };
  if (operation === 'v1/oci_manifest') return images.manifest(image, signal);
  return images.manifestAndConfig(image, signal);
}

export type ManifestRegistry = Pick<Registry, 'digestOf' | 'manifest' | 'pull'>;

/** Tags are resolved for each call, since policies want to notice when a tag has moved. */
export function imagesOf(
  open: () => Promise<ManifestRegistry>,
  options: Omit<PullOptions, 'signal'> = {},
): ImageSource {
  const asked = (signal: AbortSignal | undefined): PullOptions => ({
    policy: 'Always',
    ...options,
    signal,
  });
  return {
    digest: async (image, signal) => (await open()).digestOf(image, asked(signal)),
    manifest: async (image, signal) => (await open()).manifest(image, asked(signal)),
    async manifestAndConfig(image, signal) {
      const registry = await open();
      const { digest, config } = await registry.pull(image, asked(signal));
      const repository = image.replace(/@[^@]*$/, '').replace(/:[^:/]*$/, '');
      const manifest = await registry.manifest(`${repository}@${digest}`, asked(signal));
      return { manifest, digest, config };
    },
  };
}
