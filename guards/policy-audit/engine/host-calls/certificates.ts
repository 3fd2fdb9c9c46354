/** `crypto`: whether a certificate for code signing is trusted at a given time, by a chain of other certificates. */
import { X509Certificate } from 'node:crypto';

import type { JsonObject } from '../evaluator.ts';
import { optionalTextIn, payloadObject } from './payload.ts';

/** `id-kp-codeSigning` (RFC 5280): the purpose of the certificates that upstream trusts. */
const codeSigning = '1.3.6.1.5.5.7.3.3';

interface Trust extends JsonObject {
  readonly trusted: boolean;
  readonly reason: string;
}

/** `{cert, cert_chain, not_after}` -> `{trusted, reason}`. @throws {Error} for a malformed certificate or time. */
export function certificateTrust(payload: unknown, nowMs: number = Date.now()): Trust {
  const fields = payloadObject(payload);
  const certificate = certificateOf(fields['cert']);
  const notAfter = optionalTextIn(fields, 'not_after');
  const atMs = notAfter === undefined ? nowMs : timeOf(notAfter);
  if (notAfter !== undefined && certificate.validToDate.getTime() < atMs) {
    return distrust('Certificate is being used after its expiration date');
  }
  if (certificate.validFromDate.getTime() > nowMs)
    return distrust('Certificate is being used before its validity date');
  const chain = fields['cert_chain'] ?? undefined;
  if (chain === undefined) return { trusted: true, reason: '' };
  if (!Array.isArray(chain)) throw new Error('the payload is malformed: cert_chain must be a list');
  return trustBy(certificate, chain.map(certificateOf), atMs);
}

/** The last certificate of a chain is the root, which is trusted unconditionally. */
function trustBy(certificate: X509Certificate, chain: readonly X509Certificate[], atMs: number): Trust {
  if (certificate.ca) return distrust('Certificate not trusted: CaUsedAsEndEntity');
  if (!isFor(certificate, codeSigning, true)) return distrust('Certificate not trusted: RequiredEkuNotFound');
  const root = chain.at(-1);
  const between = chain.slice(0, -1);
  let below = certificate;
  // Each certificate of the chain can be used once, so that a cycle ends.
  for (let left = between.length; left >= 0; left--) {
    if (below.validFromDate.getTime() > atMs) return distrust('Certificate not trusted: CertNotValidYet');
    if (below.validToDate.getTime() < atMs) return distrust('Certificate not trusted: CertExpired');
    if (root !== undefined && isIssuer(root, below)) {
      return below.verify(root.publicKey)
        ? { trusted: true, reason: '' }
        : distrust('Certificate is not trusted by the provided cert chain');
    }
    const issuers = between.filter((issuer) => issuer !== below && isIssuer(issuer, below));
    if (issuers.length === 0) return distrust('Certificate not trusted: UnknownIssuer');
    const issuer = issuers.find(({ ca, publicKey }) => ca && below.verify(publicKey));
    if (issuer === undefined) return distrust('Certificate is not trusted by the provided cert chain');
    if (!isFor(issuer, codeSigning, false)) return distrust('Certificate not trusted: RequiredEkuNotFound');
    below = issuer;
  }
  return distrust('Certificate not trusted: UnknownIssuer');
}

/** Compares the names only; the signature shows whether the certificate was really issued by this issuer. */
function isIssuer({ subject }: X509Certificate, { issuer }: X509Certificate): boolean {
  return subject === issuer;
}

/**
 * Whether the certificate's extended key usages (`keyUsage` in Node.js) allow this usage. If it has none, it is
 * allowed unless `mustSay` is set.
 */
function isFor(certificate: X509Certificate, usage: string, mustSay: boolean): boolean {
  const usages = (certificate.keyUsage as readonly string[] | undefined) ?? [];
  return usages.length === 0 ? !mustSay : usages.includes(usage);
}

function certificateOf(value: unknown): X509Certificate {
  const { encoding, data } = payloadObject(value);
  try {
    if (encoding !== 'Pem' && encoding !== 'Der') throw new Error('unknown encoding');
    // Policy SDKs encode bytes as a list of numbers, or in base64.
    const bytes = Array.isArray(data) ? Buffer.from(data as number[]) : Buffer.from(String(data), 'base64');
    return new X509Certificate(bytes);
  } catch (error) {
    throw new Error('Certificate is not a valid DER or PEM encoded certificate', { cause: error });
  }
}

function timeOf(text: string): number {
  const ms = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/.test(text)
    ? Date.parse(text)
    : Number.NaN;
  if (Number.isNaN(ms)) throw new Error('Timestamp not_after is not in RFC3339 format');
  return ms;
}

function distrust(reason: string): Trust {
  return { trusted: false, reason };
}
