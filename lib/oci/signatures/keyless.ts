/**
 * Keyless signatures: made with a short-lived certificate that a Sigstore instance issued to an identity, and recorded in its log while the
 * certificate was valid. Sigstore's own library verifies them; it is loaded only when a rule needs it.
 */
import { createHash, X509Certificate } from 'node:crypto';

import { bundleFromJSON } from '@sigstore/bundle';
import { TrustedRoot } from '@sigstore/protobuf-specs';
import { toSignedEntity, toTrustMaterial, VerificationError, Verifier } from '@sigstore/verify';

import { type TrustRoot, unusableTrustRoot } from './trust-root.ts';
import type { KeylessRequirement } from './verification.ts';

const CODE_SIGNING = '1.3.6.1.5.5.7.3.3';

/** A signature as stored by cosign; values that its layer's annotations lack are undefined. */
export interface KeylessSignature {
  readonly payload: Uint8Array;
  readonly signature: Uint8Array;
  /** PEM. */
  readonly certificate: string | undefined;
  /** The entry of the log, with its signed timestamp: JSON. */
  readonly bundle: string | undefined;
}

/** The signer, according to the certificate. */
export interface Signer {
  readonly issuer: string;
  readonly subject: string;
  readonly subjectKind: 'URI' | 'email';
}

/** Why a signature is not trusted. */
export interface Untrusted {
  readonly why: string;
}

/** The value of cosign's annotation `dev.sigstore.cosign/bundle`. */
interface CosignBundle {
  readonly SignedEntryTimestamp: string;
  readonly Payload: {
    readonly body: string;
    readonly integratedTime: number;
    readonly logIndex: number;
    readonly logID: string;
  };
}

/** @throws {RampartError} `INPUT` for a trust root with malformed keys or certificates */
export function keylessVerifier(root: TrustRoot): (signature: KeylessSignature) => Signer | Untrusted {
  let verifier: Verifier;
  try {
    // The defaults require one of each: a certificate in a certificate log, an entry in a log, a signed timestamp.
    verifier = new Verifier(toTrustMaterial(TrustedRoot.fromJSON(root.document)));
  } catch (error) {
    throw unusableTrustRoot(root.name, (error as Error).message, error);
  }
  return (signature) => {
    try {
      return signerOf(signature, verifier, root.name);
    } catch (error) {
      return { why: whyOf(error, root.name) };
    }
  };
}

/** Why a signer is not the required one; undefined if it is. */
export function objectionTo(signer: Signer, { issuer, subject }: KeylessRequirement): string | undefined {
  if (signer.issuer !== issuer) return `its issuer is ${signer.issuer}, not ${issuer}`;
  if ('equal' in subject) {
    return signer.subject === subject.equal
      ? undefined
      : `its subject is ${signer.subject}, not ${subject.equal}`;
  }
  return signer.subjectKind === 'URI' && isBelow(signer.subject, subject.urlPrefix)
    ? undefined
    : `its subject is ${signer.subject}, which does not start with ${subject.urlPrefix}`;
}

function isBelow(text: string, prefix: string): boolean {
  if (!URL.canParse(text)) return false;
  const [url, top] = [new URL(text), new URL(prefix)];
  // Not compared as plain text: `..` could leave the prefix.
  return url.protocol === top.protocol && url.host === top.host && url.pathname.startsWith(top.pathname);
}

function signerOf(
  { payload, signature, certificate, bundle }: KeylessSignature,
  verifier: Verifier,
  root: string,
): Signer {
  if (certificate === undefined) throw new Refusal('it has no certificate: it was made with a key');
  if (bundle === undefined) throw new Refusal('it has no signed entry timestamp from a transparency log');
  const leaf = certificateOf(certificate);
  const entry = entryOf(bundle);
  // The library compares only the digest and the signature of the entry.
  if (!entry.certificate.raw.equals(leaf.raw)) {
    throw new Refusal('its transparency log entry names another certificate');
  }
  const loggedAt = new Date(entry.payload.integratedTime * 1000);
  if (loggedAt < leaf.validFromDate || loggedAt > leaf.validToDate) {
    throw new Refusal(
      `its certificate was valid from ${leaf.validFromDate.toISOString()} to ${leaf.validToDate.toISOString()}, ` +
        `and the transparency log received it at ${loggedAt.toISOString()}`,
    );
  }
  if (!(leaf.keyUsage as readonly string[] | undefined)?.includes(CODE_SIGNING)) {
    throw new Refusal('its certificate is not for signing code');
  }
  const { identity } = verifier.verify(
    toSignedEntity(bundleOf(payload, signature, leaf, entry), Buffer.from(payload)),
  );
  const [issuer, subject] = [identity?.extensions?.issuer, identity?.subjectAlternativeName];
  if (issuer === undefined || subject === undefined) {
    throw new Refusal(
      `its certificate, issued by ${root}, names no ${issuer === undefined ? 'issuer' : 'subject'}`,
    );
  }
  return { issuer, subject, subjectKind: kindOf(leaf, subject) };
}

