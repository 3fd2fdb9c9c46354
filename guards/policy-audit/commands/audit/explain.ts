/** Runs `rampart audit explain`. */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { agoText } from '../../../../lib/output/ago.ts';
import { printable } from '../../../../lib/output/printable.ts';
import { renderTable, type Row } from '../../../../lib/output/table.ts';
import { explain, type Explained } from '../../once/explain.ts';
import { printDocument } from '../../../../lib/cli/document.ts';
import { describeFailure } from '../../../../lib/cli/failure.ts';
import { stopSignal } from '../../../../lib/cli/process.ts';
import type { ExplainOptions } from './command.ts';
import { policyProcess } from './process.ts';
import { outputOptions } from '../../../../lib/cli/output.ts';

/** @returns the exit code: 0 if no policy rejects the object, 1 if one does, 2 if one could not be evaluated or nothing is known. */
export async function runExplain(object: string, options: ExplainOptions): Promise<0 | 1 | 2> {
  const { stdout, stderr } = process;
  let reported: Explained;
  try {
    const [kind = '', name = '', more] = object.split('/');
    if (kind === '' || name === '' || more !== undefined) {
      throw new RampartError(errorCodes.INPUT, {
        what: `${JSON.stringify(object)} is not an object`,
        next: 'Use KIND/NAME, such as pod/web',
      });
    }
    const stop = stopSignal();
    await using stack = new AsyncDisposableStack();
    const { context, runtimes } = await policyProcess(options, { stop, stack, level: 'warn' });
    const namespace = options.namespace ?? context.client.namespace;
    reported = await explain(context, runtimes, { kind, name, namespace });
  } catch (error) {
    stderr.write(describeFailure(error).text);
    return 2;
  }
  const { policies, problems } = reported;
  if (options.output === 'json' || options.output === 'yaml') {
    const document = { ...reported, problems: Object.fromEntries(problems) };
    printDocument(options.output, 'rampart.dev/audit-explain/v1', document);
  } else stdout.write(table(reported, options.output === 'wide'));
  if (problems.size > 0 || policies.some(({ result }) => result === 'error')) return 2;
  return policies.some(({ result }) => result === 'fail' || result === 'warn') ? 1 : 0;
}

const styles = { fail: 'red', error: 'red', warn: 'yellow', pass: 'green', skip: 'dim' } as const;

function table({ kind, namespace, name, policies, problems }: Explained, isWide: boolean): string {
  const subject = `${kind} ${namespace === '' ? '' : `${namespace}/`}${name}`;
  const lines = [...problems].map(([policy, why]) => printable(`${policy} cannot be evaluated: ${why}`));
  const nowMs = Date.now();
  const rows = policies.map(({ policy, why, result, from, evaluatedMs = 0, message = '' }): Row => {
    if (result === undefined) return { cells: [policy, 'no', '', printable(why ?? '')] };
    const when = from === 'report' ? `report, evaluated ${agoText(nowMs - evaluatedMs)}` : 'evaluated now';
    return {
      cells: [policy, { text: result, style: styles[result] }, when, printable(message)],
    };
  });
  const head = ['POLICY', 'RESULT', 'FROM', 'MESSAGE'];
  const shown =
    rows.length === 0
      ? 'no policy can be evaluated'
      : renderTable(rows, { head, ...outputOptions(120, { isWide }) });
  return `${[printable(subject), ...lines, shown].join('\n')}\n`;
}
