import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';

import type { ByteSink } from './byte-sink.ts';
import * as fc from '../testing/fast-check.fixture.ts';
import { LineWriter } from './lines.ts';

/** Takes as many bytes as its script says each time; 0 is EAGAIN. At the script's end it takes all, or fails. */
class ScriptedSink implements ByteSink {
  readonly bytes: number[] = [];
  underWay = false;
  readonly #script: number[];
  readonly #finalError: string | undefined;
  constructor(script: readonly number[], finalError?: string) {
    this.#script = [...script];
    this.#finalError = finalError;
  }
  write(bytes: Uint8Array, done: (error: NodeJS.ErrnoException | null, writtenBytes: number) => void): void {
    assert.ok(!this.underWay, 'one write at a time');
    assert.ok(bytes.byteLength > 0);
    this.underWay = true;
    setImmediate(() => {
      this.underWay = false;
      const step = this.#script.shift();
      if (step === undefined && this.#finalError !== undefined) {
        done(Object.assign(new Error(this.#finalError), { code: this.#finalError }), 0);
        return;
      }
      const take = Math.min(step ?? bytes.byteLength, bytes.byteLength);
      if (take === 0) {
        done(Object.assign(new Error('EAGAIN'), { code: 'EAGAIN' }), 0);
        return;
      }
      for (const byte of bytes.subarray(0, take)) this.bytes.push(byte);
      done(null, take);
    });
  }
  close(): void {}
  get text(): string {
    return Buffer.from(this.bytes).toString('utf8');
  }
}

suite('LineWriter, any way a write can turn out', { timeout: 300_000 }, () => {
  const anyLine = fc.string({ unit: 'grapheme', maxLength: 30 }).map((text) => text.replaceAll('\n', ' '));
  // Lines, with pauses of the writer between them.
  const anyLines = fc.array(fc.oneof({ weight: 5, arbitrary: anyLine }, fc.constant(undefined)), {
    maxLength: 60,
  });
  const anyScript = fc.array(
    fc.oneof({ weight: 8, arbitrary: fc.integer({ min: 1, max: 40 }) }, fc.constant(0)),
    {
      maxLength: 30,
    },
  );

  test('any partial writes: all bytes once and in order', async () => {
    await fc.assert(
      fc.asyncProperty(anyLines, anyScript, async (lines, script) => {
        const sink = new ScriptedSink(script);
        let expected = '';
        {
          await using writer = new LineWriter(sink, { lingerMs: 30_000 });
          for (const line of lines) {
            if (line === undefined) await nextTurn();
            else {
              assert.ok(writer.write(line));
              expected += `${line}\n`;
            }
          }
        }
        assert.equal(sink.text, expected);
      }),
      { numRuns: 150 },
    );
  });

  test('any small spool and any failure: the counts add up, and only whole lines are counted as written', async () => {
    await fc.assert(
      fc.asyncProperty(
        anyLines,
        anyScript,
        fc.integer({ min: 1, max: 300 }),
        async (lines, script, spoolBytes) => {
          const sink = new ScriptedSink(script, 'EIO');
          const writer = new LineWriter(sink, { spoolBytes });
          const taken: string[] = [];
          let given = 0;
          for (const line of lines) {
            if (line === undefined) await nextTurn();
            else {
              given++;
              if (writer.write(line)) taken.push(line);
            }
          }
          await writer[Symbol.asyncDispose]();
          assert.equal(writer.written + writer.dropped, given);
          assert.ok(
            taken
              .map((line) => `${line}\n`)
              .join('')
              .startsWith(sink.text.replace(/\ufffd+$/, '')),
          );
          assert.equal(writer.written, sink.text.split('\n').length - 1);
        },
      ),
      { numRuns: 150 },
    );
  });
});
