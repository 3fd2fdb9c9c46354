/** What the commands of `rampart bpf` have in common: where they read, and how they print. */
import { visibleJson } from '../../../lib/output/printable.ts';
import { renderTable, type Row } from '../../../lib/output/table.ts';
import { outputOptions } from '../../../lib/cli/output.ts';
import type { ReadOptions } from '../kernel/read/kept.ts';
import { readingPlace } from '../node/locked-host.ts';
import type { PlaceOptions } from './options.ts';

export const noPrograms = 'No eBPF programs of Rampart are loaded in this kernel.\n';

/** @throws {RampartError} as {@link readingPlace}. */
export function place({ bpffs, bpfState }: PlaceOptions): ReadOptions {
  return readingPlace({ bpffs, stateDirectory: bpfState });
}

export function print(head: readonly string[], rows: readonly Row[]): void {
  process.stdout.write(`${renderTable(rows, { head, ...outputOptions(100) })}\n`);
}

/** One line. 64-bit numbers are numbers if JSON represents them exactly, and strings otherwise. */
export function printJson(value: unknown): void {
  const text = JSON.stringify(value, (_, item: unknown) => {
    if (typeof item !== 'bigint') return item;
    return Number.isSafeInteger(Number(item)) ? Number(item) : String(item);
  });
  process.stdout.write(`${visibleJson(text)}\n`);
}
