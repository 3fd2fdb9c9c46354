/**
 * The least that watching files takes: find each, ask the kernel who it is, put it in the kernel's map. No API, no
 * policies, nothing that follows changes.
 */
import { AT_FDCWD, openat2, openFlags, resolveFlags } from '../../lib/ebpf/libc.ts';
import { everyAccess, type FileIdentity } from '../../lib/sensor/access.ts';
import { Sensor } from '../../lib/sensor/sensor.ts';
import type { PartOptions } from '../report.ts';

/** @returns the milliseconds that each round took for all files. @throws where the sensor cannot be run. */
export function bareLoop(
  files: readonly { readonly root: string; readonly path: string }[],
  mode: PartOptions['mode'],
  rounds: number,
): number[] {
  using sensor = Sensor.open({ mode, onAccess: ignore, onProblem: ignore });
  const watcher = { filter: everyAccess };
  const took: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const beganMs = performance.now();
    const identities: FileIdentity[] = [];
    for (const { root, path } of files) {
      using directory = openat2(AT_FDCWD, root, { flags: openFlags.PATH | openFlags.DIRECTORY });
      using file = openat2(directory, path, { flags: openFlags.PATH, resolve: resolveFlags.IN_ROOT });
      const identity = sensor.identify(file.number);
      sensor.targets.add(identity, watcher);
      identities.push(identity);
    }
    took.push(performance.now() - beganMs);
    for (const identity of identities) sensor.targets.delete(identity, watcher);
  }
  return took;
}

function ignore(): void {}
