import assert from 'node:assert/strict';
import {
  chmodSync,
  linkSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { test } from 'node:test';

import { anonymousFds, identifyByStat, Tracking } from './path-tracker.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { until } from '../../testing/until.fixture.ts';
import { trackPaths } from './path-tracker.ts';

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

test('the first state is reported before the tracker is returned', () => {
  using context = setUp('/a/b/file', '/a/b/none', '/no/such', '/a/b', '/a/b/file/x', 'a/../../a/b/file');
  const { root, tracking } = context;
  assert.equal(tracking.inode('/a/b/file'), inode(root.at('a/b/file')));
  assert.equal(tracking.word('/a/b/none'), 'absent /a/b/none');
  assert.equal(tracking.word('/no/such'), 'absent /no');
  assert.equal(tracking.word('/a/b'), 'unusable');
  const state = tracking.states.get('/a/b');
  assert.match(
    state?.kind === 'unusable' ? state.error.message : '',
    /illegal operation on a directory \(EISDIR\)/,
  );
  assert.equal(tracking.word('/a/b/file/x'), 'unusable');
  assert.equal(tracking.inode('a/../../a/b/file'), inode(root.at('a/b/file')));
});

test('a file appears, goes and comes again', async () => {
  using context = setUp('/a/b/new');
  const { root, tracking } = context;
  writeFileSync(root.at('a/b/new'), '');
  await tracking.untilWord('/a/b/new', 'file');
  unlinkSync(root.at('a/b/new'));
  await tracking.untilWord('/a/b/new', 'absent /a/b/new');
  writeFileSync(root.at('a/b/new'), '');
  await tracking.untilIs('/a/b/new', inode(root.at('a/b/new')));
});

test('several levels appear at once', async () => {
  using context = setUp('/x/y/z/file');
  const { root, tracking } = context;
  mkdirSync(root.at('x/y/z'), { recursive: true });
  writeFileSync(root.at('x/y/z/file'), '');
  await tracking.untilIs('/x/y/z/file', inode(root.at('x/y/z/file')));
  rmSync(root.at('x'), { recursive: true });
  await tracking.untilWord('/x/y/z/file', 'absent /x');
});

test('several levels appear one after the other', async () => {
  using context = setUp('/x/y/z/file');
  const { root, tracking } = context;
  mkdirSync(root.at('x'));
  await tracking.untilWord('/x/y/z/file', 'absent /x/y');
  mkdirSync(root.at('x/y'));
  await tracking.untilWord('/x/y/z/file', 'absent /x/y/z');
  mkdirSync(root.at('x/y/z'));
  await tracking.untilWord('/x/y/z/file', 'absent /x/y/z/file');
  linkSync(root.at('a/b/file'), root.at('x/y/z/file'));
  await tracking.untilIs('/x/y/z/file', inode(root.at('a/b/file')));
});

test('a rename over the file is followed', async (t) => {
  using context = setUp();
  const { root, tracking } = context;
  const latencies: number[] = [];
  for (let round = 0; round < 50; round++) {
    writeFileSync(root.at('a/b/next'), 'two');
    const next = inode(root.at('a/b/next'));
    const start = performance.now();
    renameSync(root.at('a/b/next'), root.at('a/b/file'));
    await tracking.untilIs('/a/b/file', next);
    latencies.push(performance.now() - start);
  }
  latencies.sort((x, y) => x - y);
  t.diagnostic(
    `rename to onChange: median ${latencies[25]?.toFixed(2)} ms, slowest of 50 ${latencies[49]?.toFixed(2)} ms`,
  );
});

test('any parent is moved away and back', async () => {
  using context = setUp();
  const { root, tracking } = context;
  const file = inode(root.at('a/b/file'));
  for (const [from, away, missing] of [
    ['a/b', 'elsewhere', '/a/b'],
    ['a', 'elsewhere', '/a'],
  ] as const) {
    renameSync(root.at(from), root.at(away));
    await tracking.untilWord('/a/b/file', `absent ${missing}`);
    renameSync(root.at(away), root.at(from));
    await tracking.untilIs('/a/b/file', file);
  }
});

test('a parent is replaced by another directory', async () => {
  using context = setUp();
  const { root, tracking } = context;
  mkdirSync(root.at('other/b'), { recursive: true });
  writeFileSync(root.at('other/b/file'), '');
  renameSync(root.at('a'), root.at('old'));
  renameSync(root.at('other'), root.at('a'));
  await tracking.untilIs('/a/b/file', inode(root.at('a/b/file')));
  // Events in the previous directory are irrelevant now.
  unlinkSync(root.at('old/b/file'));
  unlinkSync(root.at('a/b/file'));
  await tracking.untilWord('/a/b/file', 'absent /a/b/file');
});

test('the root itself is replaced', async () => {
  using outer = new TemporaryDirectory();
  mkdirSync(outer.at('root'));
  writeFileSync(outer.at('root/file'), '');
  using tracking = new Tracking(outer.at('root'), ['/file']);
  assert.equal(tracking.word('/file'), 'file');
  renameSync(outer.at('root'), outer.at('old'));
  await tracking.untilWord('/file', 'unusable');
  mkdirSync(outer.at('root'));
  await tracking.untilWord('/file', 'absent /file');
  writeFileSync(outer.at('root/file'), '');
  await tracking.untilIs('/file', inode(outer.at('root/file')));
});

test('the directory becomes a file and a directory again', async () => {
  using context = setUp('/a/b/file', '/a/b');
  const { root, tracking } = context;
  unlinkSync(root.at('a/b/file'));
  rmdirSync(root.at('a/b'));
  writeFileSync(root.at('a/b'), '');
  await tracking.until(() => tracking.word('/a/b/file') === 'unusable' && tracking.word('/a/b') === 'file');
  unlinkSync(root.at('a/b'));
  mkdirSync(root.at('a/b'));
  writeFileSync(root.at('a/b/file'), '');
  await tracking.until(() => tracking.word('/a/b/file') === 'file' && tracking.word('/a/b') === 'unusable');
});

test('events of untracked names cause no resolution', async () => {
  using context = setUp('/a/b/file', '/a/b/last');
  const { root, tracking } = context;
  const before = tracking.tracker.stats.resolutions;
  for (let i = 0; i < 1000; i++) writeFileSync(root.at(`a/b/noise-${i}`), '');
  chmodSync(root.at('a/b/noise-1'), 0o600);
  writeFileSync(root.at('a/b/last'), '');
  await tracking.untilWord('/a/b/last', 'file');
  assert.equal(tracking.tracker.stats.resolutions, before + 1);
  assert.ok(tracking.tracker.stats.events > 1000);
});

test('an overflow of the event queue loses nothing', async () => {
  using context = setUp('/a/b/file', '/x/late');
  const { root, tracking } = context;
  // Two events each, more than the queue holds, before the event loop can read one.
  const queue = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
  for (let i = 0; i <= queue / 2; i++) {
    writeFileSync(root.at('a/b/noise'), '');
    unlinkSync(root.at('a/b/noise'));
  }
  unlinkSync(root.at('a/b/file'));
  mkdirSync(root.at('x'));
  writeFileSync(root.at('x/late'), '');
  await tracking.until(
    () => tracking.word('/a/b/file') === 'absent /a/b/file' && tracking.word('/x/late') === 'file',
  );
  // Each look at a path sees what is there by then: both may be known before the overflow is read, which changes nothing.
  await until(() => tracking.tracker.stats.overflows >= 1);
});

test('watches are shared, given up with the last path, and gone with the tracker', () => {
  const before = anonymousFds('inotify') + anonymousFds('[eventpoll]');
  {
    using context = setUp();
    const { root, tracking } = context;
    const { watches } = tracking.tracker.stats;
    tracking.tracker.add({ path: '/a/b/other', root: root.path });
    tracking.tracker.add({ path: '/a/b/other', root: root.path });
    assert.equal(tracking.tracker.stats.watches, watches);
    assert.equal(tracking.tracker.stats.paths, 2);
    assert.equal(tracking.tracker.remove({ path: '/a/b/other', root: root.path }), true);
    assert.equal(tracking.tracker.remove({ path: '/a/b/other', root: root.path }), false);
    assert.equal(tracking.tracker.remove({ path: '/a/b/file', root: root.path }), true);
    assert.equal(tracking.tracker.stats.watches, 0);
    assert.throws(() => tracking.tracker.add({ path: '', root: root.path }), { code: 'RAMPART_INPUT' });
  }
  assert.equal(anonymousFds('inotify') + anonymousFds('[eventpoll]'), before);
});

test('an aborted signal disposes the tracker', () => {
  using root = new TemporaryDirectory();
  const before = anonymousFds('inotify');
  const controller = new AbortController();
  const options = { identify: identifyByStat, onChange: () => undefined, onProblem: () => undefined };
  const tracker = trackPaths({ ...options, signal: controller.signal });
  controller.abort();
  assert.equal(anonymousFds('inotify'), before);
  assert.throws(() => tracker.add({ path: '/file', root: root.path }), { code: 'RAMPART_DISPOSED' });
  assert.throws(() => trackPaths({ ...options, signal: controller.signal }), { name: 'AbortError' });
});

test('a file that cannot be identified is unusable and tried again', async () => {
  using root = new TemporaryDirectory();
  writeFileSync(root.at('file'), '');
  let broken = true;
  using tracking = new Tracking(root.path, ['/file'], (fd) => {
    if (broken) throw new Error(`no identity for ${readlinkSync(`/proc/self/fd/${fd}`)}`);
    return identifyByStat(fd);
  });
  assert.equal(tracking.word('/file'), 'unusable');
  broken = false;
  await tracking.untilWord('/file', 'file');
});
