/**
 * The programs of this machine's kernel that somebody asked Rampart for.
 *
 * @module
 */
import { join } from 'node:path';

import { enableStatistics, programInfo } from '../../../shared/ebpf/info.ts';
import { sleep, systemClock } from '../../../shared/time/clock.ts';
import { openPin } from '../../../shared/ebpf/pin.ts';
import { openProgram } from '../kernel/pins.ts';
import type { ProgramRecord } from '../kernel/records.ts';
import { chainsOf } from './chains.ts';
import type { Inspected } from './place.ts';

export interface ShownProgram {
  readonly id: string;
  /** `XdpProgram/count`, `XdpNsProgram/web/count` */
  readonly owner: string;
  readonly type: string;
  readonly programId: number;
  readonly functionName: string;
  readonly attachPoint: string;
  readonly digest: string;
  readonly mapIds: readonly number[];
  readonly maps: readonly string[];
}

/** Those that the kernel has. */
export function programsOf({ programs, pins }: Inspected): ShownProgram[] {
  return programs
    .filter((record) => {
      using program = openProgram(join(pins.program(record), 'program'), record.programId);
      return program !== undefined;
    })
    .map(({ id, owner, type, programId, functionName, attachPoint, digest, maps }) => ({
      ...{ id, owner, type, programId, functionName, attachPoint, digest },
      mapIds: maps.map((map) => map.id),
      maps: maps.filter(({ internal }) => !internal).map(({ name }) => name),
    }));
}

export interface ProgramStatistics {
  readonly id: string;
  readonly owner: string;
  readonly type: string;
  readonly programId: number;
  readonly attachPoint: string;
  /** While it was measured. */
  readonly runs: number;
  /** Of one run, nanoseconds; null where there was none, and for members of a chain: the kernel counts time for a chain as a whole. */
  readonly nsPerRun: number | null;
  /** Since it joined its chain; null where it is attached by itself. */
  readonly runsInChain: number | null;
}

/** Measures for `measureMs`. The kernel counts runs only while somebody asks it to. */
export async function statisticsOf(
  look: () => Inspected,
  measureMs: number,
  signal: AbortSignal,
): Promise<ProgramStatistics[]> {
  using _counting = enableStatistics();
  const before = counts(look());
  const begin = chained(look());
  await sleep(systemClock, measureMs, signal);
  const inspected = look();
  const after = counts(inspected);
  const end = chained(inspected);
  return inspected.programs.map((record) => {
    const { id, owner, type, programId, attachPoint } = record;
    const total = end.get(id);
    const now = after.get(id);
    const then = before.get(id);
    const runs =
      total === undefined ? Number((now?.runs ?? 0n) - (then?.runs ?? 0n)) : total - (begin.get(id) ?? 0);
    const timeNs = Number((now?.runTimeNs ?? 0n) - (then?.runTimeNs ?? 0n));
    return {
      ...{ id, owner, type, programId, attachPoint, runs },
      nsPerRun: total === undefined && runs > 0 ? Math.round(timeNs / runs) : null,
      runsInChain: total ?? null,
    };
  });
}

function counts({ programs, pins }: Inspected): Map<string, ReturnType<typeof programInfo>> {
  return new Map(
    programs.flatMap((record): [string, ReturnType<typeof programInfo>][] => {
      using program = attached(record, pins);
      return program === undefined ? [] : [[record.id, programInfo(program.fd)]];
    }),
  );
}

/** A gated program is attached in place of the one that was loaded. */
function attached(record: ProgramRecord, pins: Inspected['pins']): ReturnType<typeof openProgram> {
  const directory = pins.program(record);
  return openPin(join(directory, 'gated')) ?? openProgram(join(directory, 'program'), record.programId);
}

function chained(inspected: Inspected): Map<string, number> {
  const ids = new Map(inspected.programs.map(({ id, programId }) => [programId, id]));
  return new Map(
    chainsOf(inspected).flatMap(({ members }) =>
      members.map(({ programId, runs }): [string, number] => [ids.get(programId) ?? '', runs]),
    ),
  );
}
