/** File systems for tests: mounted for as long as the handle lives. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';

import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';

/** Runs a command that has to succeed, and returns its stdout. */
export function run(
  command: string,
  args: readonly string[],
  options: { readonly cwd?: string } = {},
): string {
  const { status, signal, stdout, stderr, error } = spawnSync(command, args, {
    encoding: 'utf8',
    ...options,
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${signal ?? `exit ${status}`}: ${stderr}`);
  return stdout;
}

/** A mounted directory; unmounted with all that is mounted below it. */
export class Mounted extends TemporaryDirectory {
  /** @param args - Of mount(8), without the directory. */
  constructor(...args: readonly string[]) {
    super();
    try {
      run('mount', [...args, this.path]);
    } catch (error) {
      super[Symbol.dispose]();
      throw error;
    }
  }

  override [Symbol.dispose](): void {
    // Lazy: a test that failed may have left a process in it. Loop devices are freed with the mount.
    run('umount', ['--lazy', this.path]);
    super[Symbol.dispose]();
  }
}

export const tmpfs = (): Mounted => new Mounted('-t', 'tmpfs', '-o', 'size=16m', 'rampart-test');

/** A file system of its own in an image file, made by `mkfs`. Sizes in MiB. */
export function imageOf(type: 'ext4' | 'btrfs', directory: string, sizeMib: number): Mounted {
  const image = `${directory}/${type}.img`;
  writeFileSync(image, '');
  truncateSync(image, sizeMib * 1024 * 1024);
  run(`mkfs.${type}`, ['-q', ...(type === 'ext4' ? ['-F'] : ['--mixed']), image]);
  return new Mounted('-o', 'loop', image);
}

/** An overlay of `lower` under `upper`, both directories; `work` beside `upper` on its file system. */
export function overlayOf(lower: string, upper: string, work: string): Mounted {
  for (const directory of [lower, upper, work]) mkdirSync(directory, { recursive: true });
  return new Mounted(
    '-t',
    'overlay',
    '-o',
    `lowerdir=${lower},upperdir=${upper},workdir=${work}`,
    'rampart-test',
  );
}

/** Why a file system can't be tested here, or false. */
export function fileSystemSkip(type: 'ext4' | 'btrfs' | 'overlay' | 'tmpfs'): string | false {
  if (process.geteuid?.() !== 0) return 'needs root to mount';
  // A kernel with modules may load it at the mount.
  const known = readFileSync('/proc/filesystems', 'utf8').includes(`\t${type}\n`);
  if (!known && spawnSync('modprobe', [type]).status !== 0) return `this kernel has no ${type}`;
  if (type === 'overlay' || type === 'tmpfs') return false;
  if (spawnSync(`mkfs.${type}`, ['-V']).error) return `mkfs.${type} is not installed`;
  return loopSkip();
}

function loopSkip(): string | false {
  const found = spawnSync('losetup', ['--find'], { encoding: 'utf8' });
  if (found.status === 0) return false;
  spawnSync('modprobe', ['loop']);
  return spawnSync('losetup', ['--find']).status !== 0 && 'no loop devices here';
}

/** The device of the mount that `path` is in, as the kernel keeps it: major << 20 | minor. */
export function mountDevice(mountPoint: string): number {
  for (const line of readFileSync('/proc/self/mountinfo', 'utf8').split('\n').toReversed()) {
    const [, , device = '', , where] = line.split(' ');
    if (where !== mountPoint) continue;
    const [major = 0, minor = 0] = device.split(':').map(Number);
    return ((major << 20) | minor) >>> 0;
  }
  throw new Error(`nothing is mounted on ${mountPoint}`);
}
