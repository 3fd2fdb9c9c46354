import { randomUUID } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const form = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * The name for leases of the process that has this directory: the same after a restart, so that one that was killed
 * goes on with its own lease at once and does not wait for its end, with nothing watched meanwhile.
 *
 * Call it only when no other process can have the directory: two must not have one name. Where the file cannot be
 * written the name is a new one each time, which costs that wait and nothing else.
 */
export function lastingIdentity(directory: string, nodeName: string): string {
  const path = join(directory, 'identity');
  let known = '';
  try {
    known = readFileSync(path, 'utf8').trim();
  } catch {
    // The first start.
  }
  if (form.test(known)) return `${nodeName}_${known}`;
  const fresh = randomUUID();
  try {
    writeFileSync(`${path}.new`, `${fresh}\n`, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  } catch {
    // Without the file, the next process has another name.
  }
  return `${nodeName}_${fresh}`;
}
