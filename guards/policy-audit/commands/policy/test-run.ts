/** Runs `rampart policy test`. */
import { printable } from '../../../../lib/output/printable.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { paint, wantsColour } from '../../../../lib/output/table.ts';
import { printDocument } from '../../../../lib/cli/document.ts';
import { manifestFilesOf } from '../../tools/subjects.ts';
import { readTestCases, runTestCase } from '../../tools/test-cases.ts';
import type { TestOptions } from './command.ts';
import { openMeans } from './means.ts';

/** @returns the exit code */
export async function runPolicyTest(path: string, options: TestOptions): Promise<number> {
  const cases = manifestFilesOf(path).flatMap((file) => readTestCases(file, options.policy));
  if (cases.length === 0) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${path} has no tests`,
      next: 'Use YAML with "cases", or with "object" and "expected": see rampart policy test --help',
    });
  }
  await using means = await openMeans(options);
  const colour = wantsColour(process.stdout);
  const done: {
    readonly name: string;
    readonly file: string;
    readonly line: number;
    readonly problem: string | null;
  }[] = [];
  for (const test of cases) {
    const { problem } = await runTestCase(test, means.engine);
    const { name, file, line } = test;
    done.push({ name, file, line, problem: problem ?? null });
    if (options.output !== 'pretty') continue;
    const mark = problem === undefined ? paint('green', 'ok', colour) : paint('red', 'not ok', colour);
    const place = `${test.file}:${test.line}`;
    process.stdout.write(
      `${mark} ${printable(test.name)}${problem === undefined ? '' : `\n    ${printable(`${place}: ${problem}`)}`}\n`,
    );
  }
  const failed = done.filter(({ problem }) => problem !== null).length;
  if (options.output === 'pretty')
    process.stdout.write(`${cases.length - failed} of ${cases.length} as expected\n`);
  else printDocument(options.output, 'rampart.dev/policy-test/v1', { failed, cases: done });
  return failed === 0 ? 0 : 1;
}
