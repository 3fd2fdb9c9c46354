/**
 * Signatures of artifacts as cosign stores them in a registry: an artifact beside the signed one, with the tag
 * `sha256-<hex>.sig`, each of whose layers is a "simple signing" payload with its signature as an annotation.
 */
import { type KeyObject, verify } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { hostName, parseReference } from '../reference.ts';
import type { Artifact, PullOptions, Registry } from '../registry.ts';
import type { KeylessSignature, Signer, Untrusted } from './keyless.ts';
import type { TrustRoot } from './trust-root.ts';
import {
  describeRequirement,
  type KeylessRequirement,
  type Requirement,
  type Verification,
} from './verification.ts';

const payloadType = 'application/vnd.dev.cosign.simplesigning.v1+json';
const signatureAnnotation = 'dev.cosignproject.cosign/signature';
const certificateAnnotation = 'dev.sigstore.cosign/certificate';
const bundleAnnotation = 'dev.sigstore.cosign/bundle';
const MAX_SIGNATURES = 100;
const MAX_PAYLOAD_BYTES = 64 * 1024;
const MAX_REASONS = 3;

interface Signature extends KeylessSignature {
  /** What the signer states in addition to the digest. */
  readonly annotations: Readonly<Record<string, unknown>>;
}

/** The required signatures. */
export interface SignatureTerms {
  readonly verification: Verification;
  /** Without one, keyless requirements are refused. */
  readonly trustRoot?: TrustRoot | undefined;
  /** How the user configures a trust root, for that refusal: `Set one with --option`. */
  readonly trustRootHint: string;
  /** Accept an artifact without any signature. One that has signatures must still meet the requirements. Default: false. */
  readonly allowUnsigned?: boolean;
}

/**
 * Verifies that an artifact has the required signatures.
 *
 * @param digest - Of the artifact that the reference points at.
 * @throws {RampartError} `PRIVILEGE` if it does not have them, or if that cannot be determined here; `INPUT` for a trust root that cannot
 *   be read; what `Registry.pull` throws
 */
export async function verifySignatures(
  registry: Pick<Registry, 'layer' | 'pull'>,
  artifact: Pick<Artifact, 'reference' | 'referenceDigest'>,
  terms: SignatureTerms,
  options: PullOptions,
): Promise<void> {
  const { allOf, anyOf, minimumMatches } = terms.verification;
  const keyless = await keylessOf([...allOf, ...anyOf], artifact, terms);
  const signatures = await signaturesOf(registry, artifact, options);
  if (signatures === undefined) {
    if (terms.allowUnsigned === true) return;
    throw refused(
      artifact,
      `it has no signatures (${hostName(parseReference(artifact.reference).registry)} has no ${signatureReference(artifact)})`,
      'Sign it with cosign sign (cosign 3: with --new-bundle-format=false --use-signing-config=false)',
    );
  }
  const judge = await judgeOf(signatures, keyless, options.signal);
  const next = keyless
    ? 'Sign it as one of them with cosign sign, or correct the requirement or the trust root'
    : undefined;
  const missing = unmet(allOf, signatures, judge);
  if (missing.length > 0) {
    throw refused(artifact, `none of its ${signatures.length} signatures matches: ${missing.join('; ')}`);
  }
  const others = unmet(anyOf, signatures, judge);
  const matches = anyOf.length - others.length;
  if (anyOf.length > 0 && matches < minimumMatches) {
    throw refused(
      artifact,
      `only ${matches} of the accepted signers signed it, and ${minimumMatches} are required; ` +
        `none of its ${signatures.length} signatures matches: ${others.join('; ')}`,
      next,
    );
  }
}

/** Why a signature is not the required one; undefined if it is. */
type Judge = (signature: Signature, requirement: Requirement) => string | undefined;

interface Keyless {
  readonly signerOf: (signature: KeylessSignature) => Signer | Untrusted;
  readonly objectionTo: (signer: Signer, requirement: KeylessRequirement) => string | undefined;
}

/**
 * The verifier of keyless signatures; undefined if none are required.
 *
 * @throws {RampartError} `PRIVILEGE` without a trust root, `INPUT` for a malformed one
 */
