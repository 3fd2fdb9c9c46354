import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../lib/testing/fast-check.fixture.ts';
import { channelReader, lineSplitter, markFor } from './channel.ts';

const mark = markFor('0123-nonce');

/** Feeds `bytes` cut at the given places and returns the reports, with joined output. */
function readPieces(bytes: Uint8Array, cuts: readonly number[]): string[] {
  const reported: string[] = [];
  let output = '';
  const flush = (): void => {
    if (output !== '') reported.push(`output ${output}`);
    output = '';
  };
  const read = channelReader(mark, {
    started() {
      flush();
      reported.push('started');
    },
    output(text) {
      output += text;
    },
    exited(exitCode) {
      flush();
      reported.push(`exited ${exitCode}`);
    },
  });
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b);
  [...places, bytes.length].reduce((from, to) => {
    read(bytes.subarray(from, to));
    return to;
  }, 0);
  flush();
  return reported;
}

// Text with the characters that could be taken for a mark.
const text = fc.array(
  fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('\n', '\x1e', `${mark} `, ' exit 3\n')),
);

test('the stream is read the same however it is cut, and marks are not output', () => {
  fc.assert(
    fc.property(text, fc.nat({ max: 255 }), fc.array(fc.nat()), (parts, exitCode, cuts) => {
      // A mark that the program forges on purpose is not what this guards against.
      const output = parts.join('').replaceAll(new RegExp(`${mark} (start|exit \\d+)\n`, 'g'), '');
      fc.pre(!new RegExp(`${mark} (start|exit \\d+)\n`).test(`${output}\n`));
      const bytes = Buffer.from(`${mark} start\n${output}${mark} exit ${exitCode}\nlate output`);
      const expected = ['started', ...(output === '' ? [] : [`output ${output}`]), `exited ${exitCode}`];
      assert.deepEqual(readPieces(bytes, cuts), expected);
    }),
  );
});

test('output is given at once, except what may be the beginning of a mark', () => {
  const got: string[] = [];
  const ignore = (): void => {};
  const read = channelReader(mark, { started: ignore, exited: ignore, output: (part) => got.push(part) });
  read(Buffer.from('no newline yet'));
  assert.deepEqual(got, ['no newline yet']);
  read(Buffer.from(`more${mark.slice(0, 4)}`));
  assert.deepEqual(got, ['no newline yet', 'more']);
  read(Buffer.from(' was not a mark'.repeat(8)));
  assert.equal(got.join(''), `no newline yetmore${mark.slice(0, 4)}${' was not a mark'.repeat(8)}`);
});

test('lines come whole, the last one also without its newline', () => {
  const lines: string[] = [];
  const splitter = lineSplitter((line) => lines.push(line));
  for (const part of ['a', 'b\nc\r\n', '\n', 'end']) splitter.write(part);
  assert.deepEqual(lines, ['ab', 'c', '']);
  splitter.end();
  splitter.end();
  assert.deepEqual(lines, ['ab', 'c', '', 'end']);
});
