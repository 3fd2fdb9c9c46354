/**
 * A guest's properties. Inside one, it prints its observations, in one line of JSON, and the sensor's results
 * with the capabilities of this process.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { release } from 'node:os';
import { join, resolve } from 'node:path';

import { ChangeSensor } from '../../lib/sensor/changes/change-sensor.ts';
import { openTestSensor } from '../../lib/sensor/sensor.fixture.ts';

export const checkout = resolve(import.meta.dirname, '../..');

/** Paths that the guest writes to; the host must not see them. */
export const written = [
  '/etc/rampart-guest-wrote',
  join(checkout, 'rampart-guest-wrote'),
  '/tmp/rampart-guest-wrote',
];

/** A file of an overlay, which guest-suites.sh makes. */
const overlayFile = '/tmp/over/merged/file';

/** Both of the sensor's objects, opened, and the first one's record of a `cat`. */
interface SensorSeen {
  /** The programs' identity of a file of an overlay. */
  readonly identity: string;
  readonly modes: readonly string[];
  readonly accesses: readonly { readonly executable: string; readonly arguments: string }[];
}

interface Seen {
  readonly release: string;
  readonly mounts: readonly string[];
  readonly sensor: SensorSeen;
  readonly [name: string]: unknown;
}

function openSensor(path: string): SensorSeen {
  const nothing = (): void => undefined;
  using sensor = openTestSensor();
  const { inode, device, generation } = sensor.identify(path);
  using changes = ChangeSensor.open({
    mode: 'auto',
    onSeen: nothing,
    onBatchEnd: nothing,
    onProblem: (problem) => {
      throw problem;
    },
  });
  using _watched = sensor.watchFile(path);
  spawnSync('cat', [path]);
  return {
    identity: [inode, device, generation].join(' '),
    modes: [sensor.sensor.mode, changes.mode],
    accesses: sensor.take().map((access) => ({ executable: access.executable, arguments: access.arguments })),
  };
}

function look(): Seen {
  const contentOf = (path: string): string => readFileSync(path, 'utf8').trim();
  for (const path of written) writeFileSync(path, 'guest');
  return {
    release: release(),
    node: process.version,
    cwd: process.cwd(),
    uid: process.getuid?.(),
    variable: process.env['A_VARIABLE'],
    btf: existsSync('/sys/kernel/btf/vmlinux'),
    written: written.every((path) => readFileSync(path, 'utf8') === 'guest'),
    mounts: readFileSync('/proc/self/mounts', 'utf8')
      .split('\n')
      .map((line) => line.split(' ').slice(1, 3).join(' ')),
    modprobe: spawnSync('modprobe', ['-n', 'btrfs']).status,
    loopback: contentOf('/sys/class/net/lo/flags'),
    clock: contentOf('/sys/devices/system/clocksource/clocksource0/current_clocksource'),
    interfaces: readdirSync('/sys/class/net'),
    sensor: openSensor(overlayFile),
  };
}

/** Fails unless this line is what a guest has to see; with the disk of guest-suites.sh, or `none`. @returns what it says of the sensor. */
export function guestSees(line: string, wantedRelease: RegExp, disk: 'disk' | 'none'): SensorSeen {
  const { release: kernelRelease, mounts, sensor, ...seen } = JSON.parse(line) as Seen;
  assert.match(kernelRelease, wantedRelease);
  assert.deepEqual(seen, {
    node: process.version,
    cwd: checkout,
    uid: 0,
    variable: `it's "quoted" $HOME\n`,
    btf: true,
    written: true,
    modprobe: 0,
    loopback: '0x9',
    clock: 'hpet',
    interfaces: ['lo'],
  });
  const wanted = [
    '/sys/fs/bpf bpf',
    '/sys/fs/cgroup cgroup2',
    '/sys/kernel/tracing tracefs',
    '/dev/pts devpts',
  ];
  for (const mount of [...wanted, '/tmp tmpfs', '/run tmpfs']) assert.ok(mounts.includes(mount), mount);
  assert.equal(mounts.includes('/tmp/disk ext4'), disk === 'disk');
  assert.deepEqual(sensor.accesses, [{ executable: realpathSync('/bin/cat'), arguments: overlayFile }]);
  return sensor;
}

if (import.meta.main) process.stdout.write(`${JSON.stringify(look())}\n`);
