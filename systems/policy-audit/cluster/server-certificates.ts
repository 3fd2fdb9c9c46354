/**
 * The certificates of policy servers: an authority for all of them, kept in a Secret, and one for each server. Each is replaced when
 * two thirds of its time are over; an authority that was replaced is trusted until its own end, so that servers whose certificate it
 * signed go on being trusted while they get a new one. Pure.
 */
import { X509Certificate } from 'node:crypto';

import {
  issueAuthority,
  issueServerCertificate,
  type KeyAndCertificate,
} from '../../../shared/apiserver/access/certificate.ts';

export interface Authority extends KeyAndCertificate {
  /** PEM: the one before, as long as it is valid. */
  readonly before: string | undefined;
}

const authorityDays = 3650;
const serverDays = 365;
/** Replaced when less than this share is left. */
const shareLeft = 1 / 3;

/** The one that was kept, unless it has to be replaced. What cannot be read is replaced, too. */
export function currentAuthority(kept: Partial<Authority> | undefined, now: Date): Authority {
  const { key, cert, before } = kept ?? {};
  const stillBefore = before !== undefined && leftOf(before, now) > 0 ? before : undefined;
  if (key !== undefined && cert !== undefined && leftOf(cert, now) > shareLeft)
    return { key, cert, before: stillBefore };
  const made = issueAuthority('policy servers', { now, days: authorityDays });
  return { ...made, before: cert !== undefined && leftOf(cert, now) > 0 ? cert : stillBefore };
}

/** PEM: what webhooks are to trust. */
export function trusted({ cert, before = '' }: Authority): string {
  return before === '' ? cert : `${cert.trimEnd()}\n${before}`;
}

/** The one that was kept, unless it is near its end, for others than these hosts, or of an authority that is not trusted. */
export function currentCertificate(
  kept: Partial<KeyAndCertificate> | undefined,
  {
    authority,
    hosts,
    now,
  }: { readonly authority: Authority; readonly hosts: readonly string[]; readonly now: Date },
): KeyAndCertificate {
  const { key, cert } = kept ?? {};
  if (key !== undefined && cert !== undefined && isUsable(cert, { authority, hosts, now }))
    return { key, cert };
  return issueServerCertificate(authority, hosts, { now, days: serverDays });
}

function isUsable(
  cert: string,
  {
    authority,
    hosts,
    now,
  }: { readonly authority: Authority; readonly hosts: readonly string[]; readonly now: Date },
): boolean {
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

/** What share of its time is left; below 0 where it is over, or cannot be read. */
function leftOf(cert: string, now: Date): number {
  try {
    const { validFromDate, validToDate } = new X509Certificate(cert);
    return (validToDate.getTime() - now.getTime()) / (validToDate.getTime() - validFromDate.getTime());
  } catch {
    return -1;
  }
}
