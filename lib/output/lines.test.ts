import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, type Writable } from 'node:stream';
import { suite, test, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';

import { RampartError } from '../errors/errors.ts';
import { LineWriter, type LineWriterEnd } from './lines.ts';

const timeout = 60_000;

function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-lines-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Starts a program that is ended with the test. */
function start(
  t: TestContext,
  command: string,
  args: readonly string[],
  input: 'ignore' | 'pipe' | number = 'ignore',
): ChildProcess {
  const child = spawn(command, args, { stdio: [input, 'pipe', 'pipe'] });
  t.after(() => {
    if (child.exitCode === null) child.kill('SIGKILL');
  });
  return child;
}

async function exited(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  return child.exitCode;
}

/** Turns of the event loop while something else is stuck. */
async function turns(count: number): Promise<number> {
  let seen = 0;
  while (seen < count) {
    await nextTurn();
    seen++;
  }
  return seen;
}

interface Backend {
  readonly target: number | Writable;
  /** Lets the stopped reader go on. */
  resume(): void;
  /** Ends the output; all that the reader got. */
  readAll(): Promise<string>;
}

/** A pipe whose reader does nothing until a file appears, then copies all to another file. */
function stoppedPipe(t: TestContext): Backend {
  const directory = temporaryDirectory(t);
  const [fifo, go, copy] = [join(directory, 'fifo'), join(directory, 'go'), join(directory, 'copy')];
  execFileSync('mkfifo', [fifo]);
  const script = `exec < "$1"; while [ ! -e "$2" ]; do sleep 0.02; done; cat > "$3"`;
  const reader = start(t, 'sh', ['-c', script, 'sh', fifo, go, copy]);
  const fd = openSync(fifo, 'w');
  let open = true;
  const close = (): void => {
    if (open) closeSync(fd);
    open = false;
  };
  t.after(close);
  return {
    target: fd,
    resume: () => writeFileSync(go, ''),
    readAll: async () => {
      close();
      await exited(reader);
      return readFileSync(copy, 'utf8');
    },
  };
}

/** The standard input of a child (a socket, as Node makes them), as a stream. */
function stoppedStream(t: TestContext): Backend {
  const directory = temporaryDirectory(t);
  const [go, copy] = [join(directory, 'go'), join(directory, 'copy')];
  const script = `while [ ! -e "$1" ]; do sleep 0.02; done; cat > "$2"`;
  const reader = start(t, 'sh', ['-c', script, 'sh', go, copy], 'pipe');
  const { stdin } = reader;
  assert.ok(stdin);
  return {
    target: stdin,
    resume: () => writeFileSync(go, ''),
    readAll: async () => {
      stdin.end();
      await exited(reader);
      return readFileSync(copy, 'utf8');
    },
  };
}

suite('LineWriter, to a reader that has stopped', { timeout }, () => {
  for (const [name, backend] of [
    ['a pipe', stoppedPipe],
    ['a stream', stoppedStream],
  ] as const) {
    test(`${name}: nothing blocks, what does not fit is dropped whole and counted, the rest arrives in order`, async (t) => {
      const { target, resume, readAll } = backend(t);
      const writer = new LineWriter(target, { spoolBytes: 1_000_000, lingerMs: 30_000 });
      const taken: string[] = [];
      const total = 20_000;
      for (let i = 0; i < total; i++) {
        const line = `${i} ${'grün 漢字 '.repeat(i % 20)}`;
        if (writer.write(line)) taken.push(line);
        if (i % 1000 === 0) await nextTurn();
      }
      // The reader has read nothing: the loop turns all the same.
      assert.equal(await turns(100), 100);
      assert.ok(writer.dropped > 0 && taken.length > 0);
      assert.equal(writer.dropped, total - taken.length);
      assert.ok(writer.written < taken.length, 'the reader was stopped');
      assert.ok(writer.spooledBytes <= 1_000_000 + 16 * 1024);

      resume();
      await writer.flush();
      await writer[Symbol.asyncDispose]();
      const read = await readAll();
      // Not assert.equal: a difference of megabytes is unreadable.
      assert.ok(read === taken.map((line) => `${line}\n`).join(''), 'what was read is what was taken');
      assert.equal(writer.written, taken.length);
      assert.equal(writer.dropped, total - taken.length);
      assert.equal(writer.spooledBytes, 0);
    });
  }

  test('disposing waits no longer than lingerMs, and counts what is left as dropped', async (t) => {
    const { target } = stoppedPipe(t);
    const writer = new LineWriter(target, { lingerMs: 50 });
    for (let i = 0; i < 10_000; i++) assert.ok(writer.write('x'.repeat(99)));
    await writer[Symbol.asyncDispose]();
    assert.deepEqual(await writer.closed, { reason: 'disposed' });
    assert.equal(writer.written + writer.dropped, 10_000);
    assert.ok(writer.dropped > 0);
    assert.equal(writer.write('late'), false);
  });

  test('flush ends with its signal', async (t) => {
    const { target } = stoppedPipe(t);
    await using writer = new LineWriter(target, { lingerMs: 0 });
    for (let i = 0; i < 10_000; i++) writer.write('x'.repeat(99));
    const stop = new AbortController();
    const flushed = writer.flush(stop.signal);
    stop.abort(new Error('enough'));
    await assert.rejects(flushed, /enough/);
    await assert.rejects(writer.flush(AbortSignal.abort()), { name: 'AbortError' });
  });

  test("the caller's descriptor stays blocking and open", async (t) => {
    const { target: fd } = stoppedPipe(t);
    const flagsBefore = readFileSync(`/proc/self/fdinfo/${String(fd)}`, 'utf8');
    {
      await using writer = new LineWriter(fd, { lingerMs: 0 });
      for (let i = 0; i < 10_000; i++) writer.write('x'.repeat(99));
      await nextTurn();
      assert.equal(readFileSync(`/proc/self/fdinfo/${String(fd)}`, 'utf8'), flagsBefore);
    }
    await nextTurn();
    assert.equal(readFileSync(`/proc/self/fdinfo/${String(fd)}`, 'utf8'), flagsBefore);
  });

  // A thread blocked in write(2) would keep process.exit() from returning: this child would never end.
  for (const kind of ['pipe', 'socket'] as const) {
    test(`process.exit() is not held up by a full ${kind} on stdout`, async (t) => {
      const program = `
        import { LineWriter } from ${JSON.stringify(import.meta.resolve('./lines.ts'))};
        const out = new LineWriter(1, { lingerMs: 10 });
        for (let i = 0; i < 20_000; i++) out.write('x'.repeat(99));
        await new Promise(setImmediate);
        await out[Symbol.asyncDispose]();
        process.stderr.write(String(out.dropped > 0 && out.written + out.dropped === 20_000));
        process.exit(7);`;
      const args = ['--input-type=module-typescript', '--no-warnings', '-e', program];
      const stdout = kind === 'socket' ? 'pipe' : (stoppedPipe(t).target as number);
      const child = spawn(process.execPath, args, { stdio: ['ignore', stdout, 'pipe'] });
      t.after(() => {
        if (child.exitCode === null) child.kill('SIGKILL');
      });
      let said = '';
      child.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text));
      assert.equal(await exited(child), 7, said);
      assert.equal(said, 'true');
    });
  }
});