async function keylessOf(
  requirements: readonly Requirement[],
  artifact: Pick<Artifact, 'reference' | 'referenceDigest'>,
  { trustRoot, trustRootHint }: SignatureTerms,
): Promise<Keyless | undefined> {
  const wanted = requirements.find(isKeyless);
  if (wanted === undefined) return undefined;
  if (trustRoot === undefined) {
    throw refused(
      artifact,
      `keyless verification (${describeRequirement(wanted)}) requires a trust root, and none is configured`,
      `${trustRootHint}; or sign it with a key, and require that key: pubKey`,
    );
  }
  const { keylessVerifier, objectionTo } = await import('./keyless.ts');
  return { signerOf: keylessVerifier(trustRoot), objectionTo };
}

async function judgeOf(
  signatures: readonly Signature[],
  keyless: Keyless | undefined,
  signal: AbortSignal | undefined,
): Promise<Judge> {
  const signers = new Map<Signature, Signer | Untrusted>();
  for (const signature of signatures) {
    if (keyless === undefined) break;
    signers.set(signature, keyless.signerOf(signature));
    // Each takes tens of milliseconds, and others wait for this thread.
    await setImmediate(undefined, { signal });
  }
  return (signature, requirement) => {
    for (const [name, text] of Object.entries(requirement.annotations)) {
      if (signature.annotations[name] !== text) return `its annotation ${name} is not ${text}`;
    }
    if (!isKeyless(requirement)) {
      return isSignedBy(signature, requirement.key) ? undefined : 'it is not signed with this key';
    }
    const signer = signers.get(signature);
    if (keyless === undefined || signer === undefined) return 'it has not been verified';
    return 'why' in signer ? signer.why : keyless.objectionTo(signer, requirement);
  };
}

function isKeyless(requirement: Requirement): requirement is KeylessRequirement {
  return requirement.kind !== 'pubKey';
}

/** The requirements that no signature meets, in words. */
function unmet(
  requirements: readonly Requirement[],
  signatures: readonly Signature[],
  judge: Judge,
): string[] {
  return requirements.flatMap((requirement) => {
    const reasons = new Set<string>();
    for (const signature of signatures) {
      const why = judge(signature, requirement);
      if (why === undefined) return [];
      reasons.add(why);
    }
    const what = describeRequirement(requirement);
    // "A different key" adds no information.
    if (requirement.kind === 'pubKey' || reasons.size === 0) return [what];
    return [`${what} (${[...reasons].slice(0, MAX_REASONS).join('; ')})`];
  });
}

/** The signatures of an artifact; undefined if the registry has none. */
async function signaturesOf(
  registry: Pick<Registry, 'layer' | 'pull'>,
  artifact: Pick<Artifact, 'reference' | 'referenceDigest'>,
  options: PullOptions,
): Promise<Signature[] | undefined> {
  // Signatures may be added: a cached list need not be complete.
  const pull: PullOptions = { ...options, policy: 'Always' };
  let beside: Artifact;
  try {
    beside = await registry.pull(signatureReference(artifact), pull);
  } catch (error) {
    if (error instanceof RampartError && error.code === errorCodes.NOT_FOUND) return undefined;
    throw error;
  }
  const signatures: Signature[] = [];
  for (const layer of beside.layers.slice(0, MAX_SIGNATURES)) {
    const signature = layer.annotations[signatureAnnotation];
    if (layer.mediaType !== payloadType || signature === undefined || layer.sizeBytes > MAX_PAYLOAD_BYTES)
      continue;
    const payload = await registry.layer(beside, layer, pull);
    const annotations = saysOf(payload, artifact.referenceDigest);
    if (annotations !== undefined) {
      signatures.push({
        payload,
        signature: Buffer.from(signature, 'base64'),
        certificate: layer.annotations[certificateAnnotation],
        bundle: layer.annotations[bundleAnnotation],
        annotations,
      });
    }
  }
  return signatures;
}

function signatureReference({
  reference,
  referenceDigest,
}: Pick<Artifact, 'reference' | 'referenceDigest'>): string {
  const { registry, repository } = parseReference(reference);
  return `${registry}/${repository}:${referenceDigest.replace(':', '-')}.sig`;
}

/**
 * What a payload states in addition to the digest; undefined if the payload is for another artifact, from which
 * the signature was copied.
 */
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

function isSignedBy({ payload, signature }: Signature, key: KeyObject): boolean {
  try {
    // Ed25519 includes hashing.
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
