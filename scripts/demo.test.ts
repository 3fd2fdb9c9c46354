import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const script = fileURLToPath(new URL('./demo.ts', import.meta.url));
const NOBODY = 65_534;
const asRoot = process.geteuid?.() === 0;
const needsRoot = asRoot ? false : 'needs root';

/** Runs the demo with a temporary directory of its own; `act` may meddle. */
async function demo(
  words: readonly string[],
  options: { readonly uid?: number; readonly stopAfter?: RegExp } = {},
) {
  const temporary = mkdtempSync(join(tmpdir(), 'rampart-demo-test-'));
  chmodSync(temporary, 0o777);
  try {
    const child = spawn(process.execPath, [script, ...words], {
      env: { ...process.env, TMPDIR: temporary },
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
    });
    const ended = once(child, 'close');
    let soFar = '';
    child.stdout.on('data', (bytes: Buffer) => {
      soFar += bytes.toString();
      // Once: a second signal ends it on the spot.
      if (options.stopAfter?.test(soFar) && !child.killed) child.kill('SIGTERM');
    });
    const [stdout, stderr, [exitCode]] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
    return { stdout, stderr, exitCode: exitCode as number | null, left: readdirSync(temporary) };
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/** Runs the demo until its first words are out, then stops reading. */
function demoUnread(temporary: string): Promise<unknown> {
  const child = spawn(process.execPath, [script], {
    env: { ...process.env, TMPDIR: temporary },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  child.stdout.once('data', () => child.stdout.destroy());
  return once(child, 'exit');
}

/** Why another user can't run it: a checkout in root's home, for one. */
function nobodyCannot(): string | false {
  if (!asRoot) return false;
  const check = spawnSync(process.execPath, ['--check', script], { uid: NOBODY, gid: NOBODY });
  return check.status === 0 ? false : 'the checkout is not readable by other users';
}

describe('npm run demo', () => {
  test('every access is seen as it should be', { skip: needsRoot }, async () => {
    const { stdout, stderr, exitCode, left } = await demo([]);
    assert.equal(stderr, '');
    assert.equal(exitCode, 0, stdout);
    assert.match(stdout, /^All \d+ accesses that \w+ sees were seen once/m);
    assert.match(stdout, /^read +cat secret +read +1 +ok$/m);
    assert.equal(stdout.match(/ ok$/gm)?.length, 18);
    assert.ok(!stdout.includes('\u001b'), 'no colour in a pipe');
    assert.deepEqual(left, []);
  });

  test('stopped half way it leaves nothing behind', { skip: needsRoot }, async () => {
    const { stderr, exitCode, left, stdout } = await demo([], { stopAfter: /^\$ cat secret$/m });
    assert.equal(exitCode, 1, stdout);
    assert.equal(stderr, 'demo: stopped by SIGTERM\n');
    assert.deepEqual(left, []);
  });

  test('without a reader it leaves nothing behind', { skip: needsRoot }, async () => {
    const temporary = mkdtempSync(join(tmpdir(), 'rampart-demo-test-'));
    try {
      assert.deepEqual(await demoUnread(temporary), [1, null]);
      assert.deepEqual(readdirSync(temporary), []);
    } finally {
      rmSync(temporary, { recursive: true, force: true });
    }
  });

  test('without root: one line, exit code 2', { skip: nobodyCannot() }, async () => {
    const { stdout, stderr, exitCode, left } = await demo([], asRoot ? { uid: NOBODY } : {});
    assert.equal(
      stderr,
      'rampart: cannot watch files: loading eBPF programs needs root. Run it as root, e.g. with sudo\n',
    );
    assert.equal(stdout, '');
    assert.equal(exitCode, 2);
    assert.deepEqual(left, []);
  });

  test('a bad option or mode: one line, exit code 2', async () => {
    const usage = await demo(['--fast']);
    assert.equal(usage.exitCode, 2);
    assert.match(usage.stderr, /^demo: usage: .*\n$/);
    const mode = await demo(['--mode', 'magic']);
    assert.equal(mode.exitCode, 2);
    assert.match(mode.stderr, /^rampart: option '--mode <mode>' argument 'magic' is invalid\..*\n$/);
    assert.deepEqual([...usage.left, ...mode.left], []);
  });
});