suite('LineWriter, to an output that ends or fails', { timeout }, () => {
  test('a full disk is an error that names it', async () => {
    const fd = openSync('/dev/full', 'w');
    try {
      await using writer = new LineWriter(fd, { name: 'stdout' });
      assert.ok(writer.write('x'));
      await assert.rejects(writer.flush(), (error: unknown) => {
        assert.ok(error instanceof RampartError);
        assert.equal(error.code, 'RAMPART_SYSTEM');
        assert.match(error.message, /^cannot write to stdout: .*ENOSPC.*Free space/);
        return true;
      });
      const end = await writer.closed;
      assert.equal(end.reason, 'failed');
      assert.equal(writer.dropped, 1);
      assert.equal(writer.write('y'), false);
      assert.equal(writer.dropped, 2);
    } finally {
      closeSync(fd);
    }
  });

  test('a reader that closes ends it quietly', async (t) => {
    const directory = temporaryDirectory(t);
    const fifo = join(directory, 'fifo');
    execFileSync('mkfifo', [fifo]);
    const reader = start(t, 'head', ['-n', '1', fifo]);
    let read = '';
    reader.stdout?.setEncoding('utf8').on('data', (text: string) => (read += text));
    const fd = openSync(fifo, 'w');
    t.after(() => closeSync(fd));
    await using writer = new LineWriter(fd);
    writer.write('first');
    await exited(reader);
    writer.write('nobody reads this');
    assert.deepEqual(await writer.closed, { reason: 'reader-gone' } satisfies LineWriterEnd);
    await writer.flush();
    assert.equal(read, 'first\n');
    assert.equal(writer.written, 1);
    assert.equal(writer.dropped, 1);
  });

  test('so does a stream whose other end closes, or that was destroyed', async (t) => {
    const child = start(t, 'true', [], 'pipe');
    assert.ok(child.stdin);
    await exited(child);
    const gone = new LineWriter(child.stdin);
    for (let i = 0; i < 1000; i++) gone.write('x'.repeat(999));
    assert.equal((await gone.closed).reason, 'reader-gone');
    const destroyed = new LineWriter(new PassThrough().destroy());
    destroyed.write('x');
    assert.equal((await destroyed.closed).reason, 'reader-gone');
  });

  test('a descriptor that is not open is refused at once', () => {
    assert.throws(() => new LineWriter(9999), /cannot write to file descriptor 9999: EBADF/);
    assert.throws(() => new LineWriter(1, { spoolBytes: 0 }), /spoolBytes 0/);
  });
});

suite('LineWriter, what is written', { timeout }, () => {
  test('a file gets every line after what is already in it', async (t) => {
    const path = join(temporaryDirectory(t), 'out');
    writeFileSync(path, 'before\n');
    const fd = openSync(path, 'a');
    const lines = Array.from({ length: 5000 }, (_, i) => `${i} ${'y'.repeat(i % 300)}`);
    {
      await using writer = new LineWriter(fd);
      for (const line of lines) assert.ok(writer.write(line));
    }
    closeSync(fd);
    assert.equal(readFileSync(path, 'utf8'), `before\n${lines.join('\n')}\n`);
  });

  test('a stream that keeps the bytes it was given sees none of them change', async () => {
    const stream = new PassThrough({ highWaterMark: 64 * 1024 * 1024 });
    await using writer = new LineWriter(stream);
    let expected = '';
    for (let i = 0; i < 50; i++) {
      const line = String(i).repeat(1000);
      writer.write(line);
      expected += `${line}\n`;
      await writer.flush();
    }
    assert.equal(String(stream.read()), expected);
  });

  test('a line longer than a chunk stays whole', async () => {
    const stream = new PassThrough({ highWaterMark: 64 * 1024 * 1024 });
    await using writer = new LineWriter(stream);
    const lines = ['a', '漢'.repeat(300_000), 'b', 'c'.repeat(200_000), 'd'];
    for (const line of lines) writer.write(line);
    await writer.flush();
    assert.equal(String(stream.read()), `${lines.join('\n')}\n`);
  });
});
