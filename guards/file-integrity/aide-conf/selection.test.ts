import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { assertReached } from '../../../lib/testing/depth.fixture.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { noEnvironment } from './conf.ts';
import { readAideConf } from './evaluate.ts';
import type { Dialect } from './source.ts';
import type { FileType } from '../model/entry.ts';
import { directoryOf, Selection } from './selection.ts';

function selectionOf(text: string, dialect?: Dialect): Selection {
  return new Selection(
    readAideConf('c', text, dialect === undefined ? noEnvironment : { ...noEnvironment, dialect }),
  );
}

/** The selecting lines for `type:path`, `-` for none. */
function lines(selection: Selection, files: string): string {
  return files
    .split(' ')
    .map((each) => selection.select(each.slice(2), each[0] as FileType)?.rule.at.line ?? '-')
    .join(' ');
}

suite('precedence', () => {
  const cases: readonly (readonly [what: string, conf: string, files: string, lines: string])[] = [
    ['the first of a directory', '/etc/a p\n/etc/a u', 'f:/etc/a f:/etc/b', '1 -'],
    ['the deepest directory', '/ p\n/etc/a u', 'f:/etc/a f:/etc/ab f:/etc/b', '2 2 1'],
    ['a dot is taken as it is for the directory', '/a.b/c p\n/ u', 'f:/a.b/c f:/axb/c', '1 2'],
    ['negative rules are above all', '!/etc/a\n/etc/a p\n/etc p', 'f:/etc/a f:/etc/b d:/etc', '- 3 3'],
    ['and prune in 0.18', '!/etc/a$\n/etc p', 'd:/etc/a f:/etc/a/b f:/etc/ab', '- - 2'],
    ['with a type they do not', '!/etc/a$ d\n/etc p', 'd:/etc/a f:/etc/a/b f:/etc/a', '- 2 2'],
    ['equals: no children', '=/etc p', 'd:/etc f:/etcetera f:/etc/a', '1 1 -'],
    ['equals with a slash: its children', '=/etc/ p', 'd:/etc f:/etc/a d:/etc/d f:/etc/d/b', '- 1 1 -'],
    ['equals above regular in its directory', '/etc/a p\n=/etc/ u', 'f:/etc/a', '2'],
    ['types', '/etc d p\n/etc f,l u', 'd:/etc f:/etc/a l:/etc/l s:/etc/s', '1 2 2 -'],
    ['the root', '/$ p', 'd:/ f:/a', '1 -'],
    ['a newline at the end of a name', '/a$ p', 'f:/a f:/a\n f:/a\n\n', '1 1 -'],
    ['bytes', '/a.b$ p', 'f:/a\xffb f:/a\xc3\xa9b', '1 -'],
  ];
  for (const [what, conf, files, expected] of cases) {
    test(what, () => assert.equal(lines(selectionOf(conf), files), expected));
  }
});

suite('0.19', () => {
  const cases: readonly (readonly [what: string, conf: string, files: string, lines: string])[] = [
    ['! does not prune', '!/etc/a$\n/etc p', 'd:/etc/a f:/etc/a/b f:/etc/ab', '- 2 2'],
    ['- does', '-/etc/a$\n/etc p', 'd:/etc/a f:/etc/a/b f:/etc/ab', '- - 2'],
    ['also where rules lie below', '-/etc/a$\n/etc/a/b p', 'd:/etc/a f:/etc/a/b', '- -'],
    ['with a type, for that', '-/etc/a d\n/etc p', 'd:/etc/ab f:/etc/ab/c f:/etc/a', '- - 2'],
    [
      'equals: no children, but other rules for them',
      '=/etc$ p\n/etc/a u',
      'd:/etc f:/etc/a f:/etc/b',
      '1 2 -',
    ],
    ['what no rule leads to is not reached', '/a/b/c p', 'f:/a/b/c f:/x/b/c', '1 -'],
    ['the root is selected, and not looked into', '-/$\n/a p', 'f:/a', '-'],
  ];
  for (const [what, conf, files, expected] of cases) {
    test(what, () => assert.equal(lines(selectionOf(conf, '0.19'), files), expected));
  }
});

suite('where a scan looks', () => {
  const cases: readonly (readonly [conf: string, descends: readonly string[], others: readonly string[]])[] =
    [
      ['/etc/ssh p', ['/', '/etc', '/etc/ssh'], ['/usr', '/etc/apt']],
      ['/etc/.*/x$ p', ['/', '/etc', '/etc/a', '/etc/a/b'], ['/usr']],
      ['/etc$ p', ['/'], ['/etc']],
      ['!/usr/src\n/usr p', ['/usr', '/usr/lib'], ['/usr/src', '/usr/src/linux']],
      ['=/etc/ p', ['/', '/etc'], ['/etc/a']],
      ['!/usr/src/\n!/usr/tmp/ d\n!/usr/x/a$\n/usr p', ['/usr', '/usr/tmp', '/usr/x'], ['/usr/src']],
      ['', [], ['/', '/etc']],
    ];
  for (const [conf, descends, others] of cases) {
    test(JSON.stringify(conf), () => {
      const selection = selectionOf(conf);
      for (const path of descends) assert.ok(selection.descend(path), path);
      for (const path of others) assert.ok(!selection.descend(path), path);
    });
  }
});

