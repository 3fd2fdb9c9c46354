/**
 * Continue tokens say where the next page of a list begins. They are opaque to clients and signed with a key in the
 * database, so that a token survives a restart and only unchanged tokens of this store are accepted.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';

import { MalformedTokenError } from './errors.ts';

interface Continuation {
  readonly resource: string;
  /** The namespace the list is limited to; `undefined` for all. */
  readonly namespace: string | undefined;
  /** The version of all pages; 0 if each page is read at the newest version. */
  readonly version: bigint;
  /** The last key that was listed. */
  readonly after: { readonly namespace: string; readonly name: string };
}

const signatureBytes = 16;

export function encodeToken(key: Uint8Array, { resource, namespace, version, after }: Continuation): string {
  const fields = [resource, namespace ?? null, version.toString(), after.namespace, after.name];
  const payload = Buffer.from(JSON.stringify(fields));
  return Buffer.concat([sign(key, payload), payload]).toString('base64url');
}

/** @throws {MalformedTokenError} for anything that `encodeToken` did not return with this key. */
export function decodeToken(key: Uint8Array, token: string): Continuation {
  const bytes = Buffer.from(token, 'base64url');
  const payload = bytes.subarray(signatureBytes);
  // The decoder skips characters outside of base64url, so different texts have the same bytes; only one of them is accepted.
  const intact =
    bytes.toString('base64url') === token &&
    payload.length > 0 &&
    timingSafeEqual(bytes.subarray(0, signatureBytes), sign(key, payload));
  if (!intact) throw new MalformedTokenError('the token is malformed');
  const [resource, namespace, version, afterNamespace, name] = JSON.parse(payload.toString()) as [
    string,
    string | null,
    string,
    string,
    string,
  ];
  return {
    resource,
    namespace: namespace ?? undefined,
    version: BigInt(version),
    after: { namespace: afterNamespace, name },
  };
}

function sign(key: Uint8Array, payload: Uint8Array): Buffer {
  return createHmac('sha256', key).update(payload).digest().subarray(0, signatureBytes);
}
