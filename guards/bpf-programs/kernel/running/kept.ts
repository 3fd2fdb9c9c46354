/** The state that a host keeps, read from pins and records without disturbing a running agent. */
import { join } from 'node:path';

import { openProgram, Pins } from '../pins/pins.ts';
import { type ChainRecord, type ProgramRecord, Records } from '../records.ts';

/** Where a host keeps its state: the values that were passed to {@link openProgramHost}. */
export interface ReadOptions {
  readonly bpffs: string;
  readonly name: string;
  readonly stateDirectory: string;
}

export interface Kept {
  readonly pins: Pins;
  /** Programs that are in the kernel, keyed by the id in their records. */
  readonly programs: ReadonlyMap<string, ProgramRecord>;
  readonly chains: readonly ChainRecord[];
}

/** Reads the state. A change that a running agent makes meanwhile is seen either entirely or not at all. */
export function readKept({ bpffs, name, stateDirectory }: ReadOptions): Kept {
  const records = new Records(stateDirectory);
  const pins = new Pins(join(bpffs, name));
  const programs = records.programs().filter((record) => {
    using program = openProgram(join(pins.program(record), 'program'), record.programId);
    return program !== undefined;
  });
  return {
    pins,
    programs: new Map(programs.map((record) => [record.id, record])),
    chains: records.chains(),
  };
}
