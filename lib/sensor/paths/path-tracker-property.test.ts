import assert from 'node:assert/strict';
import {
  closeSync,
  constants,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  realpathSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';

import * as fc from '../../testing/fast-check.fixture.ts';
import { Tracking } from './path-tracker.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';

/** Few names, so that operations meet: every path is one to three of them. */
const anyPath = fc
  .array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 3 })
  .map((n) => n.join('/'));
const anyTarget = fc
  .tuple(fc.constantFrom('/', '', '../', '../../', './'), anyPath)
  .map(([start, path]) => `${start}${path}`);

type Operation = (at: (path: string) => string) => void;

/** An operation on the files of a directory, shown by its words when a property fails. */
function operation<T extends readonly string[]>(
  word: string,
  args: fc.Arbitrary<T>,
  run: (at: (path: string) => string, args: T) => void,
): fc.Arbitrary<Operation> {
  return args.map((values) =>
    Object.assign((at: (path: string) => string) => run(at, values), {
      toString: () => [word, ...values].join(' '),
    }),
  );
}

/** Links lead to a, b and c of the machine itself, too: no operation follows one out of the directory. */
function within(root: string, path: string): string {
  const parts = path.split('/');
  for (let many = 1; many < parts.length; many++) {
    const above = join(root, ...parts.slice(0, many));
    if (lstatSync(above, { throwIfNoEntry: false }) === undefined) break;
    // Throws for a dangling link, whose target mkdir -p would make.
    const real = realpathSync(above);
    if (real !== root && !real.startsWith(`${root}/`)) throw new Error(real);
  }
  return join(root, path);
}

const writing = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
const one = fc.tuple(anyPath);
const two = fc.tuple(anyPath, anyPath);
const anyOperation = fc.oneof(
  operation('mkdir', one, (at, [path]) => mkdirSync(at(path))),
  operation('mkdir -p', one, (at, [path]) => void mkdirSync(at(path), { recursive: true })),
  operation('touch', one, (at, [path]) => closeSync(openSync(at(path), writing))),
  operation('rm', one, (at, [path]) => unlinkSync(at(path))),
  operation('rmdir', one, (at, [path]) => rmdirSync(at(path))),
  operation('mv', two, (at, [from, to]) => renameSync(at(from), at(to))),
  operation('ln', two, (at, [from, to]) => linkSync(at(from), at(to))),
  operation('ln -s', fc.tuple(anyTarget, anyPath), (at, [target, path]) => symlinkSync(target, at(path))),
);

const tracked = ['/a', '/a/b', '/a/b/c', '/b/c', 'c', '/c/a/b/', '/b/../a/c', '/c/a/..', '/a/b/c/d'];

test('after any operations a tracked path has the state that a fresh look gives', async () => {
  const batches = fc.array(fc.tuple(fc.array(anyOperation, { maxLength: 12 }), fc.boolean()), {
    maxLength: 8,
  });
  await fc.assert(
    fc.asyncProperty(batches, async (sequence) => {
      using root = new TemporaryDirectory();
      using tracking = new Tracking(root.path, tracked);
      for (const [index, [operations, settle]] of sequence.entries()) {
        for (const run of operations) {
          try {
            run((path) => within(root.path, path));
          } catch {
            // Most operations make no sense at most moments.
          }
        }
        await nextTurn();
        if (!settle) continue;
        // inotify keeps the order: when this file is seen, so is all before it.
        const sentinel = `/sentinel-${index}`;
        tracking.tracker.add({ path: sentinel, root: root.path });
        writeFileSync(root.at(sentinel), '');
        await tracking.untilWord(sentinel, 'file');
        await nextTurn();
        using fresh = new Tracking(root.path, tracked);
        for (const path of tracked) assert.deepEqual(tracking.states.get(path), fresh.states.get(path), path);
        assert.equal(tracking.tracker.stats.retrying, 0);
      }
      assert.deepEqual(tracking.problems, []);
      for (const path of tracked) assert.ok(tracking.tracker.remove({ path, root: root.path }));
      const sentinels = sequence.flatMap(([, settle], index) => (settle ? [`/sentinel-${index}`] : []));
      for (const path of sentinels) tracking.tracker.remove({ path, root: root.path });
      assert.equal(tracking.tracker.stats.watches, 0);
    }),
    { numRuns: 200 },
  );
});
