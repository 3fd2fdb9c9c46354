import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';

import * as fc from '../testing/fast-check.fixture.ts';
import { displayWidth, indentText, paint, renderTable, wantsColour, wrapText } from './table.ts';

test('display width counts terminal columns', () => {
  const table: readonly [string, number][] = [
    ['', 0],
    ['yes', 3],
    ['é', 1],
    ['e\u0301', 1],
    ['日本語', 6],
    ['한', 2],
    ['ＡＢ', 4],
    ['\u{1f600}', 2],
    ['\u{1f468}\u200d\u{1f469}\u200d\u{1f467}', 2],
    ['\u001b[31mred\u001b[39m', 3],
    ['\u200b', 0],
    ['→', 1],
  ];
  for (const [text, columns] of table) assert.equal(displayWidth(text), columns, JSON.stringify(text));
});

test('columns line up after wide characters, and no line ends with spaces', () => {
  const text = renderTable(
    [
      { cells: ['日本', 'yes', ''] },
      { cells: ['a', 'no', 'refused'], note: 'The kernel answers EPERM to a process with CAP_BPF.' },
      { cells: ['', ''] },
    ],
    { head: ['NAME', 'SEEN', 'WHY'], widthColumns: 30, colour: false },
  );
  assert.deepEqual(text.split('\n'), [
    'NAME  SEEN  WHY',
    '日本  yes',
    'a     no    refused',
    '    The kernel answers EPERM',
    '    to a process with CAP_BPF.',
    '',
  ]);
});

test('colour changes no column', () => {
  const rows = [
    {
      cells: [
        { text: 'xdp', style: 'red' as const },
        { text: 'yes', style: 'green' as const },
      ],
    },
  ];
  const plain = renderTable(rows, { head: ['NAME', 'SEEN'], widthColumns: 80, colour: false });
  const coloured = renderTable(rows, { head: ['NAME', 'SEEN'], widthColumns: 80, colour: true });
  assert.ok(!plain.includes('\u001b'));
  assert.ok(coloured.includes('\u001b[31m'));
  assert.equal(stripVTControlCharacters(coloured), plain);
  assert.equal(paint('red', 'a', false), 'a');
});

test('colour is for terminals whose user did not say NO_COLOR', () => {
  assert.equal(wantsColour({ isTTY: true }, {}), true);
  assert.equal(wantsColour({ isTTY: true }, { NO_COLOR: '' }), true);
  assert.equal(wantsColour({ isTTY: true }, { NO_COLOR: '1' }), false);
  assert.equal(wantsColour({ isTTY: false }, {}), false);
  assert.equal(wantsColour({}, {}), false);
});

test('wrapping keeps every word whole and in order, and every line within the width where it can', () => {
  fc.assert(
    fc.property(
      fc.array(fc.stringMatching(/^[a-z日]{1,30}$/)),
      fc.integer({ min: 1, max: 40 }),
      (words, width) => {
        const lines = wrapText(words.join(' '), width);
        assert.deepEqual(
          lines.flatMap((line) => line.split(' ')),
          words,
        );
        for (const line of lines) assert.ok(displayWidth(line) <= width || !line.includes(' '), line);
      },
    ),
  );
  assert.equal(indentText('one two three', 2, 9), '  one two\n  three');
});

test('a note of several lines keeps them', () => {
  const rows = [{ cells: ['a'], note: 'refused: EACCES\n\n0: (61) r2 = r1\nR1 invalid' }];
  const drawn = renderTable(rows, { widthColumns: 14, colour: false });
  assert.equal(drawn, 'a\n    refused:\n    EACCES\n    0: (61) r2\n    = r1\n    R1 invalid');
});

test('whatever the cells are, every row keeps its columns', () => {
  const cell = fc.stringMatching(/^[ -~日é]{0,12}$/).filter((text) => text === text.trim());
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell, cell), { minLength: 1 }), (rows) => {
      const lines = renderTable(
        rows.map((cells) => ({ cells: [...cells, '|'] })),
        { widthColumns: 80, colour: false },
      ).split('\n');
      assert.equal(lines.length, rows.length);
      assert.equal(new Set(lines.map(displayWidth)).size, 1);
    }),
  );
});
