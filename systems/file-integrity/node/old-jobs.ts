/**
 * What is left of FileIntegrities that are gone, or not for this node any more: it is kept for a while, and does not take the
 * disk for ever.
 *
 * @module
 */
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

const keptMs = 30 * 24 * 60 * 60_000;
/** `namespace.name.uid` */
const jobDirectory = /^[a-z0-9-]+\.[a-z0-9.-]+\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A file system takes no longer name, and a FileIntegrity may have 253 characters. */
const maxNameBytes = 255;

/** The uid says which it is; the names are for people, and cut where they are too long. */
export function jobDirectoryName(namespace: string, name: string, uid: string): string {
  const room = maxNameBytes - namespace.length - uid.length - '..'.length;
  return `${namespace}.${name.slice(0, room)}.${uid}`;
}

/**
 * Removes the directories that nothing was written to for 30 days, but not those of these uids. Returns what it removed.
 *
 * @throws what the file system says
 */
export async function removeOldJobs(
  directory: string,
  uids: ReadonlySet<string>,
  nowMs: number,
): Promise<string[]> {
  const removed: string[] = [];
  for (const name of await readdir(directory)) {
    if (!jobDirectory.test(name) || uids.has(name.slice(-36))) continue;
    const path = join(directory, name);
    const { mtimeMs } = await stat(path);
    if (nowMs - mtimeMs < keptMs) continue;
    await rm(path, { recursive: true, force: true });
    removed.push(name);
  }
  return removed;
}
