/** Credentials for registries, in Docker's format. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { errorCodes, RampartError } from '../../shared/observe/errors.ts';
import { credentialsOfDockerConfig } from '../../shared/oci/pull-secrets.ts';
import type { CredentialsSource } from '../../shared/oci/registry.ts';

/** Of a file, or of the directory that it is in, as Docker has it. */
export function pullSecretOf(path: string | undefined): CredentialsSource | undefined {
  if (path === undefined) return undefined;
  try {
    const file = statSync(path).isDirectory() ? join(path, 'config.json') : path;
    return credentialsOfDockerConfig(readFileSync(file, 'utf8'), file);
  } catch (error) {
    if (error instanceof RampartError) throw error;
    throw new RampartError(errorCodes.SYSTEM, {
      what: `cannot read the credentials in ${path}`,
      why: (error as Error).message,
      cause: error,
    });
  }
}
