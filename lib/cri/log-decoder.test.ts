import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { LogDecoder, type LogTextOptions } from './log-decoder.ts';

const at = (second: number): string => `2026-01-02T03:04:${String(second).padStart(2, '0')}.5Z`;

function decode(bytes: Buffer, options: LogTextOptions = {}, cuts: readonly number[] = []): string {
  const decoder = new LogDecoder(options);
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  const texts = places.slice(1).map((end, index) => {
    // The bytes are overwritten, as a reader's buffer is.
    const portion = Buffer.from(bytes.subarray(places[index], end));
    decoder.push(portion);
    const text = decoder.take();
    portion.fill(0);
    return text;
  });
  decoder.endFile();
  return Buffer.concat([...texts, decoder.take()]).toString();
}

const decodeText = (text: string, options?: LogTextOptions): string => decode(Buffer.from(text), options);

suite('records of a log', () => {
  test('become lines, parts are joined, times are left out or written with nine digits', () => {
    const text =
      `${at(1)} stdout F one\n2026-01-02T03:04:02+02:00 stderr F \n` +
      `${at(3)} stdout P th\n${at(4)} stdout P:x r\n${at(5)} stdout F:y ee  \n`;
    assert.equal(decodeText(text), 'one\n\nthree  \n');
    assert.equal(
      decodeText(text, { timestamps: true }),
      '2026-01-02T03:04:01.500000000Z one\n2026-01-02T03:04:02.000000000+02:00 \n2026-01-02T03:04:03.500000000Z three  \n',
    );
  });

  test('a line of one stream is not cut by one of the other', () => {
    const text =
      `${at(1)} stdout P a\n${at(2)} stderr F x\n${at(3)} stderr P y\n${at(4)} stdout F b\n` +
      `${at(5)} stdout F c\n${at(6)} stderr F z\n`;
    assert.equal(decodeText(text), 'ab\nx\nyz\nc\n');
  });

  test('but is held up by no more than a bounded number of bytes', () => {
    const long = 'x'.repeat(1000);
    const text = `${at(1)} stdout P begun\n${`${at(2)} stderr F ${long}\n`.repeat(400)}${at(3)} stdout F end\n`;
    const decoder = new LogDecoder();
    decoder.push(Buffer.from(text));
    const lines = decoder.take().toString().split('\n');
    assert.deepEqual([lines.length, lines[0], lines[1], lines[401]], [403, 'begun', long, 'end']);
    assert.equal(decoder.isWaiting, false);
  });

  test('a waiting line is returned when the wait ends', () => {
    const decoder = new LogDecoder();
    decoder.push(Buffer.from(`${at(1)} stdout P prompt\n${at(2)} stderr F said\n`));
    assert.deepEqual([decoder.take().toString(), decoder.isWaiting], ['prompt', true]);
    decoder.settle();
    assert.deepEqual([decoder.take().toString(), decoder.isWaiting], ['\nsaid\n', false]);
  });

  test('since a time: the first record of a line decides, to the nanosecond', () => {
    const text = `${at(1)} stdout F old\n${at(2)} stdout P new\n${at(1)} stdout F er\n${at(1)} stdout F old\n`;
    const sinceNs = BigInt(Date.parse(at(2))) * 1_000_000n;
    assert.equal(decodeText(text, { sinceNs }), 'newer\n');
    assert.equal(decodeText(text, { sinceNs: sinceNs + 1n }), '');
  });

  for (const [what, line] of [
    ['nothing', ''],
    ['no time', 'yesterday stdout F x'],
    ['no such stream', `${at(1)} stdin F x`],
    ['no tag', `${at(1)} stdout`],
    ['no content', `${at(1)} stdout F`],
    ['no spaces', 'x'.repeat(100_000)],
    ['a header that is too long', `${at(1)} stdout F${':t'.repeat(1000)} x`],
    ['bytes that are no text', '\u0000\u{10ffff}\r'],
  ] as const) {
    test(`${what} is left out and counted`, () => {
      const decoder = new LogDecoder();
      decoder.push(Buffer.from(`${at(1)} stdout F a\n${line}\n${at(2)} stdout F b\n`));
      assert.deepEqual([decoder.take().toString(), decoder.badRecords], ['a\nb\n', 1]);
    });
  }

  test('a record that is cut off is given as far as it goes', () => {
    assert.equal(decodeText(`${at(1)} stdout F a\n${at(2)} stdout F wit`), 'a\nwit');
    assert.equal(decodeText(`${at(1)} stdout F a\n${at(2)} std`), 'a\n');
  });

  const record = fc.oneof(
    { weight: 6, arbitrary: fc.tuple(fc.constantFrom('stdout', 'stderr'), fc.constantFrom('P', 'F', 'F:a')) },
    { weight: 1, arbitrary: fc.constant(undefined) },
  );
  const log = fc
    .array(fc.tuple(record, fc.integer({ min: 0, max: 59 }), fc.string({ unit: 'binary' }), fc.nat(400)), {
      maxLength: 30,
    })
    .map((records) =>
      Buffer.concat(
        records.map(([kind, second, content, repeat]) => {
          const text = content.replaceAll('\n', ' ').repeat(1 + (repeat % 40));
          return Buffer.from(
            kind === undefined ? `${text}\n` : `${at(second)} ${kind[0]} ${kind[1]} ${text}\n`,
          );
        }),
      ),
    );

  test('however the bytes are cut, the text is the same', () => {
    fc.assert(
      fc.property(
        log,
        fc.array(fc.nat(20_000), { maxLength: 40 }),
        fc.boolean(),
        fc.boolean(),
        (bytes, cuts, timestamps, isSince) => {
          const sinceNs = isSince ? BigInt(Date.parse(at(30))) * 1_000_000n : undefined;
          assert.equal(decode(bytes, { timestamps, sinceNs }, cuts), decode(bytes, { timestamps, sinceNs }));
        },
      ),
      { numRuns: 300 },
    );
  });

  test('each byte by itself too, and every line of a stream is there once and in order', () => {
    const lines = fc.array(
      fc.tuple(fc.boolean(), fc.array(fc.stringMatching(/^[a-z]{0,9}$/), { minLength: 1, maxLength: 4 })),
    );
    fc.assert(
      fc.property(lines, fc.infiniteStream(fc.boolean()), (wanted, coin) => {
        const queues = [true, false].map((isOut) =>
          wanted
            .filter(([which]) => which === isOut)
            .flatMap(([, parts]) =>
              parts.map(
                (part, index) =>
                  `${at(1)} ${isOut ? 'stdout' : 'stderr'} ${index === parts.length - 1 ? 'F' : 'P'} ${isOut ? 'o' : 'e'}${part}\n`,
              ),
            ),
        );
        const records: string[] = [];
        while (queues.some((queue) => queue.length > 0)) {
          const one = queues[coin.next().value ? 0 : 1]?.shift();
          if (one !== undefined) records.push(one);
        }
        const bytes = Buffer.from(records.join(''));
        const text = decode(bytes, {}, Array.from(bytes.keys()));
        const of = (mark: string): string[] => text.split('\n').filter((line) => line.startsWith(mark));
        const expected = (isOut: boolean): string[] =>
          wanted
            .filter(([which]) => which === isOut)
            .map(([, parts]) => parts.map((part) => (isOut ? 'o' : 'e') + part).join(''));
        assert.deepEqual(of('o'), expected(true));
        assert.deepEqual(of('e'), expected(false));
        assert.equal(text.split('\n').length, wanted.length + 1);
      }),
      { numRuns: 200 },
    );
  });
});
