/** Syntax of PCRE2 over bytes, and many expressions in one automaton. Facts: pcre2pattern(3), pcre2partial(3). */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { PatternSet } from './pattern-set.ts';
import { parsePcre, PcreSyntaxError, PcreUnsupportedError } from './pcre.ts';

/** Whether the expression matches from the start of the text on. */
function matches(pattern: string, text: string): boolean {
  const set = new PatternSet([parsePcre(pattern)]);
  return set.matches(set.walk(set.start, text)).length === 1;
}

function couldMatch(pattern: string, text: string): boolean {
  const set = new PatternSet([parsePcre(pattern)]);
  return set.alive(set.walk(set.start, text)).length === 1;
}

suite('differences from RE2', () => {
  const cases: readonly (readonly [
    pattern: string,
    matches: readonly string[],
    others: readonly string[],
  ])[] = [
    ['/a$', ['/a', '/a\n'], ['/a\n\n', '/ab', '/a\nb']],
    [String.raw`a\Z`, ['a', 'a\n'], ['ab']],
    [String.raw`a\z`, ['a'], ['a\n']],
    [String.raw`\Aa\Gb`, [], ['ab']],
    [String.raw`\G\Aab`, ['ab'], ['xab']],
    ['a.b', ['axb', 'a\xffb'], ['a\nb']],
    ['(?s)a.b', ['a\nb'], ['ab']],
    [String.raw`a\Nb|x\Cy`, ['axb', 'x\ny'], ['a\nb']],
    [String.raw`a\sb`, ['a\x0bb', 'a b'], ['axb']],
    [String.raw`a\hb\Hc`, ['a\xa0bxc', 'a\tb\nc'], ['a\nbxc', 'a b c']],
    [String.raw`a\vb\Vc`, ['a\x85bxc'], ['a b\nc']],
    ['(?i)[a-c]\xe9', ['B\xe9'], ['B\xc9', 'd\xe9']],
    ['(?i:k)K', ['kK', 'KK'], ['kk', '\u00b5K']],
    [String.raw`\x41\x{42}\o{103}\e\cA\x`, ['ABC\x1b\x01\0'], ['ABC']],
    [String.raw`[\b\1]`, ['\b', '\x01'], ['b']],
    [String.raw`[a-\d]+$`, ['a-5'], ['b']],
    ['[]a]+$', [']a'], ['b']],
    ['[^]a]', ['b', '\n'], [']']],
    [String.raw`[[:^digit:][:space:]]`, ['a', ' '], ['5']],
    ['a{,2}', ['a{,2}'], ['aa']],
    ['a{2}$', ['aa'], ['a', 'aaa']],
    ['a{1,2}?b', ['ab', 'aab'], ['b']],
    [String.raw`\Qa.b\E+c`, ['a.bc', 'a.bbc'], ['axbc']],
    [String.raw`a\Eb`, ['ab'], ['aEb']],
    ["(?#note)a(?<n>b)(?P<m>c)(?'o'd)(?|e|f)", ['abcde', 'abcdf'], ['abcd']],
    [String.raw`lib\b`, ['lib', 'lib/x'], ['libx']],
    ['', ['', 'anything'], []],
    ['a|b|', ['a', 'x', ''], []],
    [String.raw`\xC3\xA9`, ['\u00c3\u00a9'], ['\u00e9']],
  ];
  for (const [pattern, yes, no] of cases) {
    test(JSON.stringify(pattern), () => {
      for (const text of yes) assert.ok(matches(pattern, text), JSON.stringify(text));
      for (const text of no) assert.ok(!matches(pattern, text), JSON.stringify(text));
    });
  }
});

