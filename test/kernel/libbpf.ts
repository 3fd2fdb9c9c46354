/**
 * Runs a command with Debian 13's libbpf 1.5 in place of the machine's own, on the host or in a guest.
 * That library needs a newer glibc than Debian 12 has, and a process cannot mix two: so the command
 * gets a mount namespace of its own, in which both libraries' files lie over the machine's.
 */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { debianPackage } from '../../scripts/debian-packages.ts';
import { quote } from './quote.ts';

const LIBRARIES = 'usr/lib/x86_64-linux-gnu';

/**
 * The command line that runs `command` so. Needs root, util-linux and busybox-static; nothing stays
 * behind. A program that is found in PATH is run, never a busybox applet of that name.
 *
 * @throws {RampartError} as `debianPackage`, when the libraries have to be fetched and cannot be.
 */
export async function withLibbpf15(
  command: readonly string[],
  options: { readonly signal: AbortSignal; readonly onLine?: (line: string) => void },
): Promise<string[]> {
  const mounts: string[] = [];
  for (const id of ['libbpf-1.5', 'libc-2.41']) {
    const directory = join((await debianPackage(id, options)).root, LIBRARIES);
    for (const name of (await readdir(directory)).toSorted()) {
      const target = join('/', LIBRARIES, name);
      if (!/\.so\.\d+$/.test(name) || !existsSync(target)) continue;
      mounts.push(`mount -o bind ${quote(join(directory, name))} ${quote(target)}`);
    }
  }
  // A static shell: between two of these mounts no dynamic program would start.
  const script = [...mounts, 'exec /usr/bin/env "$@"'].join(' && ');
  return [
    'unshare',
    '--mount',
    '--propagation',
    'private',
    '/bin/busybox',
    'sh',
    '-c',
    script,
    'sh',
    ...command,
  ];
}
