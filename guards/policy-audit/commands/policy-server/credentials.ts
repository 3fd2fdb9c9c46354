/** Credentials for registries, in Docker's format. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { fileError, RampartError } from '../../../../lib/errors/errors.ts';
import { credentialsOfDockerConfig } from '../../../../lib/oci/pull-secrets.ts';
import type { CredentialsSource } from '../../../../lib/oci/registry.ts';

/** The credentials in a file, or in a directory's `config.json`, as in Docker. */
export function pullSecretOf(path: string | undefined): CredentialsSource | undefined {
  if (path === undefined) return undefined;
  try {
    const file = statSync(path).isDirectory() ? join(path, 'config.json') : path;
    return credentialsOfDockerConfig(readFileSync(file, 'utf8'), file);
  } catch (error) {
    if (error instanceof RampartError) throw error;
    throw fileError(`cannot read the credentials in ${path}`, error);
  }
}