suite('unsupported syntax is named', () => {
  const cases: readonly (readonly [pattern: string, feature: RegExp])[] = [
    ['/a(?=b)', /look-ahead/],
    ['/a(?!b)', /look-ahead/],
    ['/a(?<=b)', /look-behind/],
    ['/a(?<!b)', /look-behind/],
    ['/a(?>b)', /atomic/],
    ['/a*+b', /possessive/],
    [String.raw`/(a)\1`, /back reference/],
    [String.raw`/(a)\g1`, /back reference/],
    [String.raw`/(?<n>a)\k<n>`, /back reference/],
    [String.raw`/a\Kb`, /starts late/],
    [String.raw`/a\R`, /newline/],
    [String.raw`/\pL`, /property/],
    [String.raw`/\X`, /grapheme/],
    ['/(?R)', /recursion/],
    ['/(?1)', /recursion/],
    ['/(?(1)a|b)', /condition/],
    ['/(*ACCEPT)', /verb/],
    ['/(?x)a b', /\(\?x/],
    ['/(?m)^a', /\(\?m/],
  ];
  for (const [pattern, feature] of cases) {
    test(pattern, () => {
      assert.throws(
        () => parsePcre(pattern),
        (error) => error instanceof PcreUnsupportedError && feature.test(error.message),
      );
    });
  }
});

suite('refuses what PCRE2 refuses', () => {
  for (const pattern of [
    ...[
      '(',
      ')',
      'a(b',
      '[a',
      '*a',
      'a**',
      '+',
      '{2}',
      'a{2}{3}x**',
      '(?z)',
      '[z-a]',
      '[[:foo:]]',
      '[[.a.]]',
    ],
    ...['^*a', 'a$?', 'a^{2}', String.raw`a\b+`, String.raw`\A*a`],
    ...['a{3,2}', 'a{99999}', '\\', String.raw`\y`, String.raw`\x{100}`, '(?#', String.raw`[\400]`, '(?'],
  ]) {
    test(pattern, () => {
      assert.throws(
        () => parsePcre(pattern),
        (error) => error instanceof PcreSyntaxError && !(error instanceof PcreUnsupportedError),
      );
    });
  }
});

suite('partial matches', () => {
  const cases: readonly (readonly [pattern: string, text: string, could: boolean])[] = [
    ['/etc/passwd', '/etc', true],
    ['/etc/passwd', '/usr', false],
    ['/etc/.*x', '/etc/a/b', true],
    ['/etc$', '/etc/', false],
    ['/etc', '/etc', false],
    ['/(etc|usr)/x', '/us', true],
    [String.raw`/lib\b/x`, '/lib', true],
    ['^^/a', '', true],
    ['/a^b', '/a', false],
  ];
  for (const [pattern, text, could] of cases) {
    test(`${pattern} after ${text}`, () => assert.equal(couldMatch(pattern, text), could));
  }
});

test('patterns that match whatever follows', () => {
  const set = new PatternSet(['/a/', '/a/$', String.raw`/a/\b`, '/a', '/a/b'].map(parsePcre));
  assert.deepEqual(set.certain(set.walk(set.start, '/a/')), [0, 3]);
});

const letters = fc.string({ unit: fc.constantFrom('a', 'b', '/', '.', '\n', '\xe9'), maxLength: 12 });
const atom = fc.constantFrom(
  'a',
  'b',
  '/',
  '[ab]',
  '[^a]',
  '.',
  String.raw`\.`,
  String.raw`\w`,
  '\xe9',
  '^',
  String.raw`\b`,
  '(?:a|ab)',
  '(?:(b|/)*)',
);
const pattern = fc
  .array(fc.tuple(atom, fc.constantFrom('', '', '', '*', '+', '?', '{1,2}', '|')), { maxLength: 6 })
  .map((parts) =>
    // JavaScript does not repeat an assertion.
    parts
      .map(([one, count]) => (['^', String.raw`\b`].includes(one) && count !== '|' ? one : one + count))
      .join(''),
  );

test('several expressions answer as each alone does in JavaScript', () => {
  fc.assert(
    fc.property(
      fc.array(pattern, { minLength: 1, maxLength: 5 }),
      fc.array(letters, { maxLength: 5 }),
      (sources, texts) => {
        const set = new PatternSet(sources.map(parsePcre));
        for (const text of texts) {
          const expected = sources.flatMap((source, at) =>
            new RegExp(`^(?:${source})`).test(text) ? [at] : [],
          );
          const end = set.walk(set.start, text);
          assert.deepEqual(set.matches(end), expected);
          // A matching text could match after each of its parts.
          for (let length = 0; length < text.length; length++) {
            const part = set.walk(set.start, text.slice(0, length));
            const known = new Set([...set.matches(part), ...set.alive(part)]);
            for (const at of expected)
              assert.ok(known.has(at), `${sources[at]} after ${text.slice(0, length)}`);
            assert.equal(set.walk(part, text, length), end);
          }
        }
      },
    ),
    { numRuns: 1_500 },
  );
});

test('random expressions compile or fail with the one kind of error', () => {
  const noise = fc.string({
    unit: fc.constantFrom(...Array.from("abc()[]{}*+?|^$.\\-:,01PpQEdwx<>=!&#'")),
    maxLength: 20,
  });
  fc.assert(
    fc.property(noise, letters, (source, text) => {
      try {
        matches(source, text);
      } catch (error) {
        assert.ok(error instanceof PcreSyntaxError, String(error));
      }
    }),
    { numRuns: 3_000 },
  );
});

test('more states than are kept: the answers stay right', () => {
  const set = new PatternSet([parsePcre('(?:a|b)*a(?:a|b){14}$'), parsePcre('(?:a|b)*b$')]);
  let text = '';
  for (let index = 0; index < 60_000; index++) text += (index * 7_919) % 13 < 6 ? 'a' : 'b';
  for (const end of ['a', 'b']) {
    const whole = text + end;
    const expected = [...(whole.at(-15) === 'a' ? [0] : []), ...(end === 'b' ? [1] : [])];
    assert.deepEqual(set.matches(set.walk(set.start, whole)), expected);
  }
});
