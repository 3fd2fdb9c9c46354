/**
 * `node test/kernel/run.ts --kernel 6.12 -- COMMAND...`: runs a command inside one of Debian's kernels.
 * The command's output goes to stdout, the steps of the boot to stderr (with `--console` the kernel's
 * messages too); the exit code is the command's, 1 when the machine failed, 2 for a wrong command line.
 */
import { parseArgs } from 'node:util';

import { RampartError } from '../../lib/errors/errors.ts';
import { kernelVersions } from './modules.ts';
import { runInKernel } from './vm.ts';

const usage = `usage: node test/kernel/run.ts [--kernel ${kernelVersions.join('|')}] [--memory MIB] [--timeout SECONDS] [--console] -- COMMAND...`;

function parse(): Parameters<typeof runInKernel>[0] | undefined {
  let parsed;
  try {
    parsed = parseArgs({
      options: {
        kernel: { type: 'string', default: '6.12' },
        memory: { type: 'string', default: '2048' },
        timeout: { type: 'string', default: '600' },
        console: { type: 'boolean', default: false },
      },
      allowPositionals: true,
    });
  } catch {
    return undefined;
  }
  const kernel = kernelVersions.find((version) => version === parsed.values.kernel);
  const [memoryMiB, timeoutSeconds] = [Number(parsed.values.memory), Number(parsed.values.timeout)];
  if (kernel === undefined || !(memoryMiB >= 256) || !(timeoutSeconds > 0)) return undefined;
  if (parsed.positionals.length === 0) return undefined;
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(name, () => interrupted.abort(new Error(`stopped by ${name}`)));
  }
  return {
    kernel,
    command: parsed.positionals,
    memoryMiB,
    timeoutMs: timeoutSeconds * 1000,
    signal: interrupted.signal,
    onLine: (line) => process.stdout.write(`${line}\n`),
    onConsole(line) {
      // The kernel's own lines begin with their time in brackets; a busy host loses a character here and there.
      if (parsed.values.console || !/^.{0,12}\d+\] /.test(line)) process.stderr.write(`${line}\n`);
    },
  };
}

const options = parse();
if (options === undefined) {
  process.stderr.write(`${usage}\n`);
  process.exitCode = 2;
} else {
  try {
    const run = await runInKernel(options);
    process.stderr.write(
      `kernel ${options.kernel}: command started after ${run.bootMs} ms, ended after ${run.totalMs} ms with code ${run.exitCode}\n`,
    );
    process.exitCode = run.exitCode;
  } catch (error) {
    process.stderr.write(`${error instanceof RampartError ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
