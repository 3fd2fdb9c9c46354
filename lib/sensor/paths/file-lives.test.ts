import assert from 'node:assert/strict';
import { closeSync, linkSync, openSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { AT_FDCWD, openat2, openFlags } from '../../ebpf/libc.ts';
import type { RampartError } from '../../errors/errors.ts';
import type { FileIdentity } from '../access.ts';
import { FileLives } from './file-lives.ts';
import { anonymousFds, identifyByStat } from './path-tracker.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { patience } from '../../testing/until.fixture.ts';

const me = { name: 'me' };
const nobody = { name: '' };

/** Files followed by `me`, with their reports. */
class Followed extends TemporaryDirectory {
  readonly ended: string[] = [];
  readonly problems: RampartError[] = [];
  readonly lives: FileLives<{ readonly name: string }>;

  constructor(budget?: number) {
    super();
    this.lives = new FileLives({
      onEnd: ({ name }, { inode }) => this.ended.push(`${name} ${inode}`),
      onProblem: (problem) => this.problems.push(problem),
      ...(budget !== undefined && { budget }),
    });
  }

  follow(name: string, holder = me): FileIdentity {
    using fd = openat2(AT_FDCWD, this.at(name), { flags: openFlags.PATH });
    const identity = identifyByStat(fd.number);
    this.lives.follow(fd.number, identity);
    if (holder !== nobody) this.lives.hold(identity, holder);
    return identity;
  }

  create(name: string): string {
    writeFileSync(this.at(name), name);
    return this.at(name);
  }

  /** The reports, once the kernel has sent everything. */
  async reported(): Promise<string[]> {
    this.lives.update();
    await turn();
    await turn();
    return this.ended.splice(0);
  }

  override [Symbol.dispose](): void {
    this.lives[Symbol.dispose]();
    super[Symbol.dispose]();
  }
}

test('a file lives until its last name is gone and no process has it open', async () => {
  using followed = new Followed();
  const path = followed.create('a');
  const file = followed.follow('a');
  renameSync(path, followed.at('b'));
  linkSync(followed.at('b'), followed.at('c'));
  renameSync(followed.create('new'), followed.at('b'));
  assert.deepEqual(await followed.reported(), []);
  assert.ok(followed.lives.has(file));
  const open = openSync(followed.at('c'), 'r');
  rmSync(followed.at('c'));
  assert.deepEqual(await followed.reported(), []);
  closeSync(open);
  assert.deepEqual(await followed.reported(), [`me ${file.inode}`]);
  assert.ok(!followed.lives.has(file));
  assert.equal(followed.lives.size, 0);
});

test('the end of a file is reported to each holder, without a request, and not within a call', async () => {
  using followed = new Followed();
  const path = followed.create('a');
  const { inode } = followed.follow('a');
  followed.follow('a', { name: 'you' });
  assert.equal(followed.lives.size, 1);
  rmSync(path);
  followed.lives.update();
  assert.deepEqual(followed.ended, []);
  const signal = patience();
  while (followed.ended.length < 2) {
    signal.throwIfAborted();
    await turn();
  }
  assert.deepEqual(followed.ended, [`me ${inode}`, `you ${inode}`]);
});

test('a file without a holder is forgotten, and costs nothing', async () => {
  using followed = new Followed();
  const path = followed.create('a');
  const file = followed.follow('a', nobody);
  assert.equal(followed.lives.size, 1);
  followed.lives.sweep();
  assert.equal(followed.lives.size, 0);
  followed.follow('a');
  followed.lives.sweep();
  assert.equal(followed.lives.size, 1);
  followed.lives.release(file, me);
  assert.equal(followed.lives.size, 0);
  rmSync(path);
  assert.deepEqual(await followed.reported(), []);
});

test('more than the budget are not followed, until there is room', () => {
  using followed = new Followed(1);
  followed.create('a');
  followed.create('b');
  const a = followed.follow('a');
  const b = followed.follow('b');
  assert.deepEqual([followed.lives.has(a), followed.lives.has(b)], [true, false]);
  followed.create('c');
  followed.follow('c');
  assert.deepEqual(
    followed.problems.map(({ code }) => code),
    ['RAMPART_LIMIT'],
  );
  followed.lives.release(a, me);
  followed.follow('b');
  assert.ok(followed.lives.has(b));
});

test('the space of a deleted file is not held, and the descriptor goes with the object', () => {
  const before = anonymousFds('inotify');
  {
    using followed = new Followed();
    const path = followed.create('a');
    followed.follow('a');
    assert.equal(anonymousFds('inotify'), before + 1);
    assert.equal(statSync(path).nlink, 1);
  }
  assert.equal(anonymousFds('inotify'), before);
});

test('events that the kernel had no room for: its list of the watches says what is over', async () => {
  using followed = new Followed();
  const names = Array.from({ length: 17_000 }, (_, number) => `f${number}`);
  for (const name of names) followed.create(name);
  for (const name of names) followed.follow(name);
  followed.create('kept');
  const kept = followed.follow('kept');
  for (const name of names) rmSync(followed.at(name));
  // fs.inotify.max_queued_events is 16,384 by default, and each deletion is two.
  assert.equal((await followed.reported()).length, names.length);
  assert.ok(followed.lives.has(kept));
  assert.equal(followed.lives.size, 1);
  assert.deepEqual(followed.problems, []);
});
