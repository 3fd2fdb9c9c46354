/** A small file system, for tests of what happens when it is full. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A tmpfs on a directory of its own; disposing it takes both away. */
export class SmallDisk implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'rampart-small-disk-'));

  constructor(sizeKiB: number) {
    const options = ['-t', 'tmpfs', '-o', `size=${sizeKiB}k`, 'tmpfs', this.path];
    const { status, stderr } = spawnSync('mount', options, { encoding: 'utf8' });
    if (status === 0) return;
    rmSync(this.path, { recursive: true });
    throw new Error(`cannot mount: ${stderr}`);
  }

  at(name: string): string {
    return join(this.path, name);
  }

  /** Takes all the space that is left but this. */
  fill(leaveKiB = 0): void {
    const { bavail, bsize } = statfsSync(this.path);
    try {
      writeFileSync(this.at('ballast'), Buffer.alloc(Math.max(0, bavail * bsize - leaveKiB * 1024)));
    } catch (error) {
      // Another process has written meanwhile; the disk is full.
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  }

  free(): void {
    rmSync(this.at('ballast'), { force: true });
  }

  [Symbol.dispose](): void {
    spawnSync('umount', [this.path]);
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** Why there can be none here, or false. */
export function smallDiskSkip(): string | false {
  try {
    new SmallDisk(64)[Symbol.dispose]();
    return false;
  } catch (error) {
    return String(error);
  }
}
