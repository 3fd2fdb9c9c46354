/**
 * A lab's resources on the machine, and their removal: one directory, and one cgroup tree of the same name
 * with every process of it. All mounts and network interfaces are in namespaces that end with the last of
 * these processes.
 */
import { readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { isSameProcess, processIdentity, type ProcessIdentity } from '../../lib/cri/process.ts';
import { cgroup2Directory, cgroupDirectories } from './obstacle.ts';

const PREFIX = 'rampart-lab-';
const isLabName = (name: string): boolean => /^rampart-lab-[A-Za-z0-9]{6}$/.test(name);
/** How long a lab may take to write down whose it is. */
const NAMELESS_MS = 60_000;
const END_MS = 20_000;

/** A new directory for a lab of this process, with the cgroup that its processes go to. */
export async function createHome(): Promise<{ readonly directory: string; readonly cgroup: string }> {
  const directory = await mkdtemp(join(tmpdir(), PREFIX));
  await writeFile(join(directory, 'owner.json'), JSON.stringify(processIdentity(process.pid)));
  // containerd's processes are in a leaf: in cgroup2 a group has processes or controllers for its children, not both.
  const cgroup = join(cgroup2Directory() ?? '', basename(directory), 'runtime');
  await mkdir(cgroup, { recursive: true });
  return { directory, cgroup };
}

/** Ends every process of the lab, and removes all it has. */
export async function removeHome(directory: string): Promise<void> {
  const name = basename(directory);
  if (!isLabName(name)) throw new Error(`not the directory of a lab: ${directory}`);
  const endsAtMs = performance.now() + END_MS;
  // A process that was being started may enter its cgroup after all others have ended: rmdir says EBUSY then.
  for (;;) {
    await endProcesses(name, endsAtMs);
    try {
      for (const { directory: hierarchy } of cgroupDirectories()) removeTree(join(hierarchy, name));
      break;
    } catch (error) {
      if (performance.now() > endsAtMs) throw error;
      await sleep(10);
    }
  }
  await rm(directory, { recursive: true, force: true, maxRetries: 5 });
}

/**
 * Removes what labs left whose process is gone. Labs of processes that run are left alone, of whatever checkout they are.
 *
 * @returns the directories that were removed.
 */
export async function sweepLabs(): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const name of await readdir(tmpdir())) {
    const directory = join(tmpdir(), name);
    if (!isLabName(name) || !(await isAbandoned(directory))) continue;
    await removeHome(directory);
    removed.push(directory);
  }
  return removed;
}

async function isAbandoned(directory: string): Promise<boolean> {
  try {
    const stat = await lstat(directory);
    // Any user may create a directory of such a name.
    if (!stat.isDirectory() || stat.uid !== process.getuid?.()) return false;
    let owner: ProcessIdentity;
    try {
      owner = JSON.parse(await readFile(join(directory, 'owner.json'), 'utf8')) as ProcessIdentity;
    } catch {
      return Date.now() - stat.mtimeMs > NAMELESS_MS;
    }
    return !isSameProcess(owner);
  } catch {
    // Another process has removed it.
    return false;
  }
}

/** cgroup.kill kills a whole tree, also what forks meanwhile (Linux 5.14, Documentation/admin-guide/cgroup-v2.rst). */
async function endProcesses(name: string, endsAtMs: number): Promise<void> {
  const top = join(cgroup2Directory() ?? '', name);
  while (isPopulated(top)) {
    await writeFile(join(top, 'cgroup.kill'), '1').catch(() => undefined);
    await sleep(10);
    if (performance.now() > endsAtMs) throw new Error(`processes of ${name} do not end; see ${top}`);
  }
}

function isPopulated(cgroup: string): boolean {
  try {
    return readFileSync(join(cgroup, 'cgroup.events'), 'utf8').includes('populated 1');
  } catch {
    return false;
  }
}

/** A cgroup goes by rmdir, the deepest first; the files in it are not removed. */
function removeTree(cgroup: string): void {
  let entries;
  try {
    entries = readdirSync(cgroup, { withFileTypes: true });
  } catch {
    return;
  }
  for (const entry of entries) if (entry.isDirectory()) removeTree(join(cgroup, entry.name));
  rmdirSync(cgroup);
}
