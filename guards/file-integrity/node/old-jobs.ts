/**
 * The directories of jobs. They are named like FileIntegrities: one that is created again continues from the
 * previous baseline. Directories of FileIntegrities that are gone, or no longer for this node, are kept for
 * 30 days.
 */
import { hash } from 'node:crypto';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

const keptMs = 30 * 24 * 60 * 60_000;
/** `namespace.name`; a namespace has no dot. */
const jobDirectory = /^[a-z0-9-]+\.[a-z0-9.-]+$/;

/** A file system takes no longer name, and a FileIntegrity may have 253 characters. */
const maxNameBytes = 255;

/** The same for a FileIntegrity of this name in either API group: only one of them counts, see ../same-name.ts. */
export function jobDirectoryName(namespace: string, name: string): string {
  const whole = `${namespace}.${name}`;
  if (whole.length <= maxNameBytes) return whole;
  const digest = hash('sha256', whole).slice(0, 32);
  return `${whole.slice(0, maxNameBytes - digest.length - 1)}-${digest}`;
}

/**
 * Removes the directories that nothing was written to for 30 days, but not these. Returns what it removed.
 *
 * @throws what the file system says
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
