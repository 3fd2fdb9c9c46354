import { wantsColour, type RenderOptions } from '../output/table.ts';

/** @param columns where stdout is no terminal; @param most longer lines are hard to read, however wide the terminal */
export function outputOptions(columns: number, most = Infinity): RenderOptions {
  const { stdout } = process;
  // A terminal that does not know its width reports 0.
  return { widthColumns: Math.min(stdout.columns || columns, most), colour: wantsColour(stdout) };
}
