/**
 * The certificate and key of a server, in files that are replaced by cert-manager, an operator, or a projected Secret.
 */
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';

import { errorCodes, RampartError } from '../errors/errors.ts';
import { type Clock, sleep } from '../time/clock.ts';

export interface CertificatePaths {
  /** Owner of the certificate, for errors: `the policy server`. */
  readonly of: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** Clients must have a certificate from one of these authorities. */
  readonly clientCaFiles: readonly string[];
}

export interface CertificateTexts {
  readonly cert: string;
  readonly key: string;
  /** Authorities of clients. */
  readonly ca?: string[];
}

/** @throws {RampartError} `SYSTEM` for a file that cannot be read, `INPUT` if they are not a certificate and its key */
export async function readCertificates(paths: CertificatePaths): Promise<CertificateTexts> {
  const { of, certFile, keyFile, clientCaFiles } = paths;
  let texts: CertificateTexts;
  try {
    const [cert, key] = [await readFile(certFile, 'utf8'), await readFile(keyFile, 'utf8')];
    const ca = await Promise.all(clientCaFiles.map((path) => readFile(path, 'utf8')));
    texts = { cert, key, ...(ca.length > 0 && { ca }) };
  } catch (error) {
    throw new RampartError(errorCodes.SYSTEM, {
      what: `cannot read the certificate of ${of}`,
      why: (error as Error).message,
      cause: error,
    });
  }
  try {
    // For a file that a writer has truncated but not filled yet, OpenSSL gets no certificate and Node.js raises no error.
    if (texts.cert === '' || texts.key === '') throw new Error('one of them is empty');
    createSecureContext(texts);
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${certFile} and ${keyFile} are not a matching certificate and key`,
      why: (error as Error).message,
      cause: error,
    });
  }
  return texts;
}

/**
 * Reports new contents of the files, until `signal` aborts. They are polled, not watched: a projected volume replaces
 * the directory that a link points at, and no watch sees all of that. While a change is incomplete, it waits.
 */
export async function followCertificates(
  paths: CertificatePaths,
  before: CertificateTexts,
  options: {
    readonly everyMs: number;
    readonly changed: (texts: CertificateTexts) => void;
    /** Called once per problem: the files are unusable, and the previous certificate stays in use. */
    readonly unusable: (error: unknown) => void;
    readonly clock: Clock;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { everyMs, changed, unusable, clock, signal } = options;
  let current = JSON.stringify(before);
  let reportedOf = '';
  while (!signal.aborted) {
    await sleep(clock, everyMs, signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      const texts = await readCertificates(paths);
      reportedOf = '';
      if (JSON.stringify(texts) === current) continue;
      current = JSON.stringify(texts);
      changed(texts);
    } catch (error) {
      const { message } = error as Error;
      if (message !== reportedOf) unusable(error);
      reportedOf = message;
    }
  }
}
