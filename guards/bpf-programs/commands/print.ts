/** What the commands of `rampart bpf` share: where they read, and how they print. */
import { renderTable, type Row } from '../../../lib/output/table.ts';
import { printDocument, type Schema } from '../../../lib/cli/document.ts';
import { outputOptions } from '../../../lib/cli/output.ts';
import type { ReadOptions } from '../kernel/running/kept.ts';
import { readingPlace } from '../node/locked-host.ts';
import type { BpfOptions, PlaceOptions } from './options.ts';

export const noPrograms = 'No eBPF programs of Rampart are loaded in this kernel.\n';

/** @throws {RampartError} as {@link readingPlace}. */
export function place({ bpffs, bpfState }: PlaceOptions): ReadOptions {
  return readingPlace({ bpffs, stateDirectory: bpfState });
}

export function print(head: readonly string[], rows: readonly Row[], options: BpfOptions): void {
  process.stdout.write(`${tableText(head, rows, options)}\n`);
}

/** The table, without a newline at its end. */
export function tableText(head: readonly string[], rows: readonly Row[], { output }: BpfOptions): string {
  return renderTable(rows, { head, ...outputOptions(100, { isWide: output === 'wide' }) });
}

/** If JSON or YAML is requested, prints the value and returns true; otherwise the caller prints a table. */
export function isPrinted({ output }: BpfOptions, schema: Schema, value: object): boolean {
  if (output !== 'json' && output !== 'yaml') return false;
  printDocument(output, schema, value);
  return true;
}
