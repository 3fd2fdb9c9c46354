/** Of what a test runner in a guest has said, the lines that tell what failed or was skipped. */
export function remarkable(output: string): string {
  return output
    .split('\n')
    .filter((line) => /✖|﹣|# |AssertionError|Error:|^ℹ (tests|pass|fail|skipped)/.test(line))
    .join('\n');
}
