/** The job of a provider that is killed. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { IntegrityJob } from '../provider/provider.ts';

export const killFiles = Array.from({ length: 40 }, (_, at) => `file${String(at).padStart(2, '0')}`);

/** All files have the size of the round that wrote them. */
export function killJob(directory: string): IntegrityJob {
  return {
    key: 'ns/fi',
    conf: { name: 'ConfigMap ns/fi, aide.conf', text: '/hostroot/etc f s+sha256\n' },
    root: { directory: join(directory, 'host'), prefix: '/hostroot' },
    directory: join(directory, 'data'),
    signingKey: { scheme: 'hmac-sha256', secret: Buffer.alloc(32, 5) },
    maxBackups: 3,
  };
}

/** The last round that wrote all its files. */
export function killRound(directory: string): number {
  try {
    return Number(readFileSync(join(directory, 'round'), 'utf8'));
  } catch {
    return 2;
  }
}
