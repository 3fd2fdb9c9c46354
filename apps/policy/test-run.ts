/** Runs `rampart policy test`. */
import { printable } from '../../shared/observe/printable.ts';
import { errorCodes, RampartError } from '../../shared/observe/errors.ts';
import { paint, wantsColour } from '../../shared/observe/table.ts';
import { manifestFilesOf } from '../../systems/policy-audit/tools/subjects.ts';
import { readTestCases, runTestCase } from '../../systems/policy-audit/tools/test-cases.ts';
import { failWith } from '../failure.ts';
import type { TestOptions } from './command.ts';
import { openMeans } from './means.ts';

/** @returns the exit code */
export async function runPolicyTest(path: string, options: TestOptions): Promise<number> {
  failWith(2);
  const cases = manifestFilesOf(path).flatMap((file) => readTestCases(file, options.policy));
  if (cases.length === 0) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${path} has no tests`,
      next: 'Write YAML with "cases", or with "object" and "expected": see rampart policy test --help',
    });
  }
  await using means = await openMeans(options);
  const colour = wantsColour(process.stdout);
  let failed = 0;
  for (const test of cases) {
    const { problem } = await runTestCase(test, means.engine);
    if (problem !== undefined) failed++;
    const mark = problem === undefined ? paint('green', 'ok', colour) : paint('red', 'not ok', colour);
    const place = `${test.file}:${test.line}`;
    process.stdout.write(
      `${mark} ${printable(test.name)}${problem === undefined ? '' : `\n    ${printable(`${place}: ${problem}`)}`}\n`,
    );
  }
  process.stdout.write(`${cases.length - failed} of ${cases.length} as expected\n`);
  return failed === 0 ? 0 : 1;
}