interface Entry {
  readonly set: string;
  readonly payload: CosignBundle['Payload'];
  readonly kind: string;
  readonly version: string;
  readonly certificate: X509Certificate;
}

function entryOf(text: string): Entry {
  try {
    const { SignedEntryTimestamp: set, Payload: payload } = JSON.parse(text) as CosignBundle;
    const body = JSON.parse(Buffer.from(payload.body, 'base64').toString()) as {
      kind: string;
      apiVersion: string;
      spec: { signature: { publicKey: { content: string } } };
    };
    const pem = Buffer.from(body.spec.signature.publicKey.content, 'base64');
    if (!Number.isSafeInteger(payload.integratedTime)) throw new Error('integratedTime is not an integer');
    return { set, payload, kind: body.kind, version: body.apiVersion, certificate: new X509Certificate(pem) };
  } catch (error) {
    throw new Refusal(`its transparency log entry is malformed: ${(error as Error).message}`);
  }
}

function certificateOf(pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw new Refusal(`its certificate is malformed: ${(error as Error).message}`);
  }
}

/** The signature in the library's form. */
function bundleOf(
  payload: Uint8Array,
  signature: Uint8Array,
  leaf: X509Certificate,
  entry: Entry,
): ReturnType<typeof bundleFromJSON> {
  const { body, integratedTime, logIndex, logID } = entry.payload;
  return bundleFromJSON({
    mediaType: 'application/vnd.dev.sigstore.bundle+json;version=0.1',
    verificationMaterial: {
      x509CertificateChain: { certificates: [{ rawBytes: leaf.raw.toString('base64') }] },
      tlogEntries: [
        {
          logIndex: String(logIndex),
          logId: { keyId: Buffer.from(logID, 'hex').toString('base64') },
          kindVersion: { kind: entry.kind, version: entry.version },
          integratedTime: String(integratedTime),
          inclusionPromise: { signedEntryTimestamp: entry.set },
          canonicalizedBody: body,
        },
      ],
    },
    messageSignature: {
      messageDigest: {
        algorithm: 'SHA2_256',
        digest: createHash('sha256').update(payload).digest('base64'),
      },
      signature: Buffer.from(signature).toString('base64'),
    },
  });
}

/** A certificate for more than one subject, or for one of another kind, is not from Sigstore. */
function kindOf({ subjectAltName = '' }: X509Certificate, subject: string): Signer['subjectKind'] {
  for (const kind of ['URI', 'email'] as const) {
    // Quoted if it contains characters that could be taken for another name.
    if ([`${kind}:${subject}`, `${kind}:${JSON.stringify(subject)}`].includes(subjectAltName)) return kind;
  }
  throw new Refusal(`its certificate is not for a single URI or email address, but for ${subjectAltName}`);
}

class Refusal extends Error {}

function checkOf({ code, message }: VerificationError, root: string): string {
  if (code === 'CERTIFICATE_ERROR') {
    // SCT: signed certificate timestamps. Failures of the certificate chain have the same code.
    return message.includes('SCT')
      ? `its certificate is not proven to be in a certificate transparency log of the trust root ${root}`
      : `its certificate is not issued by a certificate authority of the trust root ${root}`;
  }
  if (code === 'TLOG_INCLUSION_PROMISE_ERROR') {
    return `its signed entry timestamp is not from a transparency log of the trust root ${root}`;
  }
  if (code === 'TLOG_BODY_ERROR') return 'its transparency log entry is for something else';
  if (code === 'SIGNATURE_ERROR') return 'its payload is not signed with the key of its certificate';
  return 'it cannot be verified';
}

function whyOf(error: unknown, root: string): string {
  if (error instanceof Refusal) return error.message;
  if (!(error instanceof VerificationError)) return `it cannot be verified: ${(error as Error).message}`;
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : '';
  return `${checkOf(error, root)} (${error.message}${cause})`;
}
