import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { LineDecoder } from './line-decoder.ts';

suite('line decoder', () => {
  test('any text, cut into any chunks, comes out as its lines', () => {
    const line = fc.string({ unit: 'binary', maxLength: 40 }).map((text) => text.replaceAll('\n', ' '));
    fc.assert(
      fc.property(
        fc.array(line),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
        (lines, sizes) => {
          const bytes = Buffer.from(lines.map((text) => `${text}\n`).join(''));
          const decoder = new LineDecoder(1000);
          const found: string[] = [];
          for (let at = 0, index = 0; at < bytes.length; index++) {
            const size = sizes[index % sizes.length] ?? 1;
            found.push(...decoder.push(bytes.subarray(at, at + size)));
            at += size;
          }
          assert.deepEqual(found, lines);
          assert.equal(decoder.pendingBytes, 0);
        },
      ),
    );
  });

  test('an incomplete line is kept and counted', () => {
    const decoder = new LineDecoder(10);
    assert.deepEqual([...decoder.push(Buffer.from('ab\ncd'))], ['ab']);
    assert.equal(decoder.pendingBytes, 2);
    assert.deepEqual([...decoder.push(Buffer.from('\n\n'))], ['cd', '']);
  });

  test('a line at the limit passes, one byte more does not, nor does one that never ends', () => {
    const decoder = new LineDecoder(4);
    assert.deepEqual([...decoder.push(Buffer.from('1234\n'))], ['1234']);
    assert.throws(() => [...decoder.push(Buffer.from('12345\n'))], { code: 'RAMPART_LIMIT' });
    const endless = new LineDecoder(4);
    assert.deepEqual([...endless.push(Buffer.from('123'))], []);
    assert.throws(() => [...endless.push(Buffer.from('45'))], { code: 'RAMPART_LIMIT' });
  });

  test('bytes that are not UTF-8 are refused, a byte order mark is kept', () => {
    const decoder = new LineDecoder(100);
    assert.throws(() => [...decoder.push(Buffer.from([0x61, 0xff, 0x0a]))], { code: 'RAMPART_DECODE' });
    assert.deepEqual([...decoder.push(Buffer.from('\ufeffa\n'))], ['\ufeffa']);
  });
});
