/** How often programs run, and for how long. */
import { join } from 'node:path';

import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import type { RunningProgram } from '../desired.ts';
import { programInfo } from '../info.ts';
import { openPin } from '../pins/pin.ts';
import { openProgram } from '../pins/pins.ts';
import { runningProgram } from '../records.ts';
import { type ChainView, chainView } from './chains.ts';
import { type ReadOptions, readKept } from './kept.ts';
import { idsOf, openById } from './kernel-ids.ts';
import { programTypeName } from '../type-names.ts';

interface Counts {
  readonly runs: bigint;
  /** Undefined for a member of a chain: only the time of the whole chain is known. */
  readonly runTimeNs: bigint | undefined;
}

export interface ProgramStatistics extends Counts {
  /** For a member of a chain, the runs since it joined; for others, the runs while statistics were enabled. */
  readonly program: RunningProgram;
}

export interface ChainStatistics {
  readonly chain: ChainView;
  readonly runs: bigint;
  readonly runTimeNs: bigint;
}

/** A program in the kernel that is not in Rampart's records. */
export interface OtherStatistics {
  readonly programId: number;
  /** The name after `BPF_PROG_TYPE_`, in lower case. */
  readonly type: string;
  /** At most 15 characters. */
  readonly name: string;
  readonly runs: bigint;
  readonly runTimeNs: bigint;
}

export interface Statistics {
  readonly programs: readonly ProgramStatistics[];
  readonly chains: readonly ChainStatistics[];
  /** Empty unless requested. */
  readonly others: readonly OtherStatistics[];
}

/** The current counters. They change only while the kernel's statistics are enabled (`enableStatistics`), except those of chain members. */
export function countersOf(options: ReadOptions, isAll: boolean): Statistics {
  const kept = readKept(options);
  const chains = kept.chains.map((chain): ChainStatistics => {
    using program = openProgram(join(kept.pins.chain(chain.key), 'program'), chain.programId);
    return { chain: chainView(kept, chain), ...countsOf(program) };
  });
  const members = new Map(chains.flatMap(({ chain }) => chain.members.map((member) => [member.id, member])));
  const known = new Set(kept.chains.map(({ programId }) => programId));
  const programs = [...kept.programs.values()].map((record): ProgramStatistics => {
    const program = runningProgram(record);
    known.add(record.programId);
    const member = members.get(record.id);
    if (member !== undefined) return { program, runs: member.runs ?? 0n, runTimeNs: undefined };
    using gated = openPin(join(kept.pins.program(record), 'gated'));
    if (gated !== undefined) known.add(programInfo(gated.fd).id);
    using own = gated === undefined ? openPin(join(kept.pins.program(record), 'program')) : undefined;
    return { program, ...countsOf(gated ?? own) };
  });
  return { programs, chains, others: isAll ? otherCounters(known) : [] };
}

function countsOf(program: Descriptor | undefined): { readonly runs: bigint; readonly runTimeNs: bigint } {
  const { runs, runTimeNs } = program === undefined ? { runs: 0n, runTimeNs: 0n } : programInfo(program.fd);
  return { runs, runTimeNs };
}

function otherCounters(known: ReadonlySet<number>): readonly OtherStatistics[] {
  return [...idsOf('program')].flatMap((id): readonly OtherStatistics[] => {
    using program = known.has(id) ? undefined : openById('program', id);
    if (program === undefined) return [];
    const { type, name, runs, runTimeNs } = programInfo(program.fd);
    return [{ programId: id, type: programTypeName(type), name, runs, runTimeNs }];
  });
}