const name = fc.constantFrom('a', 'b', 'ab', 'c.d');
const part = fc.constantFrom('a', 'b', 'ab', '.*', '[ab]', 'a?', String.raw`c\.d`, '(a|b/)*');
const rule = fc
  .tuple(
    fc.constantFrom('', '', '=', '!', '-'),
    fc.array(part, { maxLength: 3 }),
    fc.constantFrom('', '$', '/', '/$'),
    fc.constantFrom('', ' d', ' f'),
  )
  .map(
    ([sigil, parts, end, type]) =>
      `${sigil}/${parts.join('/')}${end}${type}${'!-'.includes(sigil) && sigil !== '' ? '' : ' p'}`,
  );

for (const dialect of ['0.18', '0.19'] as const) {
  test(`a rule for all files of a directory holds for each (${dialect})`, () => {
    const ofDialect = rule.map((text) => (dialect === '0.18' ? text.replace(/^-/, '!') : text));
    const reported = { same: 0, none: 0, byName: 0 };
    fc.assert(
      fc.property(
        fc.array(ofDialect, { maxLength: 8 }),
        fc.array(name, { maxLength: 4 }),
        fc.constantFrom<('f' | 'l')[]>('f', 'l'),
        (rules, names, type) => {
          const selection = selectionOf(rules.join('\n'), dialect);
          const directory = `/${names.join('/')}`;
          const ofAll = selection.selectAll(directory, type);
          reported[ofAll === undefined ? 'byName' : ofAll === 'none' ? 'none' : 'same']++;
          if (ofAll === undefined) return;
          const line = ofAll === 'none' ? undefined : ofAll.rule.at.line;
          for (const file of ['a', 'b', 'ab', 'c.d', '\n', 'z\xff']) {
            const path = `${directory === '/' ? '' : directory}/${file}`;
            assert.equal(selection.select(path, type)?.rule.at.line, line, path);
          }
        },
      ),
      { numRuns: 1_000, min: 1_000 },
    );
    for (const [what, times] of Object.entries(reported)) assertReached(times > 5, `${what}: ${times}`);
  });

  test(`nothing is selected below a directory that a scan leaves out (${dialect})`, () => {
    const ofDialect = rule.map((text) => (dialect === '0.18' ? text.replace(/^-/, '!') : text));
    fc.assert(
      fc.property(
        fc.array(ofDialect, { maxLength: 8 }),
        fc.array(name, { minLength: 1, maxLength: 5 }),
        (rules, names) => {
          const selection = selectionOf(rules.join('\n'), dialect);
          const path = `/${names.join('/')}`;
          for (let above = path; above !== '/';) {
            above = directoryOf(above);
            if (!selection.descend(above)) assert.equal(selection.select(path, 'f'), undefined, above);
          }
          // The order in which paths are asked for makes no difference.
          assert.equal(
            selectionOf(rules.join('\n'), dialect).select(path, 'f')?.rule.at.line,
            selection.select(path, 'f')?.rule.at.line,
          );
        },
      ),
      { numRuns: 1_000 },
    );
  });
}

test('more directories than are remembered', () => {
  const selection = selectionOf('!/.*/skip$\n/d[0-9]* p');
  for (let round = 0; round < 2; round++) {
    for (let at = 0; at < 20_000; at += 1) {
      assert.ok(
        selection.select(`/d${at}/f`, 'f') !== undefined &&
          selection.select(`/d${at}/skip`, 'f') === undefined,
      );
    }
  }
});

test('expressions that would keep a backtracking engine busy', () => {
  const selection = selectionOf('/(a+)+$ p\n/(a|a)*b u\n/.*.*.*.*.*.*x$ g');
  assert.equal(selection.decide(`/${'a'.repeat(4_000)}!`, 'f'), undefined);
});

test('rules that make more states than are kept: bounded memory, the same answers', () => {
  const selection = selectionOf(
    Array.from({ length: 40 }, (_, at) => `/(.*/)?(a|b)*a(a|b){${10 + (at % 3)}}${at}$ p`).join('\n'),
  );
  let state = 1;
  for (let at = 0; at < 3_000; at++) {
    let letters = '';
    for (let bit = 0; bit < 14; bit++) {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      letters += state >>> 31 === 0 ? 'a' : 'b';
    }
    const number = state % 40;
    const found = selection.select(`/${letters}/${letters}${number}`, 'f');
    assert.equal(found?.rule.at.line, letters.at(-11 - (number % 3)) === 'a' ? number + 1 : undefined);
  }
});
