/** Access to the programs in this node's kernel, for one process at a time: two processes would remove each other's programs. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import type { Logger } from '../../../lib/telemetry/log.ts';
import { lockFile } from '../../../lib/sqlite/lock.ts';
import type { ProgramHost } from '../kernel/desired.ts';
import type { ProgramHostOptions } from '../kernel/host.ts';
import { isBpffs } from '../kernel/pins/pin.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { ReadOptions } from '../kernel/running/kept.ts';

export interface HostPlace {
  /** The mount point of the node's bpffs. */
  readonly bpffs: string;
  /** A directory on tmpfs. */
  readonly stateDirectory: string;
}

/** The directory with all pins of Rampart, in the bpffs. */
export const pinDirectory = 'rampart';

/** The directory with the stored state of programs, in the state directory. */
export function programsDirectory(stateDirectory: string): string {
  return join(stateDirectory, 'programs');
}

/**
 * The caller disposes of it; the programs stay.
 *
 * @throws {RampartError} `IN_USE` if another process holds them, `UNSUPPORTED` without a bpffs.
 */
export async function openLockedHost(
  {
    bpffs,
    stateDirectory,
    ...rest
  }: HostPlace & Pick<ProgramHostOptions, 'hostRoot' | 'onTargetChange' | 'tenants'>,
  logger: Logger,
): Promise<ProgramHost> {
  const { openProgramHost } = await import('../kernel/host.ts');
  mkdirSync(stateDirectory, { recursive: true, mode: 0o700 });
  using opening = new DisposableStack();
  const lock = opening.use(lockFile(join(stateDirectory, 'lock')));
  const host = await openProgramHost({
    ...{ bpffs, logger, name: pinDirectory },
    ...rest,
    stateDirectory: programsDirectory(stateDirectory),
  });
  opening.move();
  return {
    apply: (...args) => host.apply(...args),
    verify: (signal) => host.verify(signal),
    list: () => host.list(),
    remove: (signal) => host.remove(signal),
    async [Symbol.asyncDispose]() {
      await host[Symbol.asyncDispose]();
      lock[Symbol.dispose]();
    },
  };
}

/** @throws {RampartError} `PRIVILEGE` without root, `UNSUPPORTED` without a bpffs. */
export function readingPlace({ bpffs, stateDirectory }: HostPlace): ReadOptions {
  if (process.geteuid?.() !== 0) {
    throw new RampartError(errorCodes.PRIVILEGE, {
      what: 'cannot read the eBPF programs',
      why: 'only root may open pinned programs',
      next: 'Run it as root, e.g. with sudo',
    });
  }
  if (!isBpffs(bpffs)) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `there are no eBPF programs in ${bpffs}`,
      why: 'it is not a bpffs',
      next: "Set the agent's mount point with --bpffs",
    });
  }
  return { bpffs, name: pinDirectory, stateDirectory: programsDirectory(stateDirectory) };
}
