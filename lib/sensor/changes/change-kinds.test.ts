/** Every kind of change, on several file systems, is reported with its author. */
import assert from 'node:assert/strict';
import { mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { sampled } from '../../testing/depth.fixture.ts';
import { fileSystemSkip, imageOf, overlayOf, tmpfs } from '../file-systems.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { sensorSkip } from '../sensor.fixture.ts';
import type { Change } from './change.ts';
import { kindCases, prepareKindCase, type KindCase } from './change-kinds.fixture.ts';
import {
  changeOf,
  describeChange,
  everyChangeHasAuthor,
  perl,
  reportsChangeTimes,
  TestChangeWatch,
} from './change-watch.fixture.ts';

const fileSystems = {
  'the temporary directory': { skip: false, mount: () => undefined },
  tmpfs: { skip: fileSystemSkip('tmpfs'), mount: tmpfs },
  ext4: { skip: fileSystemSkip('ext4'), mount: (scratch: string) => imageOf('ext4', scratch, 16) },
  overlay: {
    skip: fileSystemSkip('overlay'),
    mount: (scratch: string) =>
      overlayOf(join(scratch, 'lower'), join(scratch, 'upper'), join(scratch, 'work')),
  },
} as const;

/** All of them on one file system, a few on each other. */
const few = (): readonly KindCase[] => sampled(kindCases, 3);

for (const [at, [fileSystem, { skip, mount }]] of Object.entries(fileSystems).entries()) {
  suite(`changes on ${fileSystem}`, { skip: sensorSkip || skip }, () => {
    const stack = new DisposableStack();
    let root: string;
    let watch: TestChangeWatch;
    before(() => {
      const scratch = stack.use(new TemporaryDirectory());
      const mounted = mount(scratch.path);
      if (mounted !== undefined) stack.use(mounted);
      root = mounted?.path ?? scratch.path;
      watch = stack.use(new TestChangeWatch(root));
    });
    after(() => stack.dispose());

    for (const kind of at === 0 ? kindCases : few()) {
      const skipKind = kind.program.includes('syscall(') && process.arch !== 'x64' && 'numbers of x86_64';
      test(kind.name, { skip: skipKind }, async () => {
        assert.equal(watch.watch.mode, 'sensor', watch.watch.reason);
        const { directory, top } = prepared(root);
        assert.equal(watch.watch.watchDirectory(directory), 'watched');
        const { pid } = perl(join(top, 'w'), kind.program);
        const changes = await watch.settled();
        const known = everyChangeHasAuthor(watch.watch);
        const onUpperLayer = fileSystem === 'overlay' && watch.watch.sensorMode === 'raw_tracepoint';
        if (kind.onlyInode && (!reportsChangeTimes() || fileSystem === 'overlay')) return;
        checkReported(kind, directory, changes);
        for (const change of changes) {
          assert.ok([pid, undefined].includes(change.author?.pid), `${describeChange(change)}, not ${pid}`);
          if (known && !(onUpperLayer && kind.names)) assert.ok(change.author, describeChange(change));
        }
        assert.deepEqual(watch.losses, []);
      });
    }
  });
}

let tops = 0;

/** A directory with the files of a case; the watched one as a path below the root. */
function prepared(root: string): { readonly directory: string; readonly top: string } {
  tops += 1;
  const top = join(root, `top-${tops}`);
  mkdirSync(top);
  perl(top, prepareKindCase, top);
  return { directory: `/top-${tops}/w`, top };
}

function checkReported(kind: KindCase, directory: string, changes: readonly Change[]): void {
  for (const [name, kinds] of Object.entries(kind.reported)) {
    const change = changeOf(changes, name === '.' ? directory : `${directory}/${name}`);
    assert.ok(
      kinds.every((word) => change.kinds.includes(word)),
      describeChange(change),
    );
  }
}

suite('without a sensor', { skip: process.geteuid?.() !== 0 && 'needs root' }, () => {
  const stack = new DisposableStack();
  let scratch: TemporaryDirectory;
  let watch: TestChangeWatch;
  before(() => {
    scratch = stack.use(new TemporaryDirectory());
    watch = stack.use(new TestChangeWatch(scratch.path, { mode: 'inotify' }));
  });
  after(() => stack.dispose());

  for (const kind of few()) {
    if (kind.onlyInode) continue;
    test(kind.name, async () => {
      assert.equal(watch.watch.mode, 'inotify');
      const { directory, top } = prepared(scratch.path);
      assert.equal(watch.watch.watchDirectory(directory), 'watched');
      perl(join(top, 'w'), kind.program);
      const changes = await watch.settled();
      checkReported(kind, directory, changes);
      for (const change of changes) assert.equal(change.author, undefined);
    });
  }
});

suite('the facts of an author', { skip: sensorSkip }, () => {
  test('are those of the process at that moment', async () => {
    using scratch = new TemporaryDirectory();
    mkdirSync(scratch.at('w'));
    using watch = new TestChangeWatch(scratch.path);
    watch.watch.watchDirectory('/w');
    const startedMs = Date.now();
    const child = perl(scratch.at('w'), `open(my $h, '>', 'new') or die; print $h 'x'`, 'one', 'two words');
    const { author, atMs, others } = changeOf(await watch.settled(), '/w/new');
    if (!everyChangeHasAuthor(watch.watch) && author === undefined) return;
    assert.ok(author);
    assert.equal(author.pid, child.pid);
    assert.equal(author.executable, realpathSync('/usr/bin/perl'));
    assert.match(author.arguments, /one two words$/);
    assert.equal(author.cwd, realpathSync(scratch.at('w')));
    assert.equal(author.ppid, process.pid);
    assert.equal(author.parentExecutable, realpathSync(process.execPath));
    assert.deepEqual([author.uid, author.gid, author.own, others], [0, 0, false, 0]);
    assert.ok(atMs >= startedMs - 1 && atMs <= Date.now() + 1, String(atMs));
  });
});
