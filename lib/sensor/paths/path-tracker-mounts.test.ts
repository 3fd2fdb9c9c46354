import assert from 'node:assert/strict';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, renameSync, rmSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { anonymousFds, kernelDevice, Tracking } from './path-tracker.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { until } from '../../testing/until.fixture.ts';

const skip = process.getuid?.() === 0 ? false : 'needs root to mount';

/** Mounts, and unmounts at the end. */
function mount(target: string, type: string, options: string): Disposable {
  execFileSync('mount', ['-t', type, '-o', options, 'rampart-test', target]);
  let mounted = true;
  return {
    [Symbol.dispose]() {
      if (mounted) execFileSync('umount', [target]);
      mounted = false;
    },
  };
}

/** The parts of a stat that the tests need: the identity of the file. */
function fileOf(path: string): { inode: bigint; device: number } {
  const stat = statSync(path, { bigint: true });
  return { inode: stat.ino, device: kernelDevice(stat.dev) };
}

function leadsTo(tracking: Tracking, path: string, file: { inode: bigint; device: number }): boolean {
  const state = tracking.states.get(path);
  return (
    state?.kind === 'file' && state.identity.inode === file.inode && state.identity.device === file.device
  );
}

test('filesystems mounted over a parent and unmounted are followed', { skip }, async () => {
  using root = new TemporaryDirectory();
  mkdirSync(root.at('a/b'), { recursive: true });
  writeFileSync(root.at('a/b/file'), '');
  const below = fileOf(root.at('a/b/file'));
  using tracking = new Tracking(root.path, ['/a/b/file']);
  for (let round = 0; round < 3; round++) {
    // No turn of the event loop between the start and the first mount: this one is missed easily.
    using mounted = mount(root.at('a'), 'tmpfs', 'size=1m');
    await tracking.untilWord('/a/b/file', 'absent /a/b');
    mkdirSync(root.at('a/b'));
    writeFileSync(root.at('a/b/file'), '');
    const above = fileOf(root.at('a/b/file'));
    await tracking.until(() => leadsTo(tracking, '/a/b/file', above));
    // Nothing of the tracker keeps the filesystem busy.
    mounted[Symbol.dispose]();
    await tracking.until(() => leadsTo(tracking, '/a/b/file', below));
  }
});

test('a file mounted over the file is followed', { skip }, async () => {
  using root = new TemporaryDirectory();
  writeFileSync(root.at('file'), '');
  writeFileSync(root.at('other'), '');
  const [file, other] = [fileOf(root.at('file')), fileOf(root.at('other'))];
  using tracking = new Tracking(root.path, ['/file']);
  assert.ok(leadsTo(tracking, '/file', file));
  execFileSync('mount', ['--bind', root.at('other'), root.at('file')]);
  try {
    await tracking.until(() => leadsTo(tracking, '/file', other));
  } finally {
    execFileSync('umount', [root.at('file')]);
  }
  await tracking.until(() => leadsTo(tracking, '/file', file));
});

test('files of an overlay are followed through copy-up, whiteout and rename', { skip }, async () => {
  using base = new TemporaryDirectory();
  using tmpfs = mount(base.path, 'tmpfs', 'size=4m');
  for (const name of ['lower/etc', 'upper', 'work', 'merged']) mkdirSync(base.at(name), { recursive: true });
  writeFileSync(base.at('lower/etc/shadow'), 'lower');
  const layers = ['lower', 'upper', 'work'].map((name) => `${name}dir=${base.at(name)}`).join(',');
  using overlay = mount(base.at('merged'), 'overlay', layers);
  const shadow = base.at('merged/etc/shadow');
  using tracking = new Tracking(base.at('merged'), ['/etc/shadow']);
  const lower = fileOf(shadow);
  assert.ok(leadsTo(tracking, '/etc/shadow', lower));
  writeFileSync(shadow, 'copied up');
  assert.deepEqual(fileOf(shadow), lower);
  writeFileSync(`${shadow}+`, 'saved');
  renameSync(`${shadow}+`, shadow);
  const saved = fileOf(shadow);
  await tracking.until(() => leadsTo(tracking, '/etc/shadow', saved));
  unlinkSync(shadow);
  await tracking.untilWord('/etc/shadow', 'absent /etc/shadow');
  writeFileSync(shadow, '');
  const again = fileOf(shadow);
  await tracking.until(() => leadsTo(tracking, '/etc/shadow', again));
  rmSync(base.at('merged/etc'), { recursive: true });
  await tracking.untilWord('/etc/shadow', 'absent /etc');
  tracking[Symbol.dispose]();
  overlay[Symbol.dispose]();
  tmpfs[Symbol.dispose]();
});

