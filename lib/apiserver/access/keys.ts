/** The certificate authority and the server's certificate as files, created if missing and renewed in time. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { join } from 'node:path';

import { errorCodes, messageOf, RampartError } from '../../errors/errors.ts';
import { issueAuthority, issueServerCertificate, type KeyAndCertificate } from '../../x509/certificate.ts';
import { readPrivateFile, writePrivateFile } from './private-files.ts';

const authorityDays = 3650;
const serverDays = 365;
/** A certificate with less validity left than this is renewed. */
const renewDays = 30;
const dayMs = 24 * 3600 * 1000;

interface ServerKeys extends KeyAndCertificate {
  /** The authority's certificate (PEM), by which clients verify the server. */
  readonly authority: string;
}

/**
 * Reads `ca.key`, `ca.crt`, `server.key` and `server.crt` of a directory, or makes them. The server's certificate is
 * recreated if it lacks one of the `hosts`, was issued by another authority, or is about to expire.
 *
 * @throws {RampartError} `INPUT` for files that others can read, `CORRUPT` for an authority that cannot be used.
 */
export function prepareKeys(directory: string, hosts: readonly string[], now: Date): ServerKeys {
  const authority = prepareAuthority(directory, now);
  const files = pair(directory, 'server');
  const kept = readPair(files);
  if (kept !== undefined && isGood(kept, authority, hosts, now)) {
    return { ...kept, authority: authority.cert };
  }
  const made = issueServerCertificate(authority, hosts, { now, days: serverDays });
  writePair(files, made);
  return { ...made, authority: authority.cert };
}

interface Pair {
  readonly key: string;
  readonly cert: string;
}

function pair(directory: string, name: string): Pair {
  return { key: join(directory, `${name}.key`), cert: join(directory, `${name}.crt`) };
}

function readPair({ key, cert }: Pair): KeyAndCertificate | undefined {
  const [keyText, certText] = [readPrivateFile(key), readPrivateFile(cert)];
  return keyText === undefined || certText === undefined ? undefined : { key: keyText, cert: certText };
}

/** Writes the key first: an interruption leaves a key without a certificate, or with the wrong one, and both are noticed and recreated. */
function writePair(files: Pair, made: KeyAndCertificate): void {
  writePrivateFile(files.key, made.key);
  writePrivateFile(files.cert, made.cert);
}

function prepareAuthority(directory: string, now: Date): KeyAndCertificate {
  const files = pair(directory, 'ca');
  const kept = readPair(files);
  if (kept === undefined && readPrivateFile(files.cert) !== undefined) {
    throw unusable(files, 'the key is missing');
  }
  // A key without a certificate remains after an interrupted first start. No client knows that authority yet.
  if (kept !== undefined) {
    let certificate: X509Certificate;
    try {
      certificate = new X509Certificate(kept.cert);
      if (!certificate.ca || !certificate.checkPrivateKey(createPrivateKey(kept.key))) {
        throw new Error('the key does not match the certificate');
      }
    } catch (error) {
      throw unusable(files, messageOf(error), error);
    }
    if (daysLeft(certificate, now) >= renewDays) return kept;
  }
  const made = issueAuthority(`rampart-ca-${now.toISOString().slice(0, 10)}`, { now, days: authorityDays });
  writePair(files, made);
  return made;
}

function unusable({ key, cert }: Pair, why: string, cause?: unknown): RampartError {
  return new RampartError(errorCodes.CORRUPT, {
    what: `cannot use the authority in ${cert} and ${key}`,
    why,
    next: 'Restore a copy of both, or remove both to create new ones; clients then need the new kubeconfig',
    cause,
  });
}

function isGood(
  kept: KeyAndCertificate,
  authority: KeyAndCertificate,
  hosts: readonly string[],
  now: Date,
): boolean {
  try {
    const certificate = new X509Certificate(kept.cert);
    return (
      daysLeft(certificate, now) >= renewDays &&
      certificate.verify(new X509Certificate(authority.cert).publicKey) &&
      certificate.checkPrivateKey(createPrivateKey(kept.key)) &&
      hosts.every((host) =>
        isIP(host) === 0
          ? certificate.checkHost(host) !== undefined
          : certificate.checkIP(host) !== undefined,
      )
    );
  } catch {
    return false;
  }
}

/** Days of validity that are left. Negative before the validity begins, so that it is also renewed after the clock was set back. */
function daysLeft(certificate: X509Certificate, now: Date): number {
  if (now < certificate.validFromDate) return -1;
  return (certificate.validToDate.getTime() - now.getTime()) / dayMs;
}
