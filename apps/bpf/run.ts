/**
 * `rampart bpf list`, `chain`, `stats`, `map dump` and `cleanup`.
 *
 * @module
 */
import { createLogger } from '../../shared/observe/log.ts';
import { printable } from '../../shared/observe/printable.ts';
import { renderTable, type Row, wantsColour } from '../../shared/observe/table.ts';
import { chainsOf, type ShownChain } from '../../systems/bpf-programs/inspect/chains.ts';
import { dumpMap } from '../../systems/bpf-programs/inspect/map-dump.ts';
import { type Inspected, inspect } from '../../systems/bpf-programs/inspect/place.ts';
import { programsOf, statisticsOf } from '../../systems/bpf-programs/inspect/programs.ts';
import { openLockedHost } from '../../systems/bpf-programs/node/locked-host.ts';
import { stopSignal } from '../process.ts';
import type { BpfOptions, StatsOptions } from './command.ts';

const defaultWidthColumns = 100;

export function print(head: readonly string[], rows: readonly Row[]): void {
  const { stdout } = process;
  const widthColumns = stdout.columns || defaultWidthColumns;
  stdout.write(`${renderTable(rows, { head, widthColumns, colour: wantsColour(stdout) })}\n`);
}

export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

function look({ bpffs, bpfState }: BpfOptions): Inspected {
  return inspect({ bpffs, stateDirectory: bpfState });
}

export function runList(options: BpfOptions): void {
  const programs = programsOf(look(options));
  if (options.output === 'json') return printJson({ programs });
  if (programs.length === 0)
    return void process.stdout.write('No eBPF programs of Rampart are in this kernel.\n');
  print(
    ['ID', 'TYPE', 'FUNCTION', 'ATTACHED TO', 'ASKED FOR BY', 'BYTECODE', 'MAPS'],
    programs.map(({ programId, type, functionName, attachPoint, owner, digest, maps }) => ({
      cells: [
        String(programId),
        type,
        functionName,
        attachPoint,
        owner,
        shortDigest(digest),
        maps.join(' '),
      ].map(printable),
    })),
  );
}

/** @returns the exit code: 1 where nothing runs there. */
export function runChain(name: string | undefined, options: BpfOptions): number {
  const chains = chainsOf(look(options), name);
  if (options.output === 'json') printJson({ chains });
  else if (chains.length === 0) {
    process.stdout.write(`No XDP or TC program of Rampart runs on ${name ?? 'any interface'}.\n`);
  } else process.stdout.write(`${chains.map(chainText).join('\n\n')}\n`);
  return chains.length === 0 ? 1 : 0;
}

function chainText(chain: ShownChain): string {
  const where = chain.networkNamespace === null ? '' : ` of network namespace ${chain.networkNamespace}`;
  const hook = [chain.type, chain.direction ?? ''].join(' ').trim();
  const title = `${chain.interface}${where}, ${hook}${chain.programId === null ? '' : `, program ${chain.programId}`}`;
  const table = renderTable(
    chain.members.map(({ priority, owner, functionName, programId, proceedOn, runs }) => ({
      cells: [
        String(priority),
        owner,
        functionName,
        String(programId),
        proceedOn.join(' ') || '-',
        String(runs),
      ].map(printable),
    })),
    {
      head: ['PRIORITY', 'ASKED FOR BY', 'FUNCTION', 'ID', 'PROCEEDS ON', 'RUNS'],
      widthColumns: process.stdout.columns || defaultWidthColumns,
      colour: wantsColour(process.stdout),
    },
  );
  return [title, table, ...chain.notes.map(printable)].join('\n');
}

export async function runStats(options: StatsOptions): Promise<void> {
  const stop = stopSignal();
  const programs = await statisticsOf(() => look(options), options.time, stop.signal);
  if (options.output === 'json') return printJson({ measuredMs: options.time, programs });
  if (programs.length === 0)
    return void process.stdout.write('No eBPF programs of Rampart are in this kernel.\n');
  print(
    ['ID', 'TYPE', 'ATTACHED TO', 'ASKED FOR BY', 'RUNS/S', 'NS/RUN', 'RUNS IN CHAIN'],
    programs.map(({ programId, type, attachPoint, owner, runs, nsPerRun, runsInChain }) => ({
      cells: [
        ...[String(programId), type, attachPoint, owner].map(printable),
        String(Math.round((runs * 1000) / options.time)),
        ...[nsPerRun, runsInChain].map((number) => (number === null ? '-' : String(number))),
      ],
    })),
  );
}

export function runDump(program: string, map: string, options: BpfOptions): void {
  const dumped = dumpMap(look(options), program, map);
  if (options.output === 'json') return printJson(dumped);
  const text = (value: unknown): string =>
    printable(typeof value === 'string' ? value : JSON.stringify(value));
  print(
    ['KEY', 'VALUE'],
    dumped.entries.map(({ key, value }) => ({ cells: [text(key), text(value)] })),
  );
  if (dumped.isCut) process.stderr.write('rampart: there are more entries than were read\n');
}

/** @throws {RampartError} `IN_USE` while an agent holds them. */
export async function runCleanup(options: BpfOptions): Promise<void> {
  look(options);
  await using host = await openLockedHost(
    { bpffs: options.bpffs, stateDirectory: options.bpfState },
    createLogger({ level: 'warn' }),
  );
  const removed = await host.remove();
  if (options.output === 'json') return printJson({ removed });
  process.stdout.write(
    removed.length === 0
      ? 'There was nothing to take away.\n'
      : `${removed.map((line) => `removed ${printable(line)}`).join('\n')}\n`,
  );
}

/** As `sha256:0123456789ab`, which is enough to tell one from another. */
function shortDigest(digest: string): string {
  return digest.slice(0, 'sha256:'.length + 12);
}
