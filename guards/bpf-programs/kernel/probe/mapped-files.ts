/**
 * Determines from /proc/PID/maps which files processes still execute or have mapped: an earlier version of a library stays in use until
 * they end.
 */
import { readdir, readFile } from 'node:fs/promises';
import { basename } from 'node:path';

import { type Clock, systemClock } from '../../../../lib/time/clock.ts';
import type { ProbedFile } from '../records.ts';

/** A file that is no longer at its path. */
export type EarlierFile = Pick<ProbedFile, 'file' | 'path'>;

/** Reading the maps of all processes takes some 0.1 ms for each: at most a twentieth of the time is spent on it. */
const SHARE = 20;
const MIN_PAUSE_MS = 500;

/** Whether files are in use; a file that has not been checked counts as used. */
export class MappedFiles {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  #unused = new Set<string>();
  #nextMs = -Infinity;

  constructor(clock: Pick<Clock, 'monotonicMs'> = systemClock) {
    this.#clock = clock;
  }

  /** Whether no process uses the file. True only once for each check, because another file may get the same inode number later. */
  takeUnused({ file }: EarlierFile): boolean {
    return this.#unused.delete(file);
  }

  /** Checks all processes, unless that was done recently. */
  async look(files: readonly EarlierFile[], signal?: AbortSignal): Promise<void> {
    if (files.length === 0) this.#unused = new Set();
    const beganMs = this.#clock.monotonicMs();
    if (files.length === 0 || beganMs < this.#nextMs) return;
    const left = new Map(files.map((one) => [one.file, one]));
    for (const name of await readdir('/proc')) {
      if (left.size === 0) break;
      if (!/^\d+$/.test(name)) continue;
      signal?.throwIfAborted();
      const maps = await mapsOf(name);
      // A process could not be read, so nothing is known for certain: try again later.
      if (maps === undefined) return;
      for (const [key, one] of left) if (isMapped(maps, one)) left.delete(key);
    }
    this.#unused = new Set(left.keys());
    const endedMs = this.#clock.monotonicMs();
    this.#nextMs = endedMs + Math.max(MIN_PAUSE_MS, (endedMs - beganMs) * SHARE);
  }
}

/**
 * Whether a file is in lines such as `7f00-7f01 r-xp 00000000 08:01 12345    /usr/lib/libc.so.6 (deleted)`. On overlayfs and btrfs, the
 * device in them may differ from that of stat(2) (show_map_vma of fs/proc/task_mmu.c), so the path counts instead; on overlayfs, the inode
 * may differ as well.
 */
function isMapped(maps: string, { file, path }: EarlierFile): boolean {
  const [device = '0', inode = ''] = file.split(' ');
  if (maps.includes(`${path} (deleted)\n`)) return true;
  if (!maps.includes(` ${inode} `)) return false;
  const name = basename(path);
  return Array.from(maps.matchAll(new RegExp(`^\\S+ \\S+ \\S+ (\\S+) ${inode} +(.*)$`, 'gm'))).some(
    ([, shown = '', mapped = '']) =>
      shown === deviceText(BigInt(device)) || basename(mapped.replace(/ \(deleted\)$/, '')) === name,
  );
}

/** A device from stat(2) in the format of /proc/PID/maps. */
function deviceText(device: bigint): string {
  const major = ((device >> 8n) & 0xfffn) | ((device >> 32n) & ~0xfffn);
  const minor = (device & 0xffn) | ((device >> 12n) & 0xffffff00n);
  return [major, minor].map((part) => part.toString(16).padStart(2, '0')).join(':');
}

/**
 * The maps of a process. Empty if it has ended, or if a security module hides it even from CAP_SYS_PTRACE: otherwise such a process would
 * keep a file in use forever. Undefined if it could not be read for another reason.
 */
async function mapsOf(pid: string): Promise<string | undefined> {
  try {
    return await readFile(`/proc/${pid}/maps`, 'latin1');
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    return ['EACCES', 'ENOENT', 'EPERM', 'ESRCH'].includes(code) ? '' : undefined;
  }
}
