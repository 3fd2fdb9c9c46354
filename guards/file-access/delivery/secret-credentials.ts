/**
 * Reads a Secret for a callback: a bearer token, a client certificate with its key, the certificate authority of the receiver; under the
 * keys that Secrets commonly use for them. Errors never contain any of these values.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';

import type { Secret } from '../../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { Credentials } from './options.ts';
import { tokenForm } from './poster.ts';

/** The keys that are read, including those of Secrets with the type `kubernetes.io/tls`. */
const keys = ['token', 'tls.crt', 'tls.key', 'ca.crt'] as const;
type Key = (typeof keys)[number];

/** Limit of all four values. A bundle of all public authorities has some 220 kB; an agent may hold many Secrets. */
const MAX_BYTES = 256 * 1024;
/** The usual limit of HTTP servers for a header. */
const MAX_TOKEN_BYTES = 8 * 1024;
const certificateForm = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
/**
 * The type of a Secret with a token for the Kubernetes API. It is refused: whoever may write a policy could have the token sent to their
 * own server.
 */
const SERVICE_ACCOUNT_TOKEN = 'kubernetes.io/service-account-token';

/**
 * The credentials in a Secret. It must contain at least one, and all must be valid.
 *
 * @param secret `namespace/name`, for errors.
 * @throws {RampartError} `INPUT` for a Secret that cannot be used; it names the key, never the value.
 */
export function secretCredentials({ type, data = {} }: Secret, secret: string): Credentials {
  if (type === SERVICE_ACCOUNT_TOKEN) {
    throw unusable(secret, 'it is a service account token, which is for the Kubernetes API only');
  }
  const texts = new Map<Key, string>();
  let sizeBytes = 0;
  for (const key of keys) {
    const encoded = data[key];
    if (encoded === undefined) continue;
    const bytes = Buffer.from(encoded, 'base64');
    if (bytes.byteLength === 0) throw unusable(secret, `its key ${key} is empty`);
    sizeBytes += bytes.byteLength;
    texts.set(key, bytes.toString('utf8'));
  }
  if (texts.size === 0) throw unusable(secret, `it has none of the keys ${keys.join(', ')}`);
  if (sizeBytes > MAX_BYTES) throw unusable(secret, `these keys hold more than ${MAX_BYTES / 1024} KiB`);
  const [token, cert, key, ca] = keys.map((name) => texts.get(name));
  if (cert !== undefined || key !== undefined) checkPair(secret, cert, key);
  if (ca !== undefined) checkCertificates(secret, 'ca.crt', ca);
  return {
    ...(token !== undefined && { bearerToken: checkedToken(secret, token) }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    ...(ca !== undefined && { ca }),
  };
}

/** About how much memory these credentials take, in bytes. */
export function credentialBytes({ bearerToken = '', cert = '', key = '', ca = '' }: Credentials): number {
  return bearerToken.length + cert.length + key.length + ca.length;
}

export function sameCredentials(one: Credentials, other: Credentials): boolean {
  return (
    one.bearerToken === other.bearerToken &&
    one.cert === other.cert &&
    one.key === other.key &&
    one.ca === other.ca
  );
}

function checkedToken(secret: string, text: string): string {
  // `echo TOKEN > file` adds a line break, which is not part of the token. Kubernetes itself reads files with tokens in the same way.
  const token = text.replace(/\r?\n$/, '');
  if (/[\r\n]/.test(token)) throw unusable(secret, 'its key token contains a line break');
  if (token.length > MAX_TOKEN_BYTES)
    throw unusable(secret, `its key token is longer than ${MAX_TOKEN_BYTES} bytes`);
  if (!tokenForm.test(token)) {
    throw unusable(
      secret,
      'its key token contains characters that are invalid in a bearer token',
      'Write it without "Bearer "',
    );
  }
  return token;
}

function checkPair(secret: string, cert: string | undefined, key: string | undefined): void {
  if (cert === undefined) throw unusable(secret, 'it has the key tls.key but not tls.crt');
  if (key === undefined) throw unusable(secret, 'it has the key tls.crt but not tls.key');
  const [leaf] = checkCertificates(secret, 'tls.crt', cert);
  let matches: boolean;
  try {
    matches = leaf?.checkPrivateKey(createPrivateKey(key)) === true;
  } catch {
    throw unusable(secret, 'its key tls.key is not an unencrypted private key in PEM');
  }
  if (!matches) throw unusable(secret, 'its key tls.key does not match the certificate in tls.crt');
}

function checkCertificates(secret: string, key: Key, text: string): X509Certificate[] {
  const found = text.match(certificateForm) ?? [];
  // Each certificate that begins must also be complete: one that was cut off would otherwise be ignored silently.
  if (found.length > 0 && found.length === text.split('-----BEGIN ').length - 1) {
    try {
      return found.map((one) => new X509Certificate(one));
    } catch {
      // An unreadable certificate is refused below.
    }
  }
  throw unusable(secret, `its key ${key} does not contain certificates in PEM`);
}

function unusable(secret: string, why: string, next?: string): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: `the Secret ${secret} cannot be used`,
    why,
    next,
  });
}
