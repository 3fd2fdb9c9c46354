/** Printing for the commands of `rampart bpf`. */
import { renderTable, type Row, type TableOptions, wantsColour } from '../../shared/observe/table.ts';

const defaultWidthColumns = 100;

export function tableOptions(): TableOptions {
  const { stdout } = process;
  return { widthColumns: stdout.columns || defaultWidthColumns, colour: wantsColour(stdout) };
}

export function print(head: readonly string[], rows: readonly Row[]): void {
  process.stdout.write(`${renderTable(rows, { head, ...tableOptions() })}\n`);
}

/** One line. Numbers of 64 bits are numbers as long as JSON keeps them whole, and text beyond that. */
export function printJson(value: unknown): void {
  const text = JSON.stringify(value, (_, item: unknown) => {
    if (typeof item !== 'bigint') return item;
    return Number.isSafeInteger(Number(item)) ? Number(item) : String(item);
  });
  process.stdout.write(`${text}\n`);
}
