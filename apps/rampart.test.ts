import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';

import { errorCodes, RampartError } from '../lib/errors/errors.ts';
import manifest from '../package.json' with { type: 'json' };
import { describeFailure, failAsService, failWith } from '../lib/cli/failure.ts';

const top = dirname(import.meta.dirname);
const launcher = join(top, 'bin/rampart');

function rampart(args: readonly string[], command = launcher) {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  return { status, stdout, stderr };
}

function temporaryDirectory(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'rampart-launcher-'));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
}

suite('the rampart command', () => {
  test('says its version, also through a symbolic link to it and through npm', (t) => {
    const link = join(temporaryDirectory(t), 'link');
    symlinkSync(launcher, link);
    const said = { status: 0, stdout: `${manifest.version}\n`, stderr: '' };
    assert.deepEqual(rampart(['--version']), said);
    assert.deepEqual(rampart(['--version'], link), said);
    const viaNpm = spawnSync('npm', ['run', '-s', 'rampart', '--', '--version'], {
      cwd: top,
      encoding: 'utf8',
    });
    assert.equal(viaNpm.stdout, said.stdout);
  });

  for (const command of ['watch', 'doctor']) {
    test(`${command} --help shows examples`, () => {
      const { status, stdout, stderr } = rampart([command, '--help']);
      assert.equal(status, 0);
      assert.match(stdout, new RegExp(`^Examples:\n  rampart ${command} ?`, 'm'));
      assert.equal(stderr, '');
    });
  }

  const misuses: readonly (readonly [args: readonly string[], line: RegExp])[] = [
    [['wach'], /^rampart: unknown command 'wach' \(Did you mean watch\?\) Try: rampart --help\n$/],
    [['--nope'], /^rampart: unknown option '--nope'\. Try: rampart --help\n$/],
    [['watch'], /^rampart: missing required argument 'path'\. Try: rampart watch --help\n$/],
    [
      ['watch', '--capacity', 'x', '/'],
      /^rampart: option '--capacity .* is invalid\..* Try: rampart watch --help\n$/,
    ],
    [['doctor', 'extra'], /^rampart: too many arguments for 'doctor'.* Try: rampart doctor --help\n$/],
  ];
  for (const [args, line] of misuses) {
    test(`"${args.join(' ')}" is refused in one line, exit code 2`, () => {
      const { status, stdout, stderr } = rampart(args);
      assert.match(stderr, line);
      assert.equal(stdout, '');
      assert.equal(status, 2);
    });
  }

  test('without a command it shows the help on stderr, exit code 2', () => {
    const { status, stdout, stderr } = rampart([]);
    assert.match(stderr, /^Usage: rampart/);
    assert.equal(stdout, '');
    assert.equal(status, 2);
  });

  test('exits quietly when its reader goes away', async () => {
    // The help is written after the pipe's only reader has been closed.
    const child = spawn('sh', ['-c', `sleep 0.2; exec "${launcher}" --help`], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.destroy();
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const [code] = (await once(child, 'close')) as [number | null];
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  });
});

suite('the launcher', () => {
  test('without a Node.js that can run it says so in one line', (t) => {
    const copy = temporaryDirectory(t);
    mkdirSync(join(copy, 'bin'));
    cpSync(launcher, join(copy, 'bin/rampart'));
    const old = '#!/bin/sh\necho 20\n';
    const path = join(copy, 'path');
    mkdirSync(path);
    spawnSync('sh', ['-c', `cat > "${path}/node"; chmod +x "${path}/node"`], { input: old });
    const { status, stdout, stderr } = spawnSync(join(copy, 'bin/rampart'), ['--version'], {
      encoding: 'utf8',
      env: { PATH: `${path}:/usr/bin:/bin` },
    });
    assert.deepEqual(
      { status, stdout, stderr },
      {
        status: 2,
        stdout: '',
        stderr: 'rampart: Node.js 24 or later is needed and not here. In a checkout run: scripts/setup\n',
      },
    );
  });

  test('becomes the process it starts, so that signals reach it', async () => {
    // The process is over too soon to be looked at, so it says its own id.
    const child = spawn(launcher, ['--version'], {
      env: { ...process.env, NODE_OPTIONS: '--import=data:text/javascript,console.log(process.pid)' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    await once(child, 'close');
    assert.equal(stdout, `${child.pid}\n${manifest.version}\n`);
  });

  test('gives the API server and the operator less garbage to hold, a check no more threads than CPUs, and few else a flag', () => {
    const env = {
      ...process.env,
      NODE_OPTIONS: '--import=data:text/javascript,console.log(process.execArgv.join())',
    };
    const flagsOf = (command: string): string | undefined =>
      spawnSync(launcher, [command, '--help'], { encoding: 'utf8', env }).stdout.split('\n')[0];
    assert.equal(flagsOf('apiserver'), '--max-semi-space-size=16,--heap-growing-percent=50');
    assert.equal(flagsOf('policy-server'), '--max-semi-space-size=8');
    assert.equal(flagsOf('operator'), '--max-semi-space-size=4,--heap-growing-percent=30');
    assert.equal(flagsOf('integrity'), '--v8-pool-size=0');
    assert.equal(flagsOf('watch'), '');
  });
});

suite('output of a failure', () => {
  const exitCodeOf = (code: (typeof errorCodes)[keyof typeof errorCodes]): number =>
    describeFailure(new RampartError(code, { what: 'it' })).exitCode;

  test('every failure has exit code 2: 1 is an answer', () => {
    assert.deepEqual([...new Set(Object.values(errorCodes).map(exitCodeOf))], [2]);
  });

  test('for a service, 2 is a command line that can never work, and 1 a failure that may pass', () => {
    failAsService();
    try {
      const { INPUT, PRIVILEGE, UNSUPPORTED, LIMIT, ...others } = errorCodes;
      assert.deepEqual([INPUT, PRIVILEGE, UNSUPPORTED, LIMIT].map(exitCodeOf), [2, 2, 2, 2]);
      assert.deepEqual([...new Set(Object.values(others).map(exitCodeOf))], [1]);
      assert.equal(describeFailure(new TypeError('x')).exitCode, 1);
    } finally {
      failWith(2);
    }
  });

  test('what, why and next on the first line, detail indented below', () => {
    const parts = { what: 'cannot load x', why: 'refused', next: 'Do y.', detail: 'line 1\nline 2' };
    const { text } = describeFailure(new RampartError(errorCodes.EBPF, parts));
    assert.equal(text, 'rampart: cannot load x: refused. Do y\n  line 1\n  line 2\n');
  });

  test('anything else is a fault, shown with its stack', () => {
    const { text, exitCode } = describeFailure(new TypeError('x is undefined'));
    assert.match(text, /^rampart: this is a bug in Rampart;.*\nTypeError: x is undefined\n\s+at /);
    assert.equal(exitCode, 2);
    assert.equal(describeFailure('a string').exitCode, 2);
  });
});
