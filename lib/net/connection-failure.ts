/**
 * Explains why a connection failed, for people: Node.js mentions its own options, and sometimes says nothing.
 */

const untrusted =
  'its certificate is from an authority that is not trusted here; is the configured authority that of this server?';

/** Keyed by codes of OpenSSL (x509_vfy.h) and of Node.js. */
const reasons: Readonly<Record<string, string>> = {
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted,
  UNABLE_TO_GET_ISSUER_CERT: untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted,
  SELF_SIGNED_CERT_IN_CHAIN: untrusted,
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed and not trusted here',
  CERT_SIGNATURE_FAILURE: untrusted,
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet; is the clock of this machine right?',
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'the host name does not exist',
  EAI_AGAIN: 'the host name cannot be resolved at the moment',
  EHOSTUNREACH: 'there is no route to it',
  ENETUNREACH: 'there is no route to it',
};

/** Takes the error of `request` of node:http or node:https. */
export function describeConnectionFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // For a name with several addresses the message is empty.
  if (error instanceof AggregateError && error.message === '')
    return [...new Set(error.errors.map(describeConnectionFailure))].join('; ');
  // OpenSSL's message for this contains the name of a source file and a line break.
  if (error.message.includes('wrong version number')) return 'it answers without TLS';
  const { code, syscall } = error as NodeJS.ErrnoException;
  const reason = code === undefined ? undefined : reasons[code];
  if (reason === undefined) return error.message;
  // Only the message says which of several addresses it was.
  return syscall === undefined ? reason : `${reason} (${error.message})`;
}
