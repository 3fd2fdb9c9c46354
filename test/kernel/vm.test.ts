import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

import { deepTest, sampled } from '../../lib/testing/depth.fixture.ts';
import { withLibbpf15 } from './libbpf.ts';
import { kernelRunObstacle, runInKernel } from './vm.ts';

const checkout = resolve(import.meta.dirname, '../..');
/** For runs that are not about the timeout; a busy machine boots slowly. */
const TIMEOUT_MS = 180_000;

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`);
}

/** Whether the process runs a program of this name; not when it has just ended. */
function isRunning(pid: string, program: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith(program);
  } catch {
    return false;
  }
}

describe('a command in a Debian kernel', { skip: kernelRunObstacle() ?? false }, () => {
  const panics = async (t: TestContext) => {
    let pid = 0;
    await assert.rejects(
      runInKernel({
        kernel: '6.1',
        command: ['sh', '-c', 'echo before; sleep 0.2; echo c > /proc/sysrq-trigger'],
        timeoutMs: TIMEOUT_MS,
        signal: t.signal,
        onStart: (qemuPid) => (pid = qemuPid),
      }),
      { code: 'RAMPART_SYSTEM', message: /sysrq triggered crash[^]*last lines of the command:\nbefore/ },
    );
    assert.ok(pid > 0 && !isAlive(pid));
  };

  deepTest('a run that takes too long is ended', async (t) => {
    let pid = 0;
    const run = runInKernel({
      kernel: '6.12',
      command: ['sleep', '1000'],
      timeoutMs: 1000,
      signal: t.signal,
      onStart: (qemuPid) => (pid = qemuPid),
    });
    await assert.rejects(run, { code: 'RAMPART_SYSTEM', message: /within 1000 ms/ });
    assert.ok(pid > 0 && !isAlive(pid));
  });

  deepTest('an aborted run is ended, with the reason of the signal', async () => {
    const controller = new AbortController();
    const reason = new Error('not wanted any more');
    let pid = 0;
    const run = runInKernel({
      kernel: '6.12',
      command: ['sleep', '1000'],
      timeoutMs: TIMEOUT_MS,
      signal: controller.signal,
      onStart: (qemuPid) => (pid = qemuPid),
      onConsole: () => controller.abort(reason),
    });
    await assert.rejects(run, reason);
    assert.ok(pid > 0 && !isAlive(pid));
  });

  deepTest('a run whose process is killed leaves no qemu behind', async () => {
    using cli = new Cli('--kernel', '6.12', '--', 'sleep', '1000');
    const pid = await cli.qemuPid();
    cli.process.kill('SIGKILL');
    await once(cli.process, 'close');
    while (isAlive(pid)) await sleep(20);
    assert.equal(existsSync(`/proc/${pid}`), false);
  });

  const answers = async () => {
    using cli = new Cli('--kernel', '6.12', '--', 'sh', '-c', 'echo out; echo err >&2; kill -9 $$');
    const { stdout, stderr } = cli.process;
    const [out, err] = await Promise.all([text(stdout), text(stderr), once(cli.process, 'close')]);
    assert.equal(out, 'out\nerr\n', err);
    assert.match(err, /guest: .* root mounted/);
    assert.equal(cli.process.exitCode, 128 + 9);
  };

  // Those that boot to the end, which is what takes long, and what the suites in each kernel do.
  const whole = [
    ['a panic is an error with the last lines of the console', panics],
    ['the command line: output to stdout, boot to stderr, the exit code of the command', answers],
  ] as const;
  for (const [title, run] of whole) deepTest(title, run);
});

test('a wrong command line prints the usage and ends with 2', async () => {
  const wrong = [[], ['--kernel', '5.4', '--', 'true'], ['--memory', 'x', '--', 'true'], ['--nope']];
  for (const args of sampled(wrong, 1)) {
    using cli = new Cli(...args);
    const [err] = await Promise.all([text(cli.process.stderr), once(cli.process, 'close')]);
    assert.match(err, /^usage: /);
    assert.equal(cli.process.exitCode, 2);
  }
});

test("with libbpf 1.5 in place of the machine's own", { skip: kernelRunObstacle() ?? false }, async (t) => {
  const script = `import(${JSON.stringify(join(checkout, 'lib/ebpf/ffi.ts'))}).then((ffi) => console.log(ffi.libbpf().versionString()))`;
  const [program = '', ...args] = await withLibbpf15([process.execPath, '-e', script], { signal: t.signal });
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const [output] = await Promise.all([text(child.stdout), once(child, 'close')]);
  assert.equal(output, 'v1.5\n');
  assert.doesNotMatch(readFileSync('/proc/self/mounts', 'utf8'), /libbpf/);
});

/** `test/kernel/run.ts` as a process; disposing it ends it. */
class Cli implements Disposable {
  readonly process: ChildProcess & {
    readonly stdout: NodeJS.ReadableStream;
    readonly stderr: NodeJS.ReadableStream;
  };

  constructor(...args: string[]) {
    this.process = spawn(process.execPath, [join(import.meta.dirname, 'run.ts'), ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  /** Process id of qemu, once it is there under its own name. */
  async qemuPid(): Promise<number> {
    const { pid } = this.process;
    for (;;) {
      const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
      const found = children.find((child) => isRunning(child, 'qemu'));
      if (found !== undefined) return Number(found);
      await sleep(20);
    }
  }

  [Symbol.dispose](): void {
    this.process.kill('SIGKILL');
  }
}
