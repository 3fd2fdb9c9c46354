/**
 * Looks at the programs of this machine's kernel while the agent runs, and changes nothing.
 *
 * @module
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { isBpffs } from '../../../shared/ebpf/pin.ts';
import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';
import { Pins } from '../kernel/pins.ts';
import { type ChainRecord, type ProgramRecord, Records } from '../kernel/records.ts';
import { type HostPlace, pinDirectory, programsDirectory } from '../node/locked-host.ts';

export interface Inspected {
  readonly programs: readonly ProgramRecord[];
  readonly chains: readonly ChainRecord[];
  readonly pins: Pins;
}

/**
 * What the agent keeps of its programs.
 *
 * @throws {RampartError} `PRIVILEGE` without root, `UNSUPPORTED` where there is no bpffs.
 */
export function inspect({ bpffs, stateDirectory }: HostPlace): Inspected {
  if (process.geteuid?.() !== 0) {
    throw new RampartError(errorCodes.PRIVILEGE, {
      what: 'cannot look at eBPF programs',
      why: 'only root may open what is pinned',
      next: 'Run it as root, e.g. with sudo',
    });
  }
  if (!isBpffs(bpffs)) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `no eBPF programs are kept in ${bpffs}`,
      why: 'it is not a bpffs',
      next: 'Say with --bpffs where the agent has it',
    });
  }
  const pins = new Pins(join(bpffs, pinDirectory));
  const directory = programsDirectory(stateDirectory);
  // Not to make directories by looking.
  if (!existsSync(directory)) return { programs: [], chains: [], pins };
  const records = new Records(directory);
  return { programs: records.programs(), chains: records.chains(), pins };
}
