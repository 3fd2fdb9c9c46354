import { randomUUID } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const form = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * The identity in leases of the process that owns this directory. It stays the same after a restart, so that a process that was killed
 * continues with its own lease at once; otherwise the next one would have to wait for the lease to expire, and nothing would be watched
 * meanwhile.
 *
 * Call it only if no other process can own the directory: two processes must not have the same identity. If the file cannot be written,
 * each start has a new identity, which costs that wait but nothing else.
 */
export function lastingIdentity(directory: string, nodeName: string): string {
  const path = join(directory, 'identity');
  let known = '';
  try {
    known = readFileSync(path, 'utf8').trim();
  } catch {
    // The file does not exist yet, or cannot be read: a new identity is made.
  }
  if (form.test(known)) return `${nodeName}_${known}`;
  const fresh = randomUUID();
  try {
    writeFileSync(`${path}.new`, `${fresh}\n`, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  } catch {
    // Without the file, the next process has another identity.
  }
  return `${nodeName}_${fresh}`;
}
