/** The bytecode that `rampart bpf verify` looks at: a file, or an image of a registry. */
import { mkdtempDisposableSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { credentialsOfDockerConfig } from '../../../lib/oci/pull-secrets.ts';
import type { CredentialsSource, PullOptions } from '../../../lib/oci/registry.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { readObjectFile } from '../node/bytecode-file.ts';
import { openBytecodeRegistry } from '../node/bytecode-registry.ts';
import { objectOf, programTypesOf } from '../node/image-bytecode.ts';
import type { VerifyOptions } from './command.ts';

export interface Subject {
  readonly digest: string;
  readonly bytes: Uint8Array;
  /** By the labels of the image, by function; undefined if it has none, as a file. */
  readonly types: Readonly<Record<string, string>> | undefined;
}

type RegistryOptions = Pick<VerifyOptions, 'credentials' | 'insecure' | 'registries'>;

/** @throws {RampartError} as `readObjectFile` does. */
export function fileSubject(path: string): Subject {
  return { ...readObjectFile('/', resolve(path)), types: undefined };
}

/** Pulls the image. @throws {RampartError} */
export async function imageSubject(
  reference: string,
  { insecure, registries, credentials }: RegistryOptions,
  signal: AbortSignal,
): Promise<Subject> {
  await using stack = new AsyncDisposableStack();
  const { path: directory } = stack.use(mkdtempDisposableSync(join(tmpdir(), 'rampart-verify-')));
  const host = reference.split('/')[0] ?? '';
  const registry = stack.use(
    await openBytecodeRegistry(
      directory,
      {
        bpfInsecureRegistry: insecure === true ? [host] : [],
        bpfRegistries: registries,
      },
      createLogger({ level: 'warn' }),
    ),
  );
  const given: PullOptions = {
    ...{ signal, policy: 'Always' as const },
    ...(credentials !== undefined && { credentials: readCredentials(credentials) }),
  };
  const artifact = await registry.pull(reference, given);
  const bytes = await objectOf(registry, artifact, given);
  return { digest: artifact.digest, bytes, types: programTypesOf(artifact) };
}

/** @throws {RampartError} `INPUT` */
function readCredentials(path: string): CredentialsSource {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot read ${path}`,
      why: messageOf(error),
      next: 'Use the config.json that `docker login` or `podman login --authfile` writes',
      cause: error,
    });
  }
  return credentialsOfDockerConfig(text, path);
}
