/** Printing for the commands of `rampart bpf`. */
import { visibleJson } from '../../../lib/output/printable.ts';
import { renderTable, type Row } from '../../../lib/output/table.ts';
import { outputOptions } from '../../../lib/cli/output.ts';

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
