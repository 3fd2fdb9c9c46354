/**
 * Where commands read the programs of this machine, beside an agent that runs.
 *
 * @module
 */
import { isBpffs } from '../../../shared/ebpf/pin.ts';
import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';
import type { ReadOptions } from '../kernel/reading.ts';
import { type HostPlace, pinDirectory, programsDirectory } from './locked-host.ts';

/** @throws {RampartError} `PRIVILEGE` without root, `UNSUPPORTED` where there is no bpffs. */
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
      what: `no eBPF programs are kept in ${bpffs}`,
      why: 'it is not a bpffs',
      next: 'Name the mount point of the agent with --bpffs',
    });
  }
  return { bpffs, name: pinDirectory, stateDirectory: programsDirectory(stateDirectory) };
}
