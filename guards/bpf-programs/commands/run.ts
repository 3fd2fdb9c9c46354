/** `rampart bpf list`, `chain`, `stats`, `map dump` and `cleanup`. */
import { createLogger } from '../../../lib/telemetry/log.ts';
import { printable } from '../../../lib/output/printable.ts';
import { renderTable } from '../../../lib/output/table.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import {
  type ChainView,
  dumpMap,
  readChain,
  type ReadOptions,
  readPrograms,
  readStats,
} from '../kernel/read/reading.ts';
import { openLockedHost, readingPlace } from '../node/locked-host.ts';
import { stopSignal } from '../../../lib/cli/process.ts';
import type { BpfOptions, StatsOptions } from './command.ts';
import { print, printJson } from './print.ts';
import { outputOptions } from '../../../lib/cli/output.ts';

function place({ bpffs, bpfState }: BpfOptions): ReadOptions {
  return readingPlace({ bpffs, stateDirectory: bpfState });
}

const nothing = 'No eBPF programs of Rampart are loaded in this kernel.\n';

export function runList(options: BpfOptions): void {
  const programs = readPrograms(place(options));
  if (options.output === 'json') {
    printJson({ programs });
    return;
  }
  if (programs.length === 0) {
    process.stdout.write(nothing);
    return;
  }
  print(
    ['ID', 'TYPE', 'FUNCTION', 'ATTACHED TO', 'REQUESTED BY', 'BYTECODE'],
    programs.map(({ programId, type, functionName, attachPoint, owner, digest }) => ({
      cells: [String(programId), type, functionName, attachPoint, owner, shortDigest(digest)].map(printable),
    })),
  );
}

/** @returns the exit code: 1 if nothing runs there. */
export function runChain(name: string | undefined, options: BpfOptions): number {
  const chains = readChain(place(options), name);
  if (options.output === 'json') printJson({ chains });
  else if (chains.length === 0) {
    process.stdout.write(`No XDP or TC program of Rampart runs on ${name ?? 'any interface'}.\n`);
  } else process.stdout.write(`${chains.map(chainText).join('\n\n')}\n`);
  return chains.length === 0 ? 1 : 0;
}

function chainText({
  interface: name,
  container,
  kind,
  direction,
  programId,
  members,
  notes,
}: ChainView): string {
  const where = container === undefined ? '' : ` of network namespace ${container}`;
  const hook = direction === undefined ? kind : `${kind} ${direction}`;
  const table = renderTable(
    members.map(({ priority, owner, functionName, programId: id, proceedOn, runs }) => ({
      cells: [
        ...[String(priority), owner, functionName, String(id)],
        ...[proceedOn.join(' ') || '-', String(runs)],
      ].map(printable),
    })),
    { head: ['PRIORITY', 'REQUESTED BY', 'FUNCTION', 'ID', 'PROCEEDS ON', 'RUNS'], ...outputOptions(100) },
  );
  return [`${name}${where}, ${hook}, program ${programId}`, table, ...notes.map(printable)].join('\n');
}

export async function runStats(options: StatsOptions): Promise<void> {
  const stop = stopSignal();
  const reading = place(options);
  // Earlier runs do not count: the kernel's counters are not reset.
  const before = await readStats(reading);
  const { programs, chains } = await readStats(reading, () => sleep(systemClock, options.time, stop.signal));
  const programsBefore = new Map(before.programs.map((one) => [one.program.programId, one]));
  const chainsBefore = new Map(before.chains.map((one) => [one.chain.programId, one]));
  const measured = programs.map(({ program, runs, runTimeNs }) => {
    const was = programsBefore.get(program.programId);
    const inTime = runs - (was?.runs ?? 0n);
    return { ...program, runs: inTime, nsPerRun: perRun(inTime, runTimeNs, was?.runTimeNs) };
  });
  const hooks = chains.map(({ chain, runs, runTimeNs }) => {
    const was = chainsBefore.get(chain.programId);
    const inTime = runs - (was?.runs ?? 0n);
    return { chain, runs: inTime, nsPerRun: perRun(inTime, runTimeNs, was?.runTimeNs) };
  });
  if (options.output === 'json') {
    printJson({ measuredMs: options.time, programs: measured, chains: hooks });
    return;
  }
  if (programs.length === 0) {
    process.stdout.write(nothing);
    return;
  }
  const perSecond = (runs: bigint): string => String(Math.round((Number(runs) * 1000) / options.time));
  print(
    ['ID', 'TYPE', 'ATTACHED TO', 'REQUESTED BY', 'RUNS/S', 'NS/RUN'],
    [
      ...measured.map(({ programId, type, attachPoint, owner, runs, nsPerRun }) => ({
        cells: [
          ...[String(programId), type, attachPoint, owner].map(printable),
          ...[perSecond(runs), String(nsPerRun ?? '-')],
        ],
      })),
      ...hooks.map(({ chain, runs, nsPerRun }) => ({
        cells: [
          ...[String(chain.programId), chain.kind],
          ...[[chain.interface, chain.direction ?? ''].join(' ').trim(), `chain of ${chain.members.length}`],
          ...[perSecond(runs), String(nsPerRun ?? '-')],
        ],
      })),
    ],
  );
}

/** Null if there is nothing to divide. */
function perRun(runs: bigint, timeNs: bigint | undefined, beforeNs = 0n): number | null {
  return timeNs === undefined || runs <= 0n ? null : Math.round(Number(timeNs - beforeNs) / Number(runs));
}

export function runDump(program: string, map: string, options: BpfOptions): void {
  const dumped = dumpMap(place(options), program, map);
  if (options.output === 'json') {
    printJson(dumped);
    return;
  }
  const text = (value: unknown): string =>
    printable(typeof value === 'string' ? value : JSON.stringify(value));
  print(
    ['KEY', 'VALUE'],
    dumped.entries.map(({ key, value }) => ({ cells: [text(key), text(value)] })),
  );
  if (dumped.truncated) process.stderr.write('rampart: the map has more entries than are shown\n');
}

/** @throws {RampartError} `IN_USE` while an agent holds them. */
export async function runCleanup(options: BpfOptions): Promise<void> {
  place(options);
  await using host = await openLockedHost(
    { bpffs: options.bpffs, stateDirectory: options.bpfState, hostRoot: '/' },
    createLogger({ level: 'warn' }),
  );
  const removed = await host.remove();
  if (options.output === 'json') printJson({ removed });
  else if (removed.length === 0) process.stdout.write('Nothing to remove.\n');
  else process.stdout.write(`${removed.map((line) => `removed ${printable(line)}`).join('\n')}\n`);
}

/** As `sha256:0123456789ab`, which is enough to distinguish them. */
function shortDigest(digest: string): string {
  return digest.slice(0, 'sha256:'.length + 12);
}