/** A process in its own mount namespace with its own root, as a container's is. */
async function startContainer(root: string): Promise<ChildProcess & { readonly pid: number }> {
  const script = `mount --make-rprivate / && mount -t tmpfs -o size=8m x ${root} && mkdir ${root}/etc ${root}/proc &&
    echo one > ${root}/etc/shadow && cp -r --parents ${busybox} ${root} && exec chroot ${root} ${busybox} sh -c '
      echo ready
      while read line; do eval "$line"; done'`;
  const child = spawn('unshare', ['--mount', 'sh', '-c', script], { stdio: ['pipe', 'pipe', 'inherit'] });
  await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'exit').then(([code]) => assert.fail(`the container did not start (exit ${code})`)),
  ]);
  assert.ok(child.pid !== undefined);
  return child as ChildProcess & { readonly pid: number };
}

const busybox = '/bin/busybox';
let busyboxIsStatic = false;
try {
  busyboxIsStatic = !execFileSync('file', ['-L', busybox], { encoding: 'utf8' }).includes('dynamically');
} catch {
  // No busybox, or no file(1).
}

test(
  'the root of a process in another mount namespace is followed until the process ends',
  { skip: skip || (busyboxIsStatic ? false : 'needs busybox-static') },
  async () => {
    using directory = new TemporaryDirectory();
    const before = anonymousFds('[eventpoll]');
    const container = await startContainer(directory.path);
    const ended = once(container, 'exit');
    try {
      const root = `/proc/${container.pid}/root`;
      using tracking = new Tracking(root, ['/etc/shadow', '/sub/file']);
      const run = (line: string): void => void container.stdin?.write(`${line}\n`);
      const shadow = fileOf(`${root}/etc/shadow`);
      assert.ok(leadsTo(tracking, '/etc/shadow', shadow));
      run(`echo two > /etc/next; ${busybox} mv /etc/next /etc/shadow`);
      await tracking.until(
        () => tracking.word('/etc/shadow') === 'file' && !leadsTo(tracking, '/etc/shadow', shadow),
      );
      // Mounted in the other namespace only: this one's mount table says nothing.
      run(`${busybox} mkdir /sub; ${busybox} mount -t tmpfs x /sub`);
      await tracking.untilWord('/sub/file', 'absent /sub/file');
      run('echo > /sub/file');
      await tracking.untilWord('/sub/file', 'file');
      const mounted = fileOf(`${root}/sub/file`);
      assert.ok(leadsTo(tracking, '/sub/file', mounted));
      run(`${busybox} umount /sub`);
      await tracking.untilWord('/sub/file', 'absent /sub/file');
      container.kill('SIGKILL');
      await tracking.until(
        () => tracking.word('/etc/shadow') === 'unusable' && tracking.word('/sub/file') === 'unusable',
      );
      const state = tracking.states.get('/etc/shadow');
      assert.match(
        state?.kind === 'unusable' ? state.error.message : '',
        new RegExp(`cannot open ${root}: `),
      );
      // The namespace, and with it the filesystems of the dead container, is released. Its end may be
      // reported after its mounts went.
      await until('the namespace is let go', () => anonymousFds('[eventpoll]') === before);
    } finally {
      container.kill('SIGKILL');
      await ended;
    }
  },
);

test('a process that does not exist has no root directory', () => {
  // Beyond the greatest pid_max there is (PID_MAX_LIMIT of include/linux/threads.h).
  using tracking = new Tracking('/proc/4194305/root', ['/etc/shadow']);
  const state = tracking.states.get('/etc/shadow');
  assert.match(state?.kind === 'unusable' ? state.error.message : '', /\/proc\/4194305.*\(ENOENT\)/);
  assert.equal(tracking.tracker.stats.retrying, 0);
});
