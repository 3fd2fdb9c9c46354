/** Runs `rampart network cleanup`. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { cleanNode } from '../cleanup.ts';
import { describeFailure } from '../../../lib/cli/failure.ts';
import { requireRoot, stopSignal } from '../../../lib/cli/process.ts';

/** @returns the exit code. @throws {RampartError} `PRIVILEGE` unless root. */
export async function runCleanup(): Promise<0 | 1> {
  requireRoot('cannot clean up this node', "only root may change rules in the node's network", 'Use sudo');
  let failed = false;
  for (const { backend, removed, error } of await cleanNode(stopSignal().signal)) {
    if (error instanceof RampartError && error.code === errorCodes.UNSUPPORTED) {
      process.stdout.write(`${backend}: not available on this machine\n`);
    } else if (error !== undefined) {
      failed = true;
      process.stderr.write(describeFailure(error).text);
    } else if (removed.length === 0) process.stdout.write(`${backend}: nothing to remove\n`);
    else process.stdout.write(`${backend}: removed\n${removed.map((line) => `  ${line}\n`).join('')}`);
  }
  return failed ? 1 : 0;
}
