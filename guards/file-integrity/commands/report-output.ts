/** Prints the report of `rampart integrity check` on stdout. */
import { once } from 'node:events';

import { paint, wantsColour } from '../../../lib/output/table.ts';
import { documentText, type Schema } from '../../../lib/cli/document.ts';
import type { PrettyFormat } from '../../../lib/cli/output-option.ts';
import { jsonReport } from '../report/json.ts';
import { plainReport } from '../report/plain.ts';
import type { Report, ReportOptions, RunFacts } from '../model/report.ts';

const PIECE = 64 * 1024;
const schema: Schema = 'rampart.dev/integrity-check/v1';

/** Resolves when the whole report was written to the reader, however slow it is. */
export async function printReport(
  report: Report,
  options: ReportOptions,
  facts: RunFacts,
  output: PrettyFormat,
): Promise<void> {
  if (output !== 'pretty') {
    const text = jsonReport(report, options, facts);
    // The text is empty for a quiet report. `schema` is added before AIDE's keys, which are unchanged.
    if (text === '') return;
    const marked = text.replace('{', `{\n  "schema": "${schema}",`);
    return await write(output === 'json' ? marked : documentText('yaml', JSON.parse(marked) as object));
  }
  const colour = wantsColour(process.stdout);
  let waiting = '';
  for (const piece of plainReport(report, options, facts)) {
    waiting += piece;
    if (waiting.length < PIECE) continue;
    // Colour only complete lines.
    const end = waiting.lastIndexOf('\n') + 1;
    await write(coloured(waiting.slice(0, end), colour));
    waiting = waiting.slice(end);
  }
  await write(coloured(waiting, colour));
}

async function write(text: string): Promise<void> {
  if (text !== '' && !process.stdout.write(text)) await once(process.stdout, 'drain');
}

/** Colours lines of the report. Names in it are printable, so that no file name can set colours or move the cursor. */
export function coloured(text: string, colour: boolean): string {
  if (!colour) return text;
  return text.replace(/^.+$/gm, (line) => {
    if (line.startsWith('AIDE found NO differences') || line.startsWith('AIDE successfully'))
      return paint('green', line, true);
    if (line.startsWith('AIDE found differences')) return paint(['bold', 'red'], line, true);
    if (/^(?:[A-Z][a-z, ]+ entries|Detailed information.*|Entries that could not.*):/.test(line))
      return paint('bold', line, true);
    const summary = /^[fdlcbps?][^:]{10,24}: \//.exec(line)?.[0];
    if (summary === undefined) return line;
    const end = summary.lastIndexOf(':');
    const style = /^.\++$/.test(summary.slice(0, end))
      ? 'green'
      : /^.-+$/.test(summary.slice(0, end))
        ? 'red'
        : 'yellow';
    return paint(style, line.slice(0, end), true) + line.slice(end);
  });
}
