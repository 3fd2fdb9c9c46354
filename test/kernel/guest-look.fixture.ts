/** What a guest is like. Run inside one it says what it sees, in one line of JSON. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const checkout = resolve(import.meta.dirname, '../..');

/** Paths that the guest writes to; the host must not see them. */
export const written = [
  '/etc/rampart-guest-wrote',
  join(checkout, 'rampart-guest-wrote'),
  '/tmp/rampart-guest-wrote',
];

interface Seen {
  readonly release: string;
  readonly mounts: readonly string[];
  readonly [name: string]: unknown;
}

function look(): Seen {
  const run = (command: string): string => execFileSync('sh', ['-c', command], { encoding: 'utf8' }).trim();
  for (const path of written) writeFileSync(path, 'guest');
  return {
    release: run('uname -r'),
    node: process.version,
    cwd: process.cwd(),
    uid: process.getuid?.(),
    variable: process.env['A_VARIABLE'],
    btf: existsSync('/sys/kernel/btf/vmlinux'),
    written: written.every((path) => readFileSync(path, 'utf8') === 'guest'),
    mounts: readFileSync('/proc/self/mounts', 'utf8')
      .split('\n')
      .map((line) => line.split(' ').slice(1, 3).join(' ')),
    modprobe: run('modprobe -n btrfs && findmnt -no FSTYPE /tmp/disk'),
    loopback: run('cat /sys/class/net/lo/flags'),
    clock: run('cat /sys/devices/system/clocksource/clocksource0/current_clocksource'),
    interfaces: run('ls /sys/class/net'),
  };
}

/** Fails unless this line is what a guest has to see. */
export function guestSees(line: string, wantedRelease: RegExp): void {
  const { release, mounts, ...seen } = JSON.parse(line) as Seen;
  assert.match(release, wantedRelease);
  assert.deepEqual(seen, {
    node: process.version,
    cwd: checkout,
    uid: 0,
    variable: `it's "quoted" $HOME\n`,
    btf: true,
    written: true,
    modprobe: 'ext4',
    loopback: '0x9',
    clock: 'hpet',
    interfaces: 'lo',
  });
  const wanted = [
    '/sys/fs/bpf bpf',
    '/sys/fs/cgroup cgroup2',
    '/sys/kernel/tracing tracefs',
    '/dev/pts devpts',
  ];
  for (const mount of [...wanted, '/tmp tmpfs', '/run tmpfs']) assert.ok(mounts.includes(mount), mount);
}

if (import.meta.main) process.stdout.write(`${JSON.stringify(look())}\n`);
