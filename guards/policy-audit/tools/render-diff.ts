/** The output of `rampart policy diff`. */
import { documentText, type Schema } from '../../../lib/cli/document.ts';
import type { TableFormat } from '../../../lib/cli/output-option.ts';
import { printable } from '../../../lib/output/printable.ts';
import { renderTable, type RenderOptions, type Row } from '../../../lib/output/table.ts';
import { counted } from '../../../lib/output/words.ts';
import type { Diff } from './diff-policies.ts';

const styles = { allowed: 'green', denied: 'red', error: 'magenta' } as const;

/** The text, with a trailing newline. */
export function renderDiff(
  diff: Diff,
  format: TableFormat,
  options: Pick<RenderOptions, 'colour' | 'widthColumns'>,
): string {
  const { changes, objects, errors, problems } = diff;
  const denied = changes.filter(({ after }) => after === 'denied').length;
  const allowed = changes.filter(({ after }) => after === 'allowed').length;
  if (format === 'json' || format === 'yaml') {
    const summary = { objects, changes: changes.length, denied, allowed, errors };
    const schema: Schema = 'rampart.dev/policy-diff/v1';
    return documentText(format, { schema, summary, problems, changes });
  }
  const rows = changes.map(({ policy, object, file, line, before, after, message }): Row => ({
    cells: [
      { text: before, style: styles[before] },
      { text: after, style: styles[after] },
      printable(policy),
      printable(object),
      printable(file === '' ? '' : `${file}:${line}`),
    ],
    note: message === '' ? undefined : printable(message),
  }));
  const head = ['BEFORE', 'AFTER', 'POLICY', 'OBJECT', 'FILE'];
  const table = rows.length === 0 ? '' : `${renderTable(rows, { head, ...options }).trimEnd()}\n`;
  const said = problems.map((problem) => `not checked: ${printable(problem)}\n`).join('');
  const change =
    changes.length === 0 ? 'no verdict changes' : `${denied} newly denied, ${allowed} newly allowed`;
  const failed = errors === 0 ? '' : `, ${counted(errors, 'evaluation')} failed`;
  return `${table}${said}${counted(objects, 'object')} compared: ${change}${failed}\n`;
}
