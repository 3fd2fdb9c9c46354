/** Decodes manifests and indexes of OCI and of Docker's schema 2. */
import { isObject } from '../json/json.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import { isDigest } from './digest.ts';
import { isHtml } from './html.ts';
import type { Layer } from './registry.ts';

export const mediaTypes = {
  ociManifest: 'application/vnd.oci.image.manifest.v1+json',
  ociIndex: 'application/vnd.oci.image.index.v1+json',
  dockerManifest: 'application/vnd.docker.distribution.manifest.v2+json',
  dockerList: 'application/vnd.docker.distribution.manifest.list.v2+json',
} as const;

export const acceptManifests = Object.values(mediaTypes).join(', ');

export interface Descriptor extends Layer {
  readonly platform: { readonly os: string; readonly architecture: string } | undefined;
}

export interface Manifest {
  readonly kind: 'manifest';
  readonly config: Descriptor;
  readonly layers: readonly Layer[];
}

export interface Index {
  readonly kind: 'index';
  readonly manifests: readonly Descriptor[];
}

const MAX_DESCRIPTORS = 1000;

/** @param what - The reference, for messages. @throws {RampartError} `CORRUPT`, `LIMIT` */
export function parseManifest(bytes: Uint8Array, what: string): Manifest | Index {
  let document: unknown;
  try {
    document = JSON.parse(Buffer.from(bytes).toString());
  } catch (error) {
    throw malformed(
      what,
      isHtml(bytes)
        ? 'it is an HTML page: what answers there is no registry'
        : `it is not JSON (${(error as Error).message})`,
    );
  }
  if (!isObject(document)) throw malformed(what, 'it is not a JSON object');
  if (document['schemaVersion'] !== 2) {
    throw malformed(what, `schemaVersion is ${JSON.stringify(document['schemaVersion'])}, but must be 2`);
  }
  const { mediaType } = document;
  const isIndex = mediaType === mediaTypes.ociIndex || mediaType === mediaTypes.dockerList;
  const isManifest = mediaType === mediaTypes.ociManifest || mediaType === mediaTypes.dockerManifest;
  if (mediaType !== undefined && !isIndex && !isManifest) {
    throw malformed(what, `mediaType ${JSON.stringify(mediaType)} is not one of a manifest or an index`);
  }
  // The type is optional in OCI. A document that could be read as both is neither (CVE-2021-41190).
  const hasManifests = 'manifests' in document;
  const hasLayers = 'layers' in document || 'config' in document;
  if (hasManifests === hasLayers || (isIndex && !hasManifests) || (isManifest && !hasLayers)) {
    throw malformed(what, 'it must have either "manifests" or "config" and "layers"');
  }
  if (hasManifests) {
    return { kind: 'index', manifests: descriptors(document['manifests'], `${what}: manifests`) };
  }
  // Checked although unused: a malformed manifest is refused as a whole.
  annotationsOf(document['annotations'], what);
  return {
    kind: 'manifest',
    config: descriptor(document['config'], `${what}: config`),
    layers: descriptors(document['layers'] ?? [], `${what}: layers`),
  };
}

/** @throws {RampartError} `NOT_FOUND` if the index has no entry for the platform. */
export function choosePlatform(
  { manifests }: Index,
  wanted: { readonly os: string; readonly architecture: string },
  what: string,
): Descriptor {
  const [only] = manifests;
  if (manifests.length === 1 && only !== undefined && only.platform === undefined) return only;
  const found = manifests.find(
    ({ platform }) => platform?.os === wanted.os && platform.architecture === wanted.architecture,
  );
  if (found !== undefined) return found;
  const there = manifests.flatMap(({ platform }) =>
    platform ? [`${platform.os}/${platform.architecture}`] : [],
  );
  throw new RampartError(errorCodes.NOT_FOUND, {
    what: `${what} has no image for ${wanted.os}/${wanted.architecture}`,
    why: `it has ${[...new Set(there)].slice(0, 20).join(', ') || 'nothing'}`,
  });
}

function descriptors(value: unknown, what: string): Descriptor[] {
  if (!Array.isArray(value)) throw malformed(what, 'it is not a list');
  if (value.length > MAX_DESCRIPTORS) {
    throw new RampartError(errorCodes.LIMIT, {
      what: `${what} has ${value.length} entries`,
      why: `the limit is ${MAX_DESCRIPTORS}`,
    });
  }
  return value.map((each, index) => descriptor(each, `${what}[${index}]`));
}

function descriptor(value: unknown, what: string): Descriptor {
  if (!isObject(value)) throw malformed(what, 'it is not an object');
  const { mediaType, digest, size, platform } = value;
  if (typeof digest !== 'string' || !isDigest(digest)) throw malformed(what, 'its digest is malformed');
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0)
    throw malformed(what, 'its size is malformed');
  const { os, architecture } = isObject(platform) ? platform : {};
  return {
    mediaType: typeof mediaType === 'string' ? mediaType : '',
    digest,
    sizeBytes: size,
    annotations: annotationsOf(value['annotations'], what),
    platform: typeof os === 'string' && typeof architecture === 'string' ? { os, architecture } : undefined,
  };
}

function annotationsOf(value: unknown, what: string): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) throw malformed(what, 'its annotations are not an object');
  return Object.fromEntries(
    Object.entries(value).map(([key, text]) => {
      if (typeof text !== 'string')
        throw malformed(what, `annotation ${JSON.stringify(key)} is not a string`);
      return [key, text];
    }),
  );
}

function malformed(what: string, why: string): RampartError {
  return new RampartError(errorCodes.CORRUPT, { what: `the manifest of ${what} is malformed`, why });
}
