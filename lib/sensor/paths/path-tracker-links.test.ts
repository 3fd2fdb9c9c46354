import assert from 'node:assert/strict';
import {
  existsSync,
  linkSync,
  mkdirSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { test } from 'node:test';

import { Tracking } from './path-tracker.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';

const inode = (path: string): bigint => statSync(path, { bigint: true }).ino;

/** A root directory with /a/b/file in it, and a tracker of that path. */
function setUp(...paths: string[]): { root: TemporaryDirectory; tracking: Tracking } & Disposable {
  const root = new TemporaryDirectory();
  mkdirSync(root.at('a', 'b'), { recursive: true });
  writeFileSync(root.at('a', 'b', 'file'), 'one');
  const tracking = new Tracking(root.path, paths.length > 0 ? paths : ['/a/b/file']);
  return {
    root,
    tracking,
    [Symbol.dispose]() {
      tracking[Symbol.dispose]();
      root[Symbol.dispose]();
    },
  };
}

test('a link at the end and a link on the way are re-pointed', async () => {
  using context = setUp();
  const { root, tracking } = context;
  const point = (target: string, link: string): void => {
    symlinkSync(target, root.at('tmp-link')); // what ln -sfn does
    renameSync(root.at('tmp-link'), root.at(link));
  };
  writeFileSync(root.at('second'), '');
  mkdirSync(root.at('c'));
  writeFileSync(root.at('c/file'), '');
  point('/a/b/file', 'end');
  point('a/b', 'way');
  tracking.tracker.add({ path: '/end', root: root.path });
  tracking.tracker.add({ path: '/way/file', root: root.path });
  const [first, second, third] = [
    inode(root.at('a/b/file')),
    inode(root.at('second')),
    inode(root.at('c/file')),
  ];
  assert.equal(tracking.inode('/end'), first);
  assert.equal(tracking.inode('/way/file'), first);
  point('second', 'end');
  await tracking.untilIs('/end', second);
  point('/c', 'way');
  await tracking.untilIs('/way/file', third);
  point('/not/yet/there', 'end');
  await tracking.untilWord('/end', 'absent /not');
  mkdirSync(root.at('not/yet'), { recursive: true });
  linkSync(root.at('second'), root.at('not/yet/there'));
  await tracking.untilIs('/end', second);
  point('/end', 'end');
  await tracking.untilWord('/end', 'unusable'); // ELOOP
  // The file at the end of a link is replaced, the link stays.
  point('../a/../a/b/file', 'end');
  await tracking.untilIs('/end', first);
  unlinkSync(root.at('a/b/file'));
  await tracking.untilWord('/end', 'absent /a/b/file');
});

test('a link inside the root never leads out of it', async () => {
  using context = setUp();
  const { root, tracking } = context;
  symlinkSync('/etc', root.at('etc-link'));
  tracking.tracker.add({ path: '/etc-link/passwd', root: root.path });
  assert.ok(existsSync('/etc/passwd'));
  assert.equal(tracking.word('/etc-link/passwd'), 'absent /etc');
  mkdirSync(root.at('etc'));
  writeFileSync(root.at('etc/passwd'), '');
  await tracking.untilIs('/etc-link/passwd', inode(root.at('etc/passwd')));
  symlinkSync('../../../../../../../../etc/hostname', root.at('climb'));
  tracking.tracker.add({ path: '/climb', root: root.path });
  assert.equal(tracking.word('/climb'), 'absent /etc/hostname');
});

test('a link with a target that is not UTF-8 is followed like any other', async () => {
  using context = setUp();
  const { root, tracking } = context;
  const name = Buffer.from([0xff, 0xfe, 0x41]);
  const real = Buffer.concat([Buffer.from(`${root.path}/`), name]);
  symlinkSync(name, root.at('bytes'));
  tracking.tracker.add({ path: '/bytes', root: root.path });
  writeFileSync(real, '');
  await tracking.untilWord('/bytes', 'file');
  unlinkSync(real);
  await tracking.until(() => tracking.word('/bytes').startsWith('absent'));
});

test('a hard link is another name of the same file', async () => {
  using root = new TemporaryDirectory();
  writeFileSync(root.at('file'), '');
  using tracking = new Tracking(root.path, ['/file', '/link']);
  linkSync(root.at('file'), root.at('link'));
  await tracking.untilIs('/link', inode(root.at('file')));
  unlinkSync(root.at('file'));
  await tracking.untilWord('/file', 'absent /file');
  assert.equal(tracking.word('/link'), 'file');
});

test("procfs' link to whichever process follows it is not followed, by name or by a link", () => {
  using root = new TemporaryDirectory();
  symlinkSync('/proc/self/mounts', root.at('mtab'));
  for (const path of ['/proc/self/environ', '/proc/thread-self/environ', '/proc/self', root.at('mtab')]) {
    using tracking = new Tracking('/', [path]);
    const state = tracking.states.get(path);
    assert.ok(state?.kind === 'unusable', path);
    assert.match(
      state.error.message,
      /cannot follow .*: \/proc\/(thread-)?self is another directory for each process/,
    );
    assert.equal(tracking.tracker.stats.retrying, 0);
  }
});
