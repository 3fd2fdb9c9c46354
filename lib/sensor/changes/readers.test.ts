// Who only reads changes nothing, also where reading brings a file's times up to date.
import assert from 'node:assert/strict';
import { closeSync, mkdirSync, openSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { libc, viewMemory } from '../../ebpf/ffi.ts';
import { until } from '../../testing/until.fixture.ts';
import { fileSystemSkip, overlayOf, tmpfs } from '../file-systems.fixture.ts';
import { FuseMount, fuseSkip } from '../fuse.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { sensorSkip } from '../sensor.fixture.ts';
import { changeOf, changeTestMode, describeChange, runChild } from './change-watch.fixture.ts';
import type { Change } from './change.ts';
import { ChangeWatch } from './change-watch.ts';
import { deepTest } from '../../testing/depth.fixture.ts';

suite('whoever reads', { skip: sensorSkip }, () => {
  deepTest(
    'is not reported on overlay, where a reader may be the first to see a write to a mapping',
    { skip: fileSystemSkip('overlay') },
    async () => {
      using scratch = tmpfs();
      for (const name of ['lower', 'upper', 'work']) mkdirSync(scratch.at(name));
      writeFileSync(scratch.at('lower', 'file'), Buffer.alloc(4096));
      using overlay = overlayOf(scratch.at('lower'), scratch.at('upper'), scratch.at('work'));
      using reported = new Reported(overlay.path);
      const fd = openSync(overlay.at('file'), 'r+');
      const [readWrite, shared] = [3, 1];
      const address = BigInt(libc.mmap(null, 4096, readWrite, shared, fd, 0));
      try {
        await reported.rest();
        // The change time of the file below gets another value.
        const before = statSync(scratch.at('upper', 'file')).ctimeMs;
        await new Promise((resolve) => setTimeout(resolve, 20));
        new Uint8Array(viewMemory(address, 4096))[0] = 1;
        assert.notEqual(statSync(scratch.at('upper', 'file')).ctimeMs, before);
        reported.changes.length = 0;
        runChild('/', 'cat', [overlay.at('file')]);
        await reported.rest();
        assert.deepEqual(reported.changes.map(describeChange), []);
      } finally {
        libc.munmap(address, 4096);
        closeSync(fd);
      }
    },
  );

  deepTest(
    'through a symbolic link is not reported as its author, though its access time changes',
    async () => {
      using scratch = new TemporaryDirectory();
      mkdirSync(scratch.at('directory'));
      writeFileSync(scratch.at('directory', 'file'), 'x');
      symlinkSync('directory', scratch.at('link'));
      // Long enough for both.
      using reported = new Reported(scratch.path, 1500);
      const touched = runChild(scratch.path, 'touch', ['-h', 'link']);
      runChild(scratch.path, 'cat', ['link/file']);
      await reported.rest();
      const { author, others } = await until('/link', () => changeOf(reported.changes, '/link'));
      if (author !== undefined) assert.deepEqual([author.pid, others], [touched.pid, 0]);
    },
  );

  test('or closes a file that another process wrote is not reported as its writer', async () => {
    using scratch = new TemporaryDirectory();
    writeFileSync(scratch.at('file'), 'x');
    using reported = new Reported(scratch.path, 1500);
    const script = 'exec 3>> file; dd if=/dev/zero bs=1 count=1 status=none >&3; sleep 0.1; exec 3>&-';
    runChild(scratch.path, 'sh', ['-c', script]);
    await reported.rest();
    const { author, others } = await until('/file', () => changeOf(reported.changes, '/file'));
    if (author !== undefined) assert.match(author.executable, /\/(dd|busybox)$/);
    assert.equal(others, 0);
  });

  deepTest('is not reported where another process decides the times', { skip: fuseSkip }, async () => {
    using mount = await FuseMount.mount();
    using reported = new Reported(mount.path);
    // Not by this process's own thread: who makes the file system up is asked.
    assert.equal((await lstat(join(mount.path, 'file'))).size, 5);
    runChild('/', 'stat', [join(mount.path, 'file')]);
    await reported.rest();
    assert.deepEqual(reported.changes.map(describeChange), []);
  });
});

/** The reports for a directory in which nothing can be written. */
class Reported implements Disposable {
  readonly changes: Change[] = [];
  readonly #watch: ChangeWatch;
  readonly #settleMs: number;

  constructor(root: string, settleMs = 10) {
    this.#settleMs = settleMs;
    const problems: unknown[] = [];
    this.#watch = new ChangeWatch({
      ...{ root, mode: changeTestMode(), settleMs, paceMs: 0 },
      onChange: (change) => this.changes.push(change),
      onLost: (loss) => problems.push(loss),
      onProblem: (problem) => problems.push(problem),
    });
    assert.equal(this.#watch.watchDirectory('/'), 'watched');
    assert.deepEqual(problems, []);
  }

  /** Waits until everything seen is reported. */
  async rest(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, this.#settleMs + 300));
  }

  [Symbol.dispose](): void {
    this.#watch[Symbol.dispose]();
  }
}
