import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { Tracking } from './path-tracker.fixture.ts';
import { asNobody, publicPath, withPublicCheckout } from '../../testing/public-checkout.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';

/** Its root may read what is his or everybody's, and nothing more. */
const inUserNamespace = [...withPublicCheckout, 'unshare', '--user', '--map-root-user'];

/** Whether a user namespace with its own inotify limits can be had here. */
function userNamespaces(): string | false {
  try {
    execFileSync('env', [...inUserNamespace, 'test', '-w', '/proc/sys/user/max_inotify_watches'], {
      stdio: 'ignore',
    });
    return false;
  } catch {
    return 'needs root, and user namespaces (unshare --user)';
  }
}

/** Runs in a user namespace with a small limit of watches; prints the tracker's reports. */
const program = `
import { writeFileSync, renameSync } from 'node:fs';
import { Tracking } from ${JSON.stringify(publicPath(join(import.meta.dirname, 'path-tracker.fixture.ts')))};
const root = process.argv[1];
using tracking = new Tracking(root, ['/a/b/c/one', '/a/b/c/two', '/d/e/three']);
const problems = tracking.problems.map((problem) => problem.code + ' ' + problem.next);
const first = tracking.word('/a/b/c/one') + ', ' + tracking.word('/d/e/three');
writeFileSync(root + '/a/b/c/next', '');
renameSync(root + '/a/b/c/next', root + '/a/b/c/two');
await tracking.untilWord('/a/b/c/two', 'file'); // by a retry: there is no watch to tell
const retrying = tracking.tracker.stats.retrying;
writeFileSync('/proc/sys/user/max_inotify_watches', '1000');
await tracking.until(() => { setTimeout(() => tracking.wake(), 10); return tracking.tracker.stats.retrying === 0; });
writeFileSync(root + '/d/e/four', '');
renameSync(root + '/d/e/four', root + '/d/e/three');
await tracking.untilWord('/d/e/three', 'file');
console.log(JSON.stringify({ problems, first, retrying, reported: tracking.problems.length, watches: tracking.tracker.stats.watches }));
`;

test(
  'without a free watch, a path is reported as a problem once and followed by retries',
  { skip: userNamespaces() },
  async () => {
    using root = new TemporaryDirectory();
    mkdirSync(root.at('a/b/c'), { recursive: true });
    mkdirSync(root.at('d/e'), { recursive: true });
    writeFileSync(root.at('a/b/c/one'), '');
    const shell = 'echo 3 > /proc/sys/user/max_inotify_watches; exec "$@"';
    const node = [publicPath(process.execPath), '--input-type=module-typescript', '-e', program, root.path];
    const { stdout } = await promisify(execFile)(
      'env',
      [...inUserNamespace, 'sh', '-c', shell, 'sh', ...node],
      {
        timeout: 60_000,
      },
    );
    const reported = JSON.parse(stdout) as Record<string, unknown>;
    assert.deepEqual(reported['problems'], [
      'RAMPART_LIMIT Raise it: sysctl fs.inotify.max_user_watches=VALUE',
    ]);
    assert.equal(reported['first'], 'file, absent /d/e/three');
    assert.ok(Number(reported['retrying']) > 0);
    assert.equal(reported['reported'], 1);
    assert.ok(Number(reported['watches']) > 3);
  },
);

test('a maze of links is reported as a problem, and the path is still resolved', () => {
  using root = new TemporaryDirectory();
  writeFileSync(root.at('file'), '');
  mkdirSync(root.at('d'));
  symlinkSync(`${'d/../'.repeat(600)}file`, root.at('maze'));
  using tracking = new Tracking(root.path, ['/maze']);
  assert.equal(tracking.word('/maze'), 'file');
  assert.equal(tracking.problems.length, 1);
  assert.match(tracking.problems[0]?.message ?? '', /more than 1024 components/);
  assert.equal(tracking.tracker.stats.retrying, 1);
});

test('forty links are followed, forty-one are a loop, as for the kernel', () => {
  using root = new TemporaryDirectory();
  writeFileSync(root.at('link-0'), '');
  for (let i = 1; i <= 41; i++) symlinkSync(`link-${i - 1}`, root.at(`link-${i}`));
  using tracking = new Tracking(root.path, ['/link-40', '/link-41']);
  assert.equal(tracking.word('/link-40'), 'file');
  assert.equal(tracking.word('/link-41'), 'unusable');
  assert.equal(tracking.tracker.stats.retrying, 0);
});

/** Run by a user without privileges; prints each state of the path. */
const unprivileged = `
import { Tracking } from ${JSON.stringify(publicPath(join(import.meta.dirname, 'path-tracker.fixture.ts')))};
using tracking = new Tracking(process.argv[1], ['/a/b/file']);
let last = '';
await tracking.until(() => {
  const word = tracking.word('/a/b/file');
  if (word !== last) console.log(word, tracking.tracker.stats.retrying, tracking.problems.length);
  last = word;
  return word === 'file';
});
`;

test(
  'permissions on the way decide, and their change is an event',
  { skip: process.getuid?.() === 0 ? false : 'needs root to become another user' },
  async () => {
    using root = new TemporaryDirectory();
    mkdirSync(root.at('a/b'), { recursive: true });
    writeFileSync(root.at('a/b/file'), '');
    chmodSync(root.path, 0o755);
    chmodSync(root.at('a/b'), 0o744); // may be read and so watched, not searched
    const node = [publicPath(process.execPath), '--input-type=module-typescript', '-e', unprivileged];
    const child = spawn('env', [...asNobody, ...node, root.path], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(child, 'exit');
    try {
      let reported = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        reported += text;
        // No retry waits that could heal it instead of the event.
        if (reported === 'unusable 0 0\n') chmodSync(root.at('a/b'), 0o755);
      });
      const [code] = (await ended) as [number];
      assert.equal(reported, 'unusable 0 0\nfile 0 0\n');
      assert.equal(code, 0);
    } finally {
      child.kill('SIGKILL');
    }
  },
);
