import { wantsColour, type RenderOptions } from '../output/table.ts';

interface Width {
  /** Longer lines are hard to read, however wide the terminal. */
  readonly max?: number;
  /** `-o wide`: nothing is wrapped. */
  readonly isWide?: boolean;
}

/** @param columns - Where stdout is not a terminal. */
export function outputOptions(
  columns: number,
  { max = Infinity, isWide = false }: Width = {},
): RenderOptions {
  const { stdout } = process;
  // A terminal that does not know its width reports 0.
  const widthColumns = isWide ? Infinity : Math.min(stdout.columns || columns, max);
  return { widthColumns, colour: wantsColour(stdout) };
}
