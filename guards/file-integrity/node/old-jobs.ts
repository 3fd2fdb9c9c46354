/**
 * The directories of jobs. Each is named after its FileIntegrity, so that a FileIntegrity which is created again
 * continues with the previous baseline. The directories of FileIntegrities that were deleted, or no longer select this
 * node, are kept for 30 days.
 */
import { hash } from 'node:crypto';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

const keptMs = 30 * 24 * 60 * 60_000;
/** `namespace.name`; a namespace contains no dot. */
const jobDirectory = /^[a-z0-9-]+\.[a-z0-9.-]+$/;

/** Maximum length of a file name (NAME_MAX). The name of a FileIntegrity may have 253 characters. */
const maxNameBytes = 255;

/**
 * Independent of the API group: if both groups have a FileIntegrity with this name, only one is in effect, see
 * ../results/same-name.ts.
 */
export function jobDirectoryName(namespace: string, name: string): string {
  const whole = `${namespace}.${name}`;
  if (whole.length <= maxNameBytes) return whole;
  const digest = hash('sha256', whole).slice(0, 32);
  return `${whole.slice(0, maxNameBytes - digest.length - 1)}-${digest}`;
}

/**
 * Removes directories of jobs that were not written to for 30 days, except those in `inUse`. Returns the names of
 * removed ones.
 *
 * @throws errors of the file system
 */
export async function removeOldJobs(
  directory: string,
  inUse: ReadonlySet<string>,
  nowMs: number,
): Promise<string[]> {
  const removed: string[] = [];
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const { name } = entry;
    if (!entry.isDirectory() || !jobDirectory.test(name) || inUse.has(name)) continue;
    const path = join(directory, name);
    const { mtimeMs } = await stat(path);
    if (nowMs - mtimeMs < keptMs) continue;
    await rm(path, { recursive: true, force: true });
    removed.push(name);
  }
  return removed;
}
