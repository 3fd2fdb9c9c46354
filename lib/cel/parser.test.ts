/** The syntax of CEL, by cel-spec (`doc/langdef.md`) and cel-go (`parser/gen/CEL.g4`, `parser/parser_test.go`). */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { Scope } from './environment.ts';
import { evaluationMessage } from './messages.ts';
import { compile } from './program.ts';

const scope = new Scope({ n: { type: { kind: 'int' } }, m: { type: { kind: 'dyn' } } });

function outcome(source: string): unknown {
  const program = compile(source, 'bool', scope);
  if (typeof program === 'string') return program.split('\n', 1)[0];
  const { value, error } = program.run({ n: 3n, m: { a: 1 } });
  return error === undefined ? value : evaluationMessage(error);
}

suite('expressions that hold', () => {
  const raw = String.raw;
  for (const source of [
    `true${' && true'.repeat(7_000)}`,
    `false${' || false'.repeat(6_000)} || true`,
    '1 < 2 == true',
    '!!true && --1 == 1 && !!!false && ---1 == -1 && - 1 == 0 - 1 && -n == -3 && --n == 3',
    '-9223372036854775808 + 1 == -0x7fffffffffffffff',
    '.5 + 1.5e1 == 15.5 && 0x10 == 16 && 0xFFu == 255u && 1e3 == 1000.0',
    raw`b'é'.size() == 2 && b'\xc3\xa9' == b'é' && b'\303\251' == bytes('é') && bR'\n'.size() == 2`,
    raw`r'\d' == '\\d' && R"a'b" == 'a\'b' && r'''a'b''' == "a'b"`,
    raw`'\a\b\f\n\r\t\v\\\?\"\'\`' == '\x07\x08\x0c\x0a\u000d\U00000009\013\134?\x22\x27\x60'`,
    "'''a\nb''' == \"a\\nb\" // the rest is a comment",
    '"""a"b""" == \'a"b\'',
    '// a comment\n true // another\n',
    "[1, 2,].size() == 2 && {'a': 1,}.size() == 1 && [].size() == 0 && {}.size() == 0",
    '[?optional.of(1), ?optional.none(), 2] == [1, 2] && [?m.?a, ?m.?b] == [dyn(1)]',
    "{?'a': optional.of(1), ?'b': optional.none()} == {'a': 1}",
    '.n == 3',
    'true ? (false ? 1 == 2 : true) : false ? false : false',
    '[1].map(x, x)[0] == 1 && [[1, 2]][0][1] == 2',
    '2 + 3 * 4 - 6 / 2 % 2 == 13 && (2 + 3) * 4 == 20 && 7 - 2 - 1 == 4',
    'n in [3] == true && !(n in [4])',
    "{'namespace': 1}.namespace == 1 && {'if': 2}.if == 2",
    `${'('.repeat(200)}true${')'.repeat(200)}`,
  ]) {
    test(
      source.length > 200 ? `${source.slice(0, 40)}... (${source.length})` : JSON.stringify(source),
      () => {
        assert.equal(outcome(source), true);
      },
    );
  }
});

suite('errors in other expressions', () => {
  const operand =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
  const cases: Readonly<Record<string, string>> = {
    "true&& 'abc": "1:8: Syntax error: token recognition error at: ''abc'",
    'n # 1': "1:3: Syntax error: token recognition error at: '#'",
    'm.': "1:3: Syntax error: no viable alternative at input '.'",
    'm.true == 1': "1:3: Syntax error: no viable alternative at input '.true'",
    'n >': `1:4: Syntax error: mismatched input '<EOF>' expecting ${operand}`,
    '': `1:1: Syntax error: mismatched input '<EOF>' expecting ${operand}`,
    'n > && true': `1:5: Syntax error: mismatched input '&&' expecting ${operand}`,
    '(n > 1': "1:7: Syntax error: missing ')' at '<EOF>'",
    '[1, 2': "1:6: Syntax error: missing ']' at '<EOF>'",
    'n > 1)': "1:6: Syntax error: extraneous input ')' expecting <EOF>",
    'n == 1 n': "1:8: Syntax error: extraneous input 'n' expecting <EOF>",
    'true ? 1': "1:9: Syntax error: missing ':' at '<EOF>'",
    // Only the second alternative may be a condition again.
    'true ? false ? true : true : true': "1:14: Syntax error: mismatched input '?' expecting ':'",
    'package == 1': '1:1: Syntax error: reserved identifier: package',
    '9223372036854775808 > 0': '1:1: Syntax error: invalid int literal',
    '-9223372036854775809 < 0': '1:2: Syntax error: invalid int literal',
    '18446744073709551616u > 0u': '1:1: Syntax error: invalid uint literal',
    '1e999 > 0.0': '1:1: Syntax error: invalid double literal',
    [String.raw`'\q' == ''`]: '1:1: Syntax error: invalid string literal: unable to unescape string',
    [String.raw`'\ud800' == ''`]: '1:1: Syntax error: invalid string literal: unable to unescape string',
    'n\n  > nosuch': "2:5: undeclared reference to 'nosuch' (in container '')",
    "'😀' == nosuch": "1:8: undeclared reference to 'nosuch' (in container '')",
    'Object{a: 1} == 1': "1:7: undeclared reference to 'Object' (in container '')",
    'true == 1 < 2': "1:6: found no matching overload for '_==_' applied to '(bool, int)'",
    '[?1] == [1]': "1:3: expected type 'optional_type(int)' but found 'int'",
    [`${'('.repeat(300)}true${')'.repeat(300)}`]:
      '1:1: Syntax error: expression recursion limit exceeded: 250',
    [`1${' +1'.repeat(20_000)} > 0`]: '1:1: Syntax error: expression recursion limit exceeded',
    [`true${' && true'.repeat(9_000)}`]:
      '1:1: Syntax error: expression code point size exceeds limit: size: 72004, limit 65536',
  };
  for (const [source, wanted] of Object.entries(cases)) {
    test(source.length > 200 ? wanted : JSON.stringify(source), () => {
      assert.equal(outcome(source), `ERROR: <input>:${wanted}`);
    });
  }

  test('a key that stands twice is an error of the run', () => {
    assert.equal(outcome("{'a': 1, 'a': 2}.size() == 1"), 'Failed with repeated key: a');
  });
});
