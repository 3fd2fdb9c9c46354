/** `rampart bpf stats`: a single measurement or, on a terminal, one after the other. */
import { printable } from '../../../lib/output/printable.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { enableStatistics } from '../kernel/info.ts';
import type { ChainView } from '../kernel/running/chains.ts';
import type { ReadOptions } from '../kernel/running/kept.ts';
import { countersOf, type Statistics } from '../kernel/running/statistics.ts';
import type { RunningProgram } from '../kernel/desired.ts';
import { stopSignal } from '../../../lib/cli/process.ts';
import type { StatsOptions } from './command.ts';
import { isPrinted, noPrograms, place, tableText } from './print.ts';

/** The difference between two readings of the counters. */
interface Rate {
  readonly runs: bigint;
  /** Null for a member of a chain, since only the time of the whole chain is known, and if there were no runs. */
  readonly nsPerRun: number | null;
  /** Share of one CPU; null for a member of a chain. */
  readonly cpuPercent: number | null;
}

interface Measured {
  readonly measuredMs: number;
  readonly programs: readonly (RunningProgram & Rate)[];
  readonly chains: readonly ({ readonly chain: ChainView } & Rate)[];
  readonly others: readonly ({
    readonly programId: number;
    readonly type: string;
    readonly name: string;
  } & Rate)[];
}

/** A line of the table. */
interface Line extends Rate {
  readonly id: number;
  readonly type: string;
  readonly attachedTo: string;
  readonly pod?: string | undefined;
  readonly container?: string | undefined;
  readonly requestedBy: string;
}

const clearScreen = '\u001b[H\u001b[2J';

export async function runStats(options: StatsOptions): Promise<void> {
  const { signal } = stopSignal();
  const reading = place(options);
  const isLive =
    options.top === true && process.stdout.isTTY && options.output !== 'json' && options.output !== 'yaml';
  // The kernel counts only while this descriptor is open: counting costs a few ns for each run.
  using _statistics = enableStatistics();
  let before = take(reading, options);
  for (;;) {
    try {
      await sleep(systemClock, options.time, signal);
    } catch (error) {
      // The user may end the measurement early: then it is printed as it is.
      if (!signal.aborted) throw error;
      if (isLive) return;
    }
    const now = take(reading, options);
    show(difference(before, now), options, isLive);
    if (!isLive || signal.aborted) return;
    before = now;
  }
}

interface Taken {
  readonly atMs: number;
  readonly counters: Statistics;
}

function take(reading: ReadOptions, { all }: StatsOptions): Taken {
  return { atMs: performance.now(), counters: countersOf(reading, all === true) };
}

/** Subtracts the earlier counters, since the kernel never resets them. */
function difference(before: Taken, now: Taken): Measured {
  const measuredMs = now.atMs - before.atMs;
  const rateOf = (
    counts: { readonly runs: bigint; readonly runTimeNs: bigint | undefined },
    was: { readonly runs: bigint; readonly runTimeNs: bigint | undefined } | undefined,
  ): Rate => {
    const runs = counts.runs - (was?.runs ?? 0n);
    if (counts.runTimeNs === undefined) return { runs, nsPerRun: null, cpuPercent: null };
    const timeNs = Number(counts.runTimeNs - (was?.runTimeNs ?? 0n));
    return {
      runs,
      nsPerRun: runs <= 0n ? null : Math.round(timeNs / Number(runs)),
      cpuPercent: Math.round(timeNs / measuredMs / 1000) / 10,
    };
  };
  const [programs, chains, others] = [
    new Map(before.counters.programs.map((one) => [one.program.programId, one])),
    new Map(before.counters.chains.map((one) => [one.chain.programId, one])),
    new Map(before.counters.others.map((one) => [one.programId, one])),
  ];
  return {
    measuredMs: Math.round(measuredMs),
    programs: now.counters.programs.map(({ program, ...counts }) => ({
      ...program,
      ...rateOf(counts, programs.get(program.programId)),
    })),
    chains: now.counters.chains.map(({ chain, ...counts }) => ({
      chain,
      ...rateOf(counts, chains.get(chain.programId)),
    })),
    others: now.counters.others.map(({ programId, type, name, ...counts }) => ({
      ...{ programId, type, name },
      ...rateOf(counts, others.get(programId)),
    })),
  };
}

function show(measured: Measured, options: StatsOptions, isLive: boolean): void {
  const { others, ...own } = measured;
  const all = options.all === true ? { others } : {};
  if (isPrinted(options, 'rampart.dev/bpf-stats/v1', { ...own, ...all })) return;
  const lines = sorted(linesOf(measured), options.sort);
  const text = lines.length === 0 ? noPrograms : `${tableOf(lines, measured.measuredMs, options)}\n`;
  process.stdout.write(isLive ? `${clearScreen}${text}` : text);
}

function linesOf({ programs, chains, others }: Measured): readonly Line[] {
  return [
    ...programs.map(({ programId: id, attachPoint: attachedTo, owner: requestedBy, ...rest }): Line => ({
      ...{ ...rest, id, attachedTo, requestedBy },
    })),
    ...chains.map(({ chain, ...rate }): Line => ({
      ...{ ...rate, id: chain.programId ?? 0, type: chain.kind, pod: chain.pod },
      attachedTo: [chain.interface, chain.direction ?? ''].join(' ').trim(),
      requestedBy: `chain of ${chain.members.length}`,
    })),
    ...others.map(({ programId, type, name, ...rate }): Line => ({
      ...{ ...rate, id: programId, type, attachedTo: '-', requestedBy: name === '' ? '-' : `(${name})` },
    })),
  ];
}

const min = (value: number | null): number => value ?? -1;
const orders: Readonly<Record<StatsOptions['sort'], (a: Line, b: Line) => number>> = {
  id: (a, b) => a.id - b.id,
  runs: (a, b) => (a.runs === b.runs ? 0 : a.runs < b.runs ? 1 : -1),
  time: (a, b) => min(b.nsPerRun) - min(a.nsPerRun),
  cpu: (a, b) => min(b.cpuPercent) - min(a.cpuPercent),
};

function sorted(lines: readonly Line[], by: StatsOptions['sort']): readonly Line[] {
  return lines.toSorted((a, b) => orders[by](a, b) || a.id - b.id);
}

function tableOf(lines: readonly Line[], measuredMs: number, options: StatsOptions): string {
  const inPods = lines.some(({ pod }) => pod !== undefined);
  const rows = lines.map(
    ({ id, type, attachedTo, pod, container, requestedBy, runs, nsPerRun, cpuPercent }) => ({
      cells: [
        ...[String(id), type, attachedTo].map(printable),
        ...(inPods ? [pod ?? '-', container ?? '-'].map(printable) : []),
        printable(requestedBy),
        String(Math.round((Number(runs) * 1000) / measuredMs)),
        String(nsPerRun ?? '-'),
        cpuPercent === null ? '-' : `${cpuPercent.toFixed(1)} %`,
      ],
    }),
  );
  const where = ['ATTACHED TO', ...(inPods ? ['POD', 'CONTAINER'] : [])];
  const head = ['ID', 'TYPE', ...where, 'REQUESTED BY', 'RUNS/S', 'NS/RUN', 'CPU'];
  return tableText(head, rows, options);
}
