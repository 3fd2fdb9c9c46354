/** Syntax and matches of Go: https://github.com/google/re2/wiki/Syntax, Go's `regexp/syntax/parse_test.go`. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../testing/fast-check.fixture.ts';
import { Regex, RegexBudgetError } from './regex.ts';

suite('differences from JavaScript', () => {
  const cases: readonly (readonly [
    pattern: string,
    matches: readonly string[],
    others: readonly string[],
  ])[] = [
    ['(?i)straSSe', ['STRASSE'], ['strase']],
    ['a(?i)b|c', ['aB', 'C'], ['Ab']],
    ['(?i:a)b', ['Ab'], ['aB']],
    ['(?i)k', ['K', '\u212a'], ['x']],
    [String.raw`\Aab\z`, ['ab'], ['ab\n', 'xab']],
    ['^ab$', ['ab'], ['ab\n', 'x\nab']],
    ['(?m)^ab$', ['ab', 'x\nab\ny'], ['abc']],
    ['a.b', ['axb', 'a😀b'], ['a\nb']],
    ['(?s)a.b', ['a\nb'], ['ab']],
    ['^[[:alpha:]_]+$', ['aZ_'], ['a1']],
    ['^[[:^digit:]]$', ['a'], ['1']],
    [String.raw`^\pN+$`, ['1٣'], ['a']],
    [String.raw`^\p{Greek}+$`, ['αβ'], ['a']],
    [String.raw`^\p{^Lu}$`, ['a'], ['A']],
    [String.raw`^\P{L}$`, ['1'], ['é']],
    [String.raw`^\Qa.b\E+$`, ['a.bb'], ['axb']],
    [String.raw`^\x{1F600}\x41\101\a$`, ['😀AA\x07'], ['']],
    [String.raw`^\d\w\s$`, ['1a '], ['٣a ', '1é ', '1a\u00a0']],
    [String.raw`\bfoo\b`, ['a foo b'], ['afoo']],
    ['^a{2$', ['a{2'], ['aa']],
    ['^[]a]+$', [']a'], ['b']],
    ['^[a-]+$', ['a-'], ['b']],
    ['(?P<n>a)(?<m>b)', ['ab'], ['a']],
    ['^(a|)$', ['', 'a'], ['b']],
    ['', ['', 'x'], []],
    ['^.$', ['😀', '\ud800'], ['']],
  ];
  for (const [pattern, matches, others] of cases) {
    test(JSON.stringify(pattern), () => {
      const regex = new Regex(pattern);
      for (const text of matches) assert.ok(regex.test(text), `matches ${JSON.stringify(text)}`);
      for (const text of others) assert.ok(!regex.test(text), `does not match ${JSON.stringify(text)}`);
    });
  }
});

test('errors in the words of Go', () => {
  const cases: Readonly<Record<string, string>> = {
    '+': 'missing argument to repetition operator: `+`',
    'a**': 'invalid nested repetition operator: `**`',
    '(a': 'missing closing ): `(a`',
    'a)': 'unexpected ): `a)`',
    '[a': 'missing closing ]: `[a`',
    '[z-a]': 'invalid character class range: `z-a`',
    'a{1001}': 'invalid repeat count: `{1001}`',
    '(a{500}){3}': 'invalid repeat count: `{3}`',
    '(?=a)': 'invalid or unsupported Perl syntax: `(?=`',
    '(?<=a)': 'invalid named capture: `(?<=a)`',
    '(?P<n)': 'invalid named capture: `(?P<n)`',
    [String.raw`(a)\1`]: String.raw`invalid escape sequence: ` + '`\\1`',
    [String.raw`\y`]: 'invalid escape sequence: `\\y`',
    [String.raw`\p{Klingon}`]: 'invalid character class range: `\\p{Klingon}`',
    '[[:foo:]]': 'invalid character class range: `[:foo:]`',
    'a\\': 'trailing backslash at end of expression',
    ['('.repeat(1_500) + ')'.repeat(1_500)]: 'expression nests too deeply',
  };
  for (const [pattern, message] of Object.entries(cases)) {
    assert.throws(() => new Regex(pattern), {
      name: 'RegexSyntaxError',
      message: `error parsing regexp: ${message}`,
    });
  }
  assert.throws(() => new Regex('(((a{100}){100}){100}){100}'), /invalid repeat count/);
  assert.throws(() => new Regex('a{1000}'.repeat(60)), /expression too large/);
});

suite('find', () => {
  const cases: readonly (readonly [
    pattern: string,
    text: string,
    first: string | undefined,
    all: readonly string[],
  ])[] = [
    ['a+b?', 'aab caab a', 'aab', ['aab', 'aab', 'a']],
    ['a*', 'baac', '', ['', 'aa', '']],
    ['a+?', 'aaa', 'a', ['a', 'a', 'a']],
    ['(?U)a+', 'aaa', 'a', ['a', 'a', 'a']],
    ['(a|ab)(c|bcd)', 'xabcd', 'abcd', ['abcd']],
    ['b|ab', 'ab', 'ab', ['ab']],
    ['z', 'abc', undefined, []],
    ['.', '😀a', '😀', ['😀', 'a']],
    ['^a', 'aaa', 'a', ['a']],
    [String.raw`\bx`, 'x xx', 'x', ['x', 'x']],
  ];
  for (const [pattern, text, first, all] of cases) {
    test(`${pattern} in ${text}`, () => {
      const regex = new Regex(pattern);
      const found = regex.find(text);
      assert.equal(found === undefined ? undefined : text.slice(...found), first);
      assert.deepEqual(regex.findAll(text), all);
    });
  }
  test('a limit', () => assert.deepEqual(new Regex('a').findAll('aaa', 2), ['a', 'a']));
});

/** Patterns that mean the same in JavaScript. */
const { pattern } = fc.letrec<{ pattern: string; part: string }>((tie) => ({
  part: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(
      'a',
      'b',
      'c',
      '.',
      '[ab]',
      '[^a]',
      String.raw`\d`,
      String.raw`\w`,
      '^',
      '$',
      String.raw`\b`,
      'é',
    ),
    fc
      .tuple(tie('pattern'), fc.constantFrom('', '*', '+', '?', '{2}', '{0,2}', '*?', '+?'))
      .map(([p, q]) => `(?:${p})${q}`),
  ),
  pattern: fc.oneof(
    { maxDepth: 4 },
    tie('part'),
    fc.tuple(tie('pattern'), tie('pattern')).map(([a, b]) => `${a}${b}`),
    fc.tuple(tie('pattern'), tie('pattern')).map(([a, b]) => `(?:${a}|${b})`),
  ),
}));
const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '1', ' ', '\n', 'é', '😀'), maxLength: 8 });

