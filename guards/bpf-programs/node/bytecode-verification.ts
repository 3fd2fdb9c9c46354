/** `--bpf-verification-config`: the signatures that images with bytecode must have. */
import { dirname, resolve } from 'node:path';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { readYaml, refuseUnknown, unusable } from '../../../lib/files/yaml-file.ts';
import { isObject } from '../../../lib/json/json.ts';
import type { Artifact, PullOptions, Registry } from '../../../lib/oci/registry.ts';
import { type SignatureTerms, verifySignatures } from '../../../lib/oci/signatures/signatures.ts';
import { readTrustRootFile } from '../../../lib/oci/signatures/trust-root.ts';
import { parseVerification } from '../../../lib/oci/signatures/verification.ts';

/** Reads the configuration when it is first needed; later only if that failed. */
export class BytecodeVerification {
  readonly #path: string;
  #terms: SignatureTerms | undefined;

  /** @param path - The path of the configuration. */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Verifies the signatures of an image, which are requested from the registry. If the registry is unavailable, the signatures that it
   * returned earlier are used.
   *
   * @throws {RampartError} `PRIVILEGE` if required signatures are missing; `INPUT`, `NOT_FOUND`, `SYSTEM` for a configuration that cannot
   * be used; errors of `Registry.pull`
   */
  async checkImage(
    registry: Pick<Registry, 'layer' | 'pull'>,
    artifact: Artifact,
    options: PullOptions,
  ): Promise<void> {
    await verifySignatures(registry, artifact, this.#read(), options);
  }

  /** @throws {RampartError} `PRIVILEGE` unless unsigned bytecode is allowed; errors of the configuration as in {@link checkImage} */
  checkFile(path: string): void {
    if (this.#read().allowUnsigned === true) return;
    throw new RampartError(errorCodes.PRIVILEGE, {
      what: `${path} is not trusted`,
      why: `a file cannot have signatures, and ${this.#path} requires them`,
      next: 'Use a signed image',
    });
  }

  #read(): SignatureTerms {
    return (this.#terms ??= readTerms(this.#path));
  }
}

/** @throws {RampartError} `NOT_FOUND`, `SYSTEM`, `INPUT` if the configuration cannot be used */
function readTerms(path: string): SignatureTerms {
  const document = readYaml(path);
  if (!isObject(document)) throw unusable(path, 'it is not a mapping');
  refuseUnknown(document, ['apiVersion', 'allowUnsigned', 'sigstoreTrustConfig', 'allOf', 'anyOf'], path);
  const { allowUnsigned = false, sigstoreTrustConfig, ...requirements } = document;
  if (typeof allowUnsigned !== 'boolean') throw unusable(path, 'allowUnsigned must be true or false');
  if (sigstoreTrustConfig !== undefined && typeof sigstoreTrustConfig !== 'string')
    throw unusable(path, 'sigstoreTrustConfig must be the path of a file');
  return {
    verification: parseVerification(requirements, path),
    allowUnsigned,
    ...(sigstoreTrustConfig !== undefined && {
      trustRoot: readTrustRootFile(resolve(dirname(path), sigstoreTrustConfig)),
    }),
    trustRootHint: `Name one in sigstoreTrustConfig of ${path}`,
  };
}
