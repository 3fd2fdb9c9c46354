/**
 * A trusted Sigstore instance: the certificate authorities and logs that keyless signatures are verified with, from a file. Nothing is
 * fetched from Sigstore.
 */
import { isObject } from '../../json/json.ts';
import { errorCodes, RampartError } from '../../errors/errors.ts';
import { readYaml } from '../../files/yaml-file.ts';

export interface TrustRoot {
  /** Where it comes from, for messages. */
  readonly name: string;
  /** A TrustedRoot of Sigstore, as JSON. Its keys and certificates are parsed when a signature needs them. */
  readonly document: Readonly<Record<string, unknown>>;
}

/** @throws {RampartError} `NOT_FOUND`, `SYSTEM`, `INPUT` */
export function readTrustRootFile(path: string): TrustRoot {
  return parseTrustRoot(readYaml(path), path);
}

/**
 * @param document - A TrustedRoot, or the ClientTrustConfig that contains one.
 * @param what - Where it comes from, for messages.
 * @throws {RampartError} `INPUT`
 */
export function parseTrustRoot(document: unknown, what: string): TrustRoot {
  const root = isObject(document) ? (document['trustedRoot'] ?? document) : undefined;
  if (!isObject(root)) throw unusableTrustRoot(what, 'it is not a mapping');
  for (const name of ['certificateAuthorities', 'tlogs', 'ctlogs']) {
    const list = root[name];
    // Without one of them, no keyless signature could be verified.
    if (!Array.isArray(list) || list.length === 0) throw unusableTrustRoot(what, `it has no ${name}`);
  }
  return { name: what, document: root };
}

export function unusableTrustRoot(what: string, why: string, cause?: unknown): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: `the Sigstore trust root ${what} cannot be used`,
    why,
    next: 'Create it with cosign trusted-root create, or use the trusted_root.json of the Sigstore instance',
    cause,
  });
}
