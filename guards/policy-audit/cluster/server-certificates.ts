/**
 * The certificates of policy servers: one authority for all of them, stored in a Secret, and a certificate for each server. Each
 * is replaced when two thirds of its lifetime are over; a replaced authority is trusted until it expires, so that servers whose
 * certificate it signed are still trusted while they get a new one. Pure.
 */
import { X509Certificate } from 'node:crypto';

import {
  issueAuthority,
  issueServerCertificate,
  type KeyAndCertificate,
} from '../../../lib/x509/certificate.ts';

export interface Authority extends KeyAndCertificate {
  /** PEM of the previous authority, while it is valid. */
  readonly before: string | undefined;
}

/** Texts in the Secret; undefined if the Secret lacks them. */
export type Kept<T> = { readonly [Name in keyof T]: T[Name] | undefined };

interface WantedCertificate {
  readonly authority: Authority;
  readonly hosts: readonly string[];
  readonly now: Date;
}

const authorityDays = 3650;
const serverDays = 365;
/** Replaced when less than this share of the lifetime is left. */
const shareLeft = 1 / 3;

/** The stored authority, unless it must be replaced. One that cannot be read is replaced, too. */
export function currentAuthority({ key, cert, before }: Kept<Authority>, now: Date): Authority {
  const stillBefore = before !== undefined && leftOf(before, now) > 0 ? before : undefined;
  if (key !== undefined && cert !== undefined && leftOf(cert, now) > shareLeft)
    return { key, cert, before: stillBefore };
  const made = issueAuthority('policy servers', { now, days: authorityDays });
  return { ...made, before: cert !== undefined && leftOf(cert, now) > 0 ? cert : stillBefore };
}

/** PEM: the authorities that webhooks should trust. */
export function trusted({ cert, before = '' }: Authority): string {
  return before === '' ? cert : `${cert.trimEnd()}\n${before}`;
}

/** The stored certificate, unless it expires soon, is for other hosts, or was signed by an authority that is not trusted. */
export function currentCertificate(
  { key, cert }: Kept<KeyAndCertificate>,
  wanted: WantedCertificate,
): KeyAndCertificate {
  if (key !== undefined && cert !== undefined && isUsable(cert, wanted)) return { key, cert };
  const { authority, hosts, now } = wanted;
  return issueServerCertificate(authority, hosts, { now, days: serverDays });
}

function isUsable(cert: string, { authority, hosts, now }: WantedCertificate): boolean {
  try {
    const certificate = new X509Certificate(cert);
    return (
      leftOf(cert, now) > shareLeft &&
      hosts.every((host) => certificate.checkHost(host) !== undefined) &&
      certificate.verify(new X509Certificate(authority.cert).publicKey)
    );
  } catch {
    return false;
  }
}

/** The share of the certificate's lifetime that is left; below 0 if it has expired or cannot be read. */
function leftOf(cert: string, now: Date): number {
  try {
    const { validFromDate, validToDate } = new X509Certificate(cert);
    return (validToDate.getTime() - now.getTime()) / (validToDate.getTime() - validFromDate.getTime());
  } catch {
    return -1;
  }
}
