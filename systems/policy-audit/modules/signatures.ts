/**
 * Signatures of artifacts as cosign leaves them in a registry: an artifact beside the signed one, with the tag
 * `sha256-<hex>.sig`, each of whose layers is a "simple signing" payload with its signature as an annotation.
 *
 * @module
 */
import { verify } from 'node:crypto';

import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';
import { hostName, parseReference } from '../../../shared/oci/reference.ts';
import type { Artifact, PullOptions, Registry } from '../../../shared/oci/registry.ts';
import {
  describeRequirement,
  type PublicKeyRequirement,
  type Requirement,
  type Verification,
} from './verification.ts';

const payloadType = 'application/vnd.dev.cosign.simplesigning.v1+json';
const signatureAnnotation = 'dev.cosignproject.cosign/signature';
const MAX_SIGNATURES = 100;
const MAX_PAYLOAD_BYTES = 64 * 1024;

interface Signature {
  readonly payload: Uint8Array;
  readonly signature: Uint8Array;
  /** What the signer said beside the digest. */
  readonly annotations: Readonly<Record<string, unknown>>;
}

/**
 * Verifies that an artifact has the signatures that are asked for.
 *
 * @param digest - Of what the reference points at.
 * @throws {RampartError} `PRIVILEGE` where it has not, or where it cannot be told here; as `Registry.pull`
 */
export async function verifySignatures(
  registry: Pick<Registry, 'layer' | 'pull'>,
  artifact: Pick<Artifact, 'reference' | 'referenceDigest'>,
  verification: Verification,
  options: PullOptions,
): Promise<void> {
  const keyless = [...verification.allOf, ...verification.anyOf].find(({ kind }) => kind !== 'pubKey');
  if (keyless !== undefined) {
    throw refused(
      artifact,
      `verification without keys (${describeRequirement(keyless)}) needs a trust root, which is not configured`,
      'Sign it with a key, and ask for the signature of that key: pubKey',
    );
  }
  const signatures = await signaturesOf(registry, artifact, options);
  const isMet = (requirement: Requirement): boolean =>
    requirement.kind === 'pubKey' && signatures.some((signature) => meets(signature, requirement));
  const missing = verification.allOf.filter((requirement) => !isMet(requirement));
  if (missing.length > 0) {
    throw refused(
      artifact,
      `of its ${signatures.length} signatures none is that of: ${missing.map(describeRequirement).join('; ')}`,
    );
  }
  const matches = verification.anyOf.filter(isMet).length;
  if (verification.anyOf.length > 0 && matches < verification.minimumMatches) {
    throw refused(
      artifact,
      `its ${signatures.length} signatures are those of ${matches} that are allowed, and ${verification.minimumMatches} are needed`,
    );
  }
}

async function signaturesOf(
  registry: Pick<Registry, 'layer' | 'pull'>,
  artifact: Pick<Artifact, 'reference' | 'referenceDigest'>,
  options: PullOptions,
): Promise<Signature[]> {
  const { registry: host, repository } = parseReference(artifact.reference);
  const reference = `${host}/${repository}:${artifact.referenceDigest.replace(':', '-')}.sig`;
  let beside: Artifact;
  try {
    // Signatures are added to: what was there before need not be all.
    beside = await registry.pull(reference, { ...options, policy: 'Always' });
  } catch (error) {
    if (!(error instanceof RampartError) || error.code !== errorCodes.NOT_FOUND) throw error;
    throw refused(
      artifact,
      `it has no signatures (${hostName(host)} has no ${reference})`,
      'Sign it: cosign sign --key KEY',
    );
  }
  const signatures: Signature[] = [];
  for (const layer of beside.layers.slice(0, MAX_SIGNATURES)) {
    const signature = layer.annotations[signatureAnnotation];
    if (layer.mediaType !== payloadType || signature === undefined || layer.sizeBytes > MAX_PAYLOAD_BYTES)
      continue;
    const payload = await registry.layer(beside, layer, options);
    const annotations = saysOf(payload, artifact.referenceDigest);
    if (annotations !== undefined) {
      signatures.push({ payload, signature: Buffer.from(signature, 'base64'), annotations });
    }
  }
  return signatures;
}

/** What a payload says beside the digest; undefined for one of another artifact, which somebody put there. */
function saysOf(payload: Uint8Array, digest: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const { critical, optional } = JSON.parse(Buffer.from(payload).toString()) as {
      critical?: { type?: unknown; image?: Record<string, unknown> };
      optional?: Record<string, unknown> | null;
    };
    if (critical?.type !== 'cosign container image signature') return undefined;
    if (critical.image?.['docker-manifest-digest'] !== digest) return undefined;
    return optional ?? {};
  } catch {
    return undefined;
  }
}

function meets({ payload, signature, annotations }: Signature, requirement: PublicKeyRequirement): boolean {
  const { key } = requirement;
  const hasAll = Object.entries(requirement.annotations).every(([name, text]) => annotations[name] === text);
  if (!hasAll) return false;
  try {
    // Ed25519 hashes by itself.
    return verify(key.asymmetricKeyType === 'ed25519' ? null : 'sha256', payload, key, signature);
  } catch {
    return false;
  }
}

function refused(
  artifact: Pick<Artifact, 'reference' | 'referenceDigest'>,
  why: string,
  next?: string,
): RampartError {
  return new RampartError(errorCodes.PRIVILEGE, {
    what: `${artifact.reference} (${artifact.referenceDigest}) is not trusted`,
    why,
    next,
  });
}