test('the answers of JavaScript where the syntax is shared', () => {
  fc.assert(
    fc.property(pattern, letters, (source, text) => {
      const regex = new Regex(source);
      assert.equal(regex.test(text), new RegExp(source, 'u').test(text));
      assert.equal(regex.find(text) !== undefined, regex.test(text));
    }),
    { numRuns: 2_000 },
  );
});

test('first matches are those of JavaScript, without empty loops', () => {
  // An empty round of a loop is where Perl and RE2 part.
  const simple = fc
    .array(
      fc.tuple(
        fc.constantFrom('a', 'b', '[ab]', '.', '(?:a|ab)', '(?:b|bc)'),
        fc.constantFrom('', '*', '+', '?', '*?', '+?', '??', '{1,2}'),
      ),
      { minLength: 1, maxLength: 5 },
    )
    .map((parts) => parts.map(([atom, count]) => atom + count).join(''));
  fc.assert(
    fc.property(simple, letters, (source, text) => {
      const found = new Regex(source).find(text);
      const expected = new RegExp(source, 'u').exec(text);
      assert.deepEqual(
        found,
        expected === null ? undefined : [expected.index, expected.index + expected[0].length],
      );
    }),
    { numRuns: 2_000 },
  );
});

test('random patterns compile or fail with the one kind of error', () => {
  const noise = fc.string({
    unit: fc.constantFrom(...Array.from('abc()[]{}*+?|^$.\\-:,0123456789PpQEdwsinmU<>=!&')),
    maxLength: 20,
  });
  fc.assert(
    fc.property(noise, letters, (source, text) => {
      try {
        new Regex(source).test(text);
      } catch (error) {
        assert.equal((error as Error).name, 'RegexSyntaxError', String(error));
      }
    }),
    { numRuns: 3_000 },
  );
});

suite('no pattern runs away', () => {
  // Each takes 2^n steps, or n^3 and more, in an engine that backtracks.
  const evil = [
    '^(a+)+$',
    '^(a|a)*$',
    '^(a|aa)+$',
    '^(.*a){12}$',
    '(a*)*b',
    'a*a*a*a*a*b',
    '^(([a-z])+.)+[A-Z]([a-z])+$',
  ];
  for (const source of evil) {
    test(source, () => {
      const text = `${'a'.repeat(200_000)}!`;
      assert.equal(new Regex(source).test(text), false);
    });
  }
  test('a huge pattern on a huge text ends with a typed error', () => {
    // Almost every position of this text is a state that was not met before.
    let text = '';
    for (let index = 0; text.length < 400_000; index++) text += (index * index) % 7 < 3 ? 'ab' : 'b';
    const digits = Array.from({ length: 400_000 }, (_, index) =>
      Math.imul(index, 2_654_435_761) >>> 31 === 0 ? 'a' : 'b',
    );
    assert.throws(() => new Regex('(?:a|b)*a(?:a|b){900}c').test(digits.join('')), RegexBudgetError);
    assert.equal(new Regex('(?:a|b)*a(?:a|b){5}c').test(text), false);
  });
  test('a pattern of thousands of states stays right', () => {
    const regex = new Regex('(?:a|b)*a(?:a|b){12}$');
    let text = '';
    for (let index = 0; index < 60_000; index++) text += (index * 7_919) % 13 < 6 ? 'a' : 'b';
    for (const end of ['a', 'b']) {
      const whole = text + end;
      assert.equal(regex.test(whole), whole.at(-13) === 'a');
    }
  });
});

test('texts between matches, as Go splits', () => {
  const cases: readonly (readonly [pattern: string, text: string, parts: readonly string[]])[] = [
    ['a', 'banana', ['b', 'n', 'n', '']],
    ['a', '', ['']],
    ['', 'a😀', ['a', '😀']],
    ['', '', []],
    ['z*', 'pizza', ['p', 'i', 'a']],
    ['^', 'ab', ['ab']],
  ];
  for (const [source, text, parts] of cases) assert.deepEqual(new Regex(source).split(text), parts, source);
});

test('replacements with groups, as Go expands them', () => {
  const cases: readonly (readonly [pattern: string, text: string, by: string, expected: string])[] = [
    ['(a)(b)?', 'ab a', '<$1$2>', '<ab> <a>'],
    ['(?P<n>a)', 'a', '$n-${n}x$nx$$', 'a-ax$'],
    ['a', 'aa', '$1$3${x}', ''],
    ['', 'ab', '-', '-a-b-'],
    ['x*', 'axb', '-', '-a-b-'],
    ['a', 'a', '$&$', '$&$'],
  ];
  for (const [source, text, by, expected] of cases)
    assert.equal(new Regex(source).replaceAll(text, by), expected, source);
});
