/** The files of `rampart integrity check`: where its baseline and its key are written, and where not. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { test } from 'node:test';

import { Fd, inotifyAddWatch, inotifyInit, openFlags, readAvailable } from '../../../lib/ebpf/libc.ts';
import { asNobody, NOBODY, publicPath } from '../../../lib/testing/public-checkout.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { rampart, Scene, start } from './integrity.fixture.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';

const IN_CLOSE_NOWRITE = 0x10;
const IN_OPEN = 0x20;
const mustBeRoot = process.getuid?.() === 0 ? false : 'needs root';
const protection = '/proc/sys/fs/protected_hardlinks';
const cannotRefuseLinks =
  mustBeRoot || (fs.readFileSync(protection, 'utf8').trim() === '1' ? false : `needs ${protection}`);

function small(scene: Scene): void {
  scene.write('aide.conf', `${scene.tree} p+sha256\n`);
  scene.write('tree/a', 'a\n');
}

/** How often a file was opened, by inotify(7). */
class Opens implements Disposable {
  readonly #inotify = inotifyInit();
  readonly #events = Buffer.alloc(4096);
  #count = 0;

  constructor(path: string) {
    using file = new Fd(fs.openSync(path, openFlags.PATH));
    // With what is between two opens: the kernel makes one event of two that are alike.
    inotifyAddWatch(this.#inotify, file, IN_OPEN | IN_CLOSE_NOWRITE, path);
  }

  count(): number {
    const length = readAvailable(this.#inotify, this.#events);
    for (let at = 0; at < length; at += 16 + this.#events.readUInt32LE(at + 12))
      if ((this.#events.readUInt32LE(at + 4) & IN_OPEN) !== 0) this.#count++;
    return this.#count;
  }

  [Symbol.dispose](): void {
    this.#inotify[Symbol.dispose]();
  }
}

test('no baseline takes the place of a device, a FIFO or a directory', { skip: mustBeRoot }, async () => {
  using scene = new Scene();
  small(scene);
  const db = scene.at('db');
  const makers = {
    'a device': () => execFileSync('mknod', [db, 'c', '1', '3']),
    'a FIFO': () => execFileSync('mkfifo', [db]),
    'a directory': () => fs.mkdirSync(db),
    'a link to a directory': () => fs.symlinkSync('tree', db),
  };
  for (const [what, make] of Object.entries(makers)) {
    make();
    const { ino } = fs.lstatSync(db);
    const { code, stderr } = await scene.check('--init');
    assert.equal(code, 15, `${what}: ${stderr}`);
    assert.match(
      stderr,
      /^rampart: cannot write the baseline .*db: it is not a regular file\. Give a file with --db$/m,
    );
    assert.equal(fs.lstatSync(db).ino, ino, what);
    assert.deepEqual(fs.readdirSync(scene.path).toSorted(), ['aide.conf', 'db', 'tree']);
    fs.rmSync(db, { recursive: true });
  }
});

test('a baseline that is a link is written where the link leads', async () => {
  using scene = new Scene();
  small(scene);
  fs.mkdirSync(scene.at('disk'));
  fs.symlinkSync('disk/link', scene.at('db'));
  fs.symlinkSync('baseline', scene.at('disk/link'));
  assert.equal((await scene.check('--init')).code, 0);
  scene.write('tree/a', 'other\n');
  assert.equal((await scene.check('--update')).code, 4);
  assert.equal((await scene.check()).code, 0);
  assert.deepEqual(fs.readdirSync(scene.at('disk')).toSorted(), ['baseline', 'baseline.old', 'link']);
  assert.equal(fs.readlinkSync(scene.at('db')), 'disk/link');
  fs.rmSync(scene.at('disk/link'));
  fs.symlinkSync('../db', scene.at('disk/link'));
  const { code, stderr } = await scene.check('--update');
  assert.equal(code, 14);
  assert.match(stderr, /^rampart: cannot write .*ELOOP/m);
});

test(
  'a disk that is full leaves no half key, and the next run makes a whole one',
  { skip: mustBeRoot },
  async () => {
    using scene = new Scene();
    small(scene);
    fs.mkdirSync(scene.at('disk'));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16k', 'none', scene.at('disk')]);
    try {
      scene.write('disk/full', Buffer.alloc(16 * 1024));
      const init = ['--db', scene.at('disk/db'), '--init'];
      const { code, stderr } = await scene.check(...init);
      assert.equal(code, 14);
      assert.match(stderr, /^rampart: cannot write .*db\.key: ENOSPC.*\. Nothing was changed$/m);
      assert.deepEqual(fs.readdirSync(scene.at('disk')), ['full']);
      fs.rmSync(scene.at('disk/full'));
      assert.equal((await scene.check(...init)).code, 0);
    } finally {
      execFileSync('umount', [scene.at('disk')]);
    }
  },
);

deepTest(
  'where a baseline can have no second name, a copy of the one before stays beside it',
  { skip: cannotRefuseLinks },
  async () => {
    using scene = new Scene();
    small(scene);
    assert.equal((await scene.check('--init')).code, 0);
    const before = fs.readFileSync(scene.at('db'));
    // link(2) refuses what another user owns (proc_sys_fs(5), protected_hardlinks), with the error of FAT.
    for (const path of [scene.path, scene.at('db.key')]) fs.chownSync(path, NOBODY, NOBODY);
    fs.chmodSync(scene.at('db'), 0o644);
    scene.write('tree/a', 'other\n');
    const files = ['-c', scene.at('aide.conf'), '--db', scene.at('db')];
    const update = [...asNobody, publicPath(rampart), 'integrity', 'check', ...files, '--update'];
    const { code, stderr } = await start('env', update).ended;
    assert.equal(code, 4, stderr);
    assert.deepEqual(fs.readFileSync(scene.at('db.old')), before);
    assert.equal((await scene.check()).code, 0);
    assert.deepEqual(fs.readdirSync(scene.path).toSorted(), ['aide.conf', 'db', 'db.key', 'db.old', 'tree']);
  },
);

deepTest('an update that is stopped while it compares accepts nothing', async () => {
  using scene = new Scene();
  // A file that has grown and got another name is read once more, when everything was seen.
  scene.write('aide.conf', `${scene.tree} p+s+i+I+growing+sha256\n`);
  scene.write('tree/log', Buffer.alloc(1 << 20, 'x'));
  assert.equal((await scene.check('--init')).code, 0);
  const before = fs.readFileSync(scene.at('db'));
  fs.renameSync(scene.at('tree/log'), scene.at('tree/log.1'));
  fs.appendFileSync(scene.at('tree/log.1'), 'x');
  using opens = new Opens(scene.at('tree/log.1'));
  const { child, ended } = scene.start('--update', '--read-rate', '256k');
  await until('it is read once more', () => opens.count() === 2);
  child.kill('SIGINT');
  assert.match((await ended).stderr, /the baseline is unchanged/);
  assert.deepEqual(fs.readFileSync(scene.at('db')), before);
});

test('reports a baseline of another root before differences', async () => {
  using scene = new Scene();
  scene.write('aide.conf', '/ p+sha256\n');
  scene.write('tree/a', 'a\n');
  scene.write('other/b', 'b\n');
  const [tree, other] = [scene.tree, scene.at('other')].map((root) => ['--root', root]) as [
    string[],
    string[],
  ];
  assert.equal((await scene.check('--init', ...tree)).code, 0);
  const warning = `warning: the baseline was created from the files under ${scene.tree}, not under ${scene.at('other')}`;
  const { code, stderr } = await scene.check(...other);
  assert.equal(code, 3);
  assert.ok(stderr.includes(warning), stderr);
  assert.doesNotMatch((await scene.check(...tree)).stderr, /warning/);
});

test('leftovers of a process with the same ID do not stop an update', async () => {
  using scene = new Scene();
  small(scene);
  assert.equal((await scene.check('--init')).code, 0);
  scene.write('tree/a', 'other\n');
  // In a container every process may have the number of one that was killed.
  const script = 'echo left > "$2.old.new.$$"; exec "$1" integrity check -c "$3" --db "$2" --update';
  const paths = [rampart, scene.at('db'), scene.at('aide.conf')];
  const { code, stderr } = await start('/bin/sh', ['-c', script, 'sh', ...paths]).ended;
  assert.equal(code, 4, stderr);
  assert.equal((await scene.check()).code, 0);
  const names = fs.readdirSync(scene.path).filter((name) => name.startsWith('db'));
  assert.deepEqual(names.toSorted(), ['db', 'db.key', 'db.old']);
});
