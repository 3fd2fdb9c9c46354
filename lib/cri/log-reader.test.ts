import assert from 'node:assert/strict';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, suite, test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { LogDecoder } from './log-decoder.ts';
import { type LogReadOptions, openLog } from './log-reader.ts';
import { patience } from '../testing/until.fixture.ts';

const line = (text: string, tag = 'F', stream = 'stdout'): string =>
  `2026-01-02T03:04:05.6Z ${stream} ${tag} ${text}\n`;

suite('a reader of logs', () => {
  let directory = '';
  let path = '';
  let losses: string[] = [];
  let ended = false;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'rampart-log-'));
    mkdirSync(join(directory, 'pod/container'), { recursive: true });
    path = join(directory, 'pod/container/0.log');
    [losses, ended] = [[], false];
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  const source = () => ({
    path,
    hasEnded: () => Promise.resolve(ended),
    onLoss: (what: string) => void losses.push(what),
  });

  async function readAll(options: LogReadOptions = {}): Promise<string> {
    const portions: Uint8Array[] = [];
    const { signal } = new AbortController();
    for await (const portion of await openLog(source(), options, signal)) portions.push(Buffer.from(portion));
    return Buffer.concat(portions).toString();
  }

  /** A reader that goes on, and what it has read. */
  function following(options: LogReadOptions = {}) {
    const abort = new AbortController();
    let text = '';
    let wake = (): void => undefined;
    const done = (async () => {
      for await (const portion of await openLog(source(), { ...options, follow: true }, abort.signal)) {
        text += Buffer.from(portion).toString();
        wake();
      }
    })();
    const until = async (wanted: string): Promise<void> => {
      const waiting = patience();
      for (;;) {
        if (text === wanted) return;
        if (waiting.aborted) assert.equal(text, wanted);
        await new Promise<void>((resolve) => {
          wake = resolve;
          setTimeout(resolve, 1000);
        });
      }
    };
    return { done, abort, until, text: () => text };
  }

  function openFiles(): string[] {
    return readdirSync('/proc/self/fd').flatMap((fd) => {
      try {
        const target = readlinkSync(`/proc/self/fd/${fd}`);
        return target.startsWith(directory) ? [target] : [];
      } catch {
        return [];
      }
    });
  }

  suite('a log that is read once', () => {
    test('all of it, its last lines, its first bytes', async () => {
      writeFileSync(path, line('one') + line('tw', 'P') + line('o') + line('three'));
      assert.equal(await readAll(), 'one\ntwo\nthree\n');
      assert.equal(await readAll({ tailLines: 0 }), '');
      assert.equal(await readAll({ tailLines: 2 }), 'two\nthree\n');
      assert.equal(await readAll({ tailLines: 9 }), 'one\ntwo\nthree\n');
      assert.equal(await readAll({ limitBytes: 6 }), 'one\ntw');
      assert.equal(await readAll({ limitBytes: 600 }), 'one\ntwo\nthree\n');
      assert.deepEqual(openFiles(), []);
    });

    test('the last lines are the last of all lines, whatever their lengths', async () => {
      const lengths = fc.array(
        fc.tuple(fc.oneof(fc.nat(200), fc.nat(70_000)), fc.constantFrom('F', 'F', 'P')),
        {
          maxLength: 40,
        },
      );
      await fc.assert(
        fc.asyncProperty(lengths, fc.nat(12), async (records, tailLines) => {
          const bytes = records
            .map(([length, tag], index) => line(`${index}${'x'.repeat(length)}`, tag))
            .join('');
          writeFileSync(path, bytes);
          const decoder = new LogDecoder();
          decoder.push(Buffer.from(bytes));
          // After the last newline is nothing, or a line that is not at its end.
          const all = decoder
            .take()
            .toString()
            .split(/(?<=\n)/);
          const lines = all[0] === '' ? [] : all;
          assert.equal(
            await readAll({ tailLines }),
            lines.slice(lines.length - Math.min(tailLines, lines.length)).join(''),
          );
        }),
        { numRuns: 60 },
      );
    });

    test('a container that writes on has an end all the same', async () => {
      writeFileSync(path, line('before'));
      const { signal } = new AbortController();
      const log = await openLog(source(), {}, signal);
      let text = '';
      for await (const portion of log) {
        text += Buffer.from(portion).toString();
        appendFileSync(path, line('after'));
      }
      assert.equal(text, 'before\n');
    });

    test('invalid records are omitted and reported', async () => {
      writeFileSync(path, `${line('a')}{"log":"b"}\n`);
      assert.equal(await readAll(), 'a\n');
      assert.match(losses.join(), /^1 lines of .*0\.log are not log records/);
    });

    test('no more is read than is asked for', async () => {
      writeFileSync(path, line('x'.repeat(1000)).repeat(5000));
      const { signal } = new AbortController();
      const log = await openLog(source(), {}, signal);
      const first = await log.next();
      assert.ok(first.value !== undefined && first.value.length <= 64 * 1024);
      // Appended data is in no buffer yet.
      truncateSync(path, 64 * 1024);
      let bytes = first.value.length;
      for await (const portion of log) bytes += portion.length;
      assert.ok(bytes <= 64 * 1024);
      assert.deepEqual(openFiles(), []);
    });
  });

  suite('a log that is followed', () => {
    test('gives lines as they come, and ends with the container', async () => {
      writeFileSync(path, line('old') + line('one'));
      const log = following({ tailLines: 1 });
      await log.until('one\n');
      appendFileSync(path, line('two').slice(0, 30));
      appendFileSync(path, line('two').slice(30));
      await log.until('one\ntwo\n');
      appendFileSync(path, line('last'));
      ended = true;
      await log.done;
      assert.equal(log.text(), 'one\ntwo\nlast\n');
      assert.deepEqual(openFiles(), []);
    });

    test('ends without an error when it is aborted', async () => {
      writeFileSync(path, line('one'));
      const log = following();
      await log.until('one\n');
      log.abort.abort();
      await log.done;
      assert.deepEqual(openFiles(), []);
    });

    test('ends after the given number of bytes', async () => {
      writeFileSync(path, line('one'));
      const log = following({ limitBytes: 6 });
      await log.until('one\n');
      appendFileSync(path, line('two'));
      await log.done;
      assert.equal(log.text(), 'one\ntw');
    });

    test('goes on where the file is rotated, with what the old one gets at last', async () => {
      writeFileSync(path, line('1'));
      const log = following();
      await log.until('1\n');
      renameSync(path, `${path}.20260102-030405`);
      appendFileSync(`${path}.20260102-030405`, line('2'));
      await log.until('1\n2\n');
      writeFileSync(path, line('4'));
      appendFileSync(`${path}.20260102-030405`, line('3'));
      await log.until('1\n2\n3\n4\n');
      appendFileSync(path, line('5'));
      await log.until('1\n2\n3\n4\n5\n');
      ended = true;
      await log.done;
      assert.deepEqual(losses, []);
      assert.deepEqual(openFiles(), []);
    });

    test('a reader that is several files behind reads all of them, and says what is gone', async () => {
      writeFileSync(path, line('1'));
      const abort = new AbortController();
      const log = await openLog(source(), { follow: true }, abort.signal);
      const rotate = (second: number, next: string): void => {
        renameSync(path, `${path}.20260102-03040${second}`);
        writeFileSync(path, line(next));
      };
      for (const [second, next] of [
        [1, '2'],
        [2, '3'],
        [3, '4'],
      ] as const)
        rotate(second, next);
      ended = true;
      let text = '';
      for await (const portion of log) text += Buffer.from(portion).toString();
      assert.equal(text, '1\n2\n3\n4\n');
      assert.deepEqual(losses, []);

      ended = false;
      const late = await openLog(source(), { follow: true }, abort.signal);
      for (const [second, next] of [
        [4, '5'],
        [5, '6'],
        [6, '7'],
      ] as const)
        rotate(second, next);
      renameSync(`${path}.20260102-030405`, `${path}.20260102-030405.gz`);
      ended = true;
      text = '';
      for await (const portion of late) text += Buffer.from(portion).toString();
      assert.equal(text, '4\n6\n7\n');
      assert.match(losses.join(), /some rotated files of .* were removed before they were read/);
    });

    test('begins again where the file is emptied', async () => {
      writeFileSync(path, line('long enough'));
      const log = following();
      await log.until('long enough\n');
      truncateSync(path);
      appendFileSync(path, line('new'));
      await log.until('long enough\nnew\n');
      ended = true;
      await log.done;
    });

    test('an endless line does not delay other lines for long', async () => {
      writeFileSync(path, line('password: ', 'P') + line('hint', 'F', 'stderr'));
      const log = following();
      await log.until('password: \nhint\n');
      log.abort.abort();
      await log.done;
    });
  });
});
