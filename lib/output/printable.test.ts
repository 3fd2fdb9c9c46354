import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { clockTime, printable, visibleJson, visibleText } from './printable.ts';

suite('printable', () => {
  test('visible characters are unchanged', () => {
    for (const text of ['', '/etc/shadow', 'Grüße 漢字 🔥', 'a b']) assert.equal(printable(text), text);
  });

  test('names what cannot be seen', () => {
    assert.equal(printable('a\u001b[2J'), 'a\\x1b[2J');
    assert.equal(printable('\n\t\r\u0000\u009b'), '\\n\\t\\r\\x00\\x9b');
    assert.equal(printable('\u202e\u2028\u{e0001}\ud800'), '\\u{202e}\\u{2028}\\u{e0001}\\u{d800}');
  });

  test('an escape cannot be forged: different texts stay different', () => {
    assert.notEqual(printable('\\x1b'), printable('\u001b'));
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const shown = printable(text);
        const read = shown.replace(
          /\\(?:x([0-9a-f]{2})|u\{([0-9a-f]+)\}|(.))/gu,
          (_all, byte: string | undefined, point: string | undefined, letter: string | undefined) =>
            letter === undefined
              ? String.fromCodePoint(Number.parseInt(byte ?? point ?? '', 16))
              : ({ n: '\n', t: '\t', r: '\r' }[letter] ?? letter),
        );
        assert.equal(read, text);
      }),
    );
  });

  test('JSON keeps its value and shows what cannot be seen', () => {
    assert.equal(
      visibleJson(JSON.stringify({ a: 'x\u202ey\u009b\u007f\u200b\u{e0001}é' })),
      String.raw`{"a":"x\u202ey\u009b\u007f\u200b\udb40\udc01é"}`,
    );
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const json = visibleJson(JSON.stringify({ [text]: text }));
        assert.deepEqual(JSON.parse(json), { [text]: text });
        assert.doesNotMatch(json, /[\p{Cc}\p{Cf}\u2028\u2029]/u);
      }),
    );
    assert.equal(visibleText('a\n\tb\u001b[2J\u202e\\'), 'a\n\tb\\u001b[2J\\u202e\\');
  });

  test('clock time has two digits, milliseconds three', () => {
    assert.equal(clockTime(new Date(2026, 0, 2, 3, 4, 5, 6).getTime()), '03:04:05.006');
  });
});
