import { wantsColour, type RenderOptions } from '../output/table.ts';

interface Width {
  /** Maximum width: longer lines are hard to read, even on a wide terminal. */
  readonly max?: number;
  /** Whether `-o wide` was given: no line is wrapped. */
  readonly isWide?: boolean;
}

/** @param columns - The width if stdout is not a terminal. */
export function outputOptions(
  columns: number,
  { max = Infinity, isWide = false }: Width = {},
): RenderOptions {
  const { stdout } = process;
  // A terminal that does not know its width reports 0.
  const widthColumns = isWide ? Infinity : Math.min(stdout.columns || columns, max);
  return { widthColumns, colour: wantsColour(stdout) };
}
