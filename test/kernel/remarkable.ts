/** Node's reporter prints all failures below this line. */
const FAILING = '✖ failing tests:';

/**
 * Selects lines from the output of a test runner in a guest: those about failed or skipped tests, and the
 * details of each failure.
 */
export function remarkable(output: string): string {
  const at = output.indexOf(FAILING);
  const [run, failures] = at === -1 ? [output, ''] : [output.slice(0, at), output.slice(at)];
  const lines = run
    .split('\n')
    .filter((line) => /✖|﹣|# |AssertionError|Error:|^ℹ (tests|pass|fail|skipped)/.test(line));
  return [...lines, failures].join('\n');
}
