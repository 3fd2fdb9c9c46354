// The cost of the way to deep directories, and that it never leaves the tree.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { test } from 'node:test';

import { scaled } from '../../../lib/testing/depth.fixture.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';

import { fileCalls } from '../../../lib/ebpf/ffi.ts';
import { Directories, type Directory, type OpenPlace } from './directories.ts';
import { InlineWalk } from './inline-walk.ts';
import { confOf, Scene } from './scan.fixture.ts';
import { batchOf } from './scan-run.ts';
import { ReadRate } from './shared-state.ts';
import { plainConf, type Task } from './tasks.ts';

/** The contents of a directory besides the next one, `a`: 'a.b' comes before its contents, 'z' after them. */
type Level = readonly ('a.b' | 'z' | 'z/')[];

/** Returns the paths of all that is there, sorted. */
function makeDeep(root: string, levels: readonly Level[]): string[] {
  const before = process.cwd();
  const paths = ['/'];
  let above = '';
  try {
    process.chdir(root);
    for (const beside of levels) {
      for (const name of beside) {
        if (name === 'z/') {
          fs.mkdirSync('z');
          fs.writeFileSync('z/file', '');
          paths.push(`${above}/z`, `${above}/z/file`);
        } else {
          fs.writeFileSync(name, '');
          paths.push(`${above}/${name}`);
        }
      }
      fs.mkdirSync('a');
      process.chdir('a');
      above += '/a';
      paths.push(above);
    }
  } finally {
    process.chdir(before);
  }
  return paths.toSorted();
}

/** All pieces one after the other, and how often a name was opened. */
function walked(root: string): { readonly paths: string[]; readonly opened: number } {
  const walk = new InlineWalk(
    { root: { directory: root, prefix: '' }, rate: new ReadRate(Infinity) },
    plainConf(confOf('/ p+ftype')),
  );
  const calls = fileCalls as { openat: (fd: number, name: number, flags: number, mode: number) => number };
  const { openat } = calls;
  const paths: string[] = [];
  let opened = 0;
  calls.openat = (...call) => {
    opened++;
    return openat(...call);
  };
  try {
    const left: Task[] = [{ directory: '' }];
    for (let task = left.shift(); task !== undefined; task = left.shift()) {
      const { parts, rest } = walk.run(task);
      for (const part of parts.flat()) for (const { path } of batchOf(part)) paths.push(path);
      left.unshift(...rest);
    }
  } finally {
    calls.openat = openat;
  }
  return { paths, opened };
}

for (const beside of [['z'], ['a.b'], ['a.b', 'z'], ['a.b', 'z/']] satisfies Level[]) {
  test(`each directory of a deep tree is opened a few times, beside: ${beside.join(' ')}`, async () => {
    const depth = scaled(600, 100);
    await using scene = new Scene();
    const made = makeDeep(
      scene.root,
      Array.from({ length: depth }, () => beside),
    );
    try {
      const { paths, opened } = walked(scene.root);
      assert.deepEqual(paths, made);
      assert.ok(opened < 20 * depth, `${opened / depth} for each`);
    } finally {
      // Node.js removes no such tree.
      execFileSync('rm', ['-rf', scene.path('a')]);
    }
  });
}

test('a deep tree is walked in the order of its paths, wherever a walk stops', () => {
  const level = fc.oneof(
    { weight: 3, arbitrary: fc.constant<Level>([]) },
    fc.uniqueArray(fc.constantFrom('a.b' as const, 'z' as const), { maxLength: 2 }),
    fc.constant<Level>(['z/']),
  );
  fc.assert(
    fc.property(fc.array(level, { minLength: 30, maxLength: 400, size: 'max' }), (levels) => {
      const root = fs.mkdtempSync('/tmp/rampart-scan-');
      try {
        const made = makeDeep(root, levels);
        assert.deepEqual(walked(root).paths, made);
      } finally {
        execFileSync('rm', ['-rf', root]);
      }
    }),
    { numRuns: 8 },
  );
});

test('a directory moved out of the tree while open does not lead out of it', async () => {
  await using scene = new Scene();
  await using outside = new Scene();
  fs.mkdirSync(scene.path('a/b/c'), { recursive: true });
  const directories = new Directories(scene.root);
  const opened = (path: string, near?: OpenPlace, identity?: Directory): Directory => {
    const directory = directories.openPath(path, near, identity);
    assert.ok(typeof directory !== 'number', `${path}: ${String(directory)}`);
    return directory;
  };
  const inodeOf = (path: string): bigint => fs.lstatSync(path, { bigint: true }).ino;
  const [above, below] = [opened('/a/b'), opened('/a/b/c')];
  const near = { path: '/a/b/c', directory: below };
  const before = fs.readdirSync('/proc/self/fd').length;

  const same = opened('/a/b', near, above);
  assert.equal(same.inode, above.inode);
  directories.close(same);

  fs.renameSync(scene.path('a/b/c'), outside.path('c'));
  const byPath = opened('/a/b', near, above);
  assert.equal(byPath.inode, inodeOf(scene.path('a/b')));
  directories.close(byPath);

  fs.rmdirSync(scene.path('a/b'));
  fs.symlinkSync(outside.root, scene.path('a/b'));
  assert.ok(Number(directories.openPath('/a/b', near, above)) < 0);
  assert.equal(fs.readdirSync('/proc/self/fd').length, before);
  for (const one of [above, below]) directories.close(one);
});
