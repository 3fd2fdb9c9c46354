/** Below it node's reporter tells all of each failure. */
const FAILING = '✖ failing tests:';

/** Of what a test runner in a guest has said: the lines that tell what failed or was skipped, and all that is said of each failure. */
export function remarkable(output: string): string {
  const at = output.indexOf(FAILING);
  const [run, failures] = at === -1 ? [output, ''] : [output.slice(0, at), output.slice(at)];
  const lines = run
    .split('\n')
    .filter((line) => /✖|﹣|# |AssertionError|Error:|^ℹ (tests|pass|fail|skipped)/.test(line));
  return [...lines, failures].join('\n');
}
