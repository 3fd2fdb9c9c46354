/** The bytecode that `rampart bpf verify` checks: a file, or an image in a registry. */
import { mkdtempDisposableSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { credentialsOfDockerConfig } from '../../../lib/oci/pull-secrets.ts';
import type { CredentialsSource, PullOptions } from '../../../lib/oci/registry.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { readObjectFile } from '../node/bytecode-file.ts';
import { openBytecodeRegistry } from '../node/bytecode-registry.ts';
import { BytecodeVerification } from '../node/bytecode-verification.ts';
import { objectOf, programTypesOf } from '../node/image-bytecode.ts';
import type { VerifyOptions } from './command.ts';

export interface Subject {
  readonly digest: string;
  readonly bytes: Uint8Array;
  /** Program types by function, from the labels of the image; undefined if there are no labels, as for a file. */
  readonly types: Readonly<Record<string, string>> | undefined;
}

/** Bytecode that agents would not load, because its signatures do not suffice. */
export interface Untrusted {
  readonly digest: string;
  /** Why it is not trusted. */
  readonly untrusted: string;
}

type SubjectOptions = Pick<
  VerifyOptions,
  'bpfVerificationConfig' | 'credentials' | 'insecure' | 'registries'
>;

/** @throws {RampartError} as `readObjectFile` does. */
export async function fileSubject(path: string, options: SubjectOptions): Promise<Subject | Untrusted> {
  const { digest, bytes } = readObjectFile('/', resolve(path));
  const untrusted = await objectionOf(() => verificationOf(options)?.checkFile(path));
  return untrusted === undefined ? { digest, bytes, types: undefined } : { digest, untrusted };
}

/** Pulls the image. @throws {RampartError} */
export async function imageSubject(
  reference: string,
  options: SubjectOptions,
  signal: AbortSignal,
): Promise<Subject | Untrusted> {
  const { insecure, registries, credentials } = options;
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
  const { digest } = artifact;
  const untrusted = await objectionOf(() => verificationOf(options)?.checkImage(registry, artifact, given));
  if (untrusted !== undefined) return { digest, untrusted };
  return { digest, bytes: await objectOf(registry, artifact, given), types: programTypesOf(artifact) };
}

function verificationOf({ bpfVerificationConfig: path }: SubjectOptions): BytecodeVerification | undefined {
  return path === undefined ? undefined : new BytecodeVerification(path);
}

/** Why the bytecode is not trusted; undefined if it is. @throws {RampartError} if it cannot be determined whether it is trusted */
async function objectionOf(check: () => Promise<void> | void): Promise<string | undefined> {
  try {
    await check();
    return undefined;
  } catch (error) {
    if (!(error instanceof RampartError) || error.code !== errorCodes.PRIVILEGE) throw error;
    return error.message;
  }
}

/** @throws {RampartError} `INPUT` if the file cannot be read or is invalid */
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
