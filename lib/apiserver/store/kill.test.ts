// kill -9 under load: what was acknowledged is there afterwards, what was deleted stays so, versions only grow.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';

import { assertReached, scaled } from '../../testing/depth.fixture.ts';
import { openStore } from './store.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';

const KILLS = scaled(210, 15);
/** Directories at the same time: most of a round is the start of a process. */
const LANES = ['thread', 'thread', 'inline'] as const;
const WRITERS = 20;

const fixture = join(import.meta.dirname, 'kill.fixture.ts');

/** The expected content of one directory, from the output of the processes that wrote there. */
class Lane {
  readonly writer: (typeof LANES)[number];
  readonly done = Array.from({ length: WRITERS }, () => 0);
  version = 0n;
  /** Inode of the database. */
  inode: number | undefined;
  acknowledged = 0;
  /** Operations that were done, but whose acknowledgement was cut off by the kill. */
  doneUnheard = 0;
  killsWhileWriting = 0;

  constructor(writer: Lane['writer']) {
    this.writer = writer;
  }

  read(lines: readonly string[]): void {
    let wrote = false;
    for (const line of lines) {
      const [what, ...words] = line.split(' ');
      if (what === 'open') {
        const version = BigInt(words[0] ?? '');
        assert.ok(version >= this.version, `opened at version ${version} after ${this.version}`);
        this.version = version;
        continue;
      }
      const writer = Number(words[0]);
      const known = this.done[writer] ?? NaN;
      const done = Number(words[1]);
      if (what === 'found') {
        assert.ok(done === known || done === known + 1, `writer ${writer} had done ${known}: ${line}`);
        this.doneUnheard += done - known;
      } else {
        assert.equal(what, 'done', line);
        assert.equal(done, known + 1);
        const version = BigInt(words[2] ?? '');
        assert.ok(version > this.version, `version ${version} after ${this.version}`);
        this.version = version;
        this.acknowledged++;
        wrote = true;
      }
      this.done[writer] = done;
    }
    if (wrote) this.killsWhileWriting++;
  }
}

/** Starts a writing process and kills it, `afterMs` after its first write, or after its start. */
async function killed(
  path: string,
  lane: Lane,
  afterMs: number,
  atStart: boolean,
): Promise<{ readonly lines: readonly string[]; readonly ended: number | null }> {
  const child = spawn(process.execPath, [fixture, lane.writer, path, ...lane.done.map(String)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  let ended: number | null = null;
  child.stdout.setEncoding('utf8').on('data', (part: string) => (output += part));
  const closed = once(child, 'close');
  try {
    const writes = (): boolean => output.includes('done') || child.exitCode !== null;
    if (!atStart) while (!writes()) await Promise.race([once(child.stdout, 'data'), closed]);
    await setTimeout(afterMs);
    ended = child.exitCode;
  } finally {
    child.kill('SIGKILL');
    await closed;
  }
  // The last line may be cut off: then it was not acknowledged.
  return { lines: output.split('\n').slice(0, -1), ended };
}

test(`${KILLS} times kill -9 while writing`, async (t) => {
  using directory = new TemporaryDirectory();
  // Most of a round is the start of the process, and one that is killed leaves nothing in the cache: this one does.
  process.env['NODE_COMPILE_CACHE'] = directory.at('compiled');
  assert.equal(spawnSync(process.execPath, [fixture, 'thread', directory.at('first')]).status, 0);
  const lanes = LANES.map((writer) => new Lane(writer));
  const run = async (lane: Lane, index: number): Promise<void> => {
    const path = directory.at(`db${index}`);
    // The last process finds what the last kill has left.
    for (let kill = 0; kill <= KILLS / LANES.length; kill++) {
      // Some are killed while they open what the one before has left.
      const atStart = kill % 10 === 4;
      const { lines, ended } = await killed(path, lane, Math.random() * (atStart ? 120 : 30), atStart);
      // A directory that is emptied while this runs (by `rm -rf /tmp/rampart-*`) looks like a store that has
      // lost everything. It is not: the file is another one then.
      const inode = statSync(path, { throwIfNoEntry: false })?.ino;
      lane.inode ??= inode;
      assert.equal(inode, lane.inode, `${path} was removed or replaced, but not by the store`);
      lane.read(lines);
      assert.equal(ended, null, 'it has ended by itself');
    }
  };
  await Promise.all(lanes.map(run));
  for (const [index, lane] of lanes.entries()) {
    await using store = openStore({ path: directory.at(`db${index}`) });
    assert.ok(store.version >= lane.version);
    assert.ok(store.list('pods').items.every(({ name }) => /^w\d+$/.test(name)));
  }
  const sum = (pick: (lane: Lane) => number): number => lanes.reduce((total, lane) => total + pick(lane), 0);
  const whileWriting = sum((lane) => lane.killsWhileWriting);
  assertReached(whileWriting >= KILLS * 0.85, `only ${whileWriting} of ${KILLS} were writing`);
  t.diagnostic(
    `${whileWriting} kills while writing, ${sum((lane) => lane.acknowledged)} acknowledged writes, none lost; ` +
      `${sum((lane) => lane.doneUnheard)} done whose acknowledgement the kill cut off`,
  );
});
