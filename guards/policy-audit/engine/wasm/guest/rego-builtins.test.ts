/**
 * Results of Open Policy Agent, by its documentation, its sources (`topdown`), and Go's packages that it
 * uses. Errors end the evaluation; only the builtins that are undefined for some operands there (`undefined`)
 * are here too.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { call, error, judge, set } from './builtin-table.fixture.ts';
import { newContext } from './builtin.ts';
import { builtins } from './rego-builtins.ts';
import { parseValue, valueText } from './rego-value.ts';

judge('regular expressions are those of RE2', [
  ['regex.find_n', ['[oa]+', 'foo bar goo', 2], ['oo', 'a']],
  ['regex.find_n', ['[oa]+', 'foo bar goo', -1], ['oo', 'a', 'oo']],
  ['regex.find_n', ['[oa]+', 'foo', 0], []],
  ['regex.find_n', ['a*', 'baac', -1], ['', 'aa', '']],
  ['regex.find_n', ['(?i)FOO', 'a Foo', -1], ['Foo']],
  ['regex.find_n', ['[[:alpha:]]+', '1ab2', -1], ['ab']],
  ['regex.find_n', [String.raw`o\z`, 'foo\no', -1], ['o']],
  ['regex.find_n', ['(?P<x>o)', 'foo', 1], ['o']],
  ['regex.find_n', ['(', 'a', 1], error(/missing closing \)/)],
  ['regex.find_n', ['(?=a)', 'a', 1], error(/invalid or unsupported Perl syntax/)],
  ['regex.find_n', [1, 'a', 1], error(/^operand 1 must be string but is number$/)],
  ['regex.find_n', ['(a+)+$', `${'a'.repeat(40)}!`, 1], []],
  ['regex.split', ['[,;] ?', 'a, b;c'], ['a', 'b', 'c']],
  ['regex.split', ['a', ''], ['']],
  ['regex.split', ['', 'abc'], ['a', 'b', 'c']],
  ['regex.split', ['x*', 'axbxc'], ['a', 'b', 'c']],
  ['regex.split', ['a', 'banana'], ['b', 'n', 'n', '']],
  ['regex.split', ['[', 'a'], error(/missing closing \]/)],
  ['regex.replace', ['a1b22', '[0-9]+', '#'], 'a#b#'],
  ['regex.replace', ['ab ab', '(a)(b)', '$2$1'], 'ba ba'],
  ['regex.replace', ['ab', '(?P<first>a)', '${first}${1}$first_$$'], 'aa$b'],
  ['regex.replace', ['abc', 'x*', '-'], '-a-b-c-'],
  ['regex.replace', ['A', '(?i)a', '$&'], '$&'],
  ['regex.replace', ['a', '*', ''], error(/missing argument to repetition operator/)],
  ['regex.template_match', ['urn:foo:{.*}', 'urn:foo:bar:baz', '{', '}'], true],
  ['regex.template_match', ['urn:foo:{[a-z]{2}}', 'urn:foo:b', '{', '}'], false],
  ['regex.template_match', ['urn:foo:<.*>', 'urn:foo:{.*}', '{', '}'], false],
  ['regex.template_match', ['a.b:<(?i)c>', 'a.b:C', '<', '>'], true],
  ['regex.template_match', ['a.b', 'axb', '<', '>'], false],
  ['regex.template_match', ['urn:{', 'urn:', '{', '}'], error(/not balanced/)],
  ['regex.template_match', ['urn:}{', 'urn:', '{', '}'], error(/not balanced/)],
  ['regex.template_match', ['a', 'a', '<<', '>'], error(/one ASCII character/)],
  ['regex.template_match', ['<(>', 'a', '<', '>'], error(/missing closing \)/)],
]);

judge('sprintf is that of Go', [
  ['sprintf', ['label %v is missing', ['team']], 'label team is missing'],
  ['sprintf', ['%s has %d of %v', ['a', 3, ['x', 1]]], 'a has 3 of ["x", 1]'],
  ['sprintf', ['%v %v %v', [null, true, { b: 1, a: set(2, 1) }]], 'null true {"a": {1, 2}, "b": 1}'],
  ['sprintf', ['%v %v %s', [set(), set('b', 'a'), set('x')]], 'set() {"a", "b"} {"x"}'],
  ['sprintf', ['%v', [new Map<unknown, unknown>([[1, 'a']])]], '{1: "a"}'],
  ['sprintf', ['%05d|%-4s|%4s|%x|%q', [42, 'a', 'b', 255, 'c']], '00042|a   |   b|ff|"c"'],
  [
    'sprintf',
    ['%+d|% d|%-5d|%5d|%05d|%.3d|%#x|%X|%o|%b', [1, 2, 3, 4, -5, 6, 255, 255, 8, 5]],
    '+1| 2|3    |    4|-0005|006|0xff|FF|10|101',
  ],
  ['sprintf', ['%c%c|%U|%q', [71, 228, 128512, 120]], "Gä|U+1F600|'x'"],
  ['sprintf', ['%.2f%%', [12.345]], '12.35%'],
  [
    'sprintf',
    ['%v %v %v %g %e %.3g', [0.1, 1234567.5, 0.00001, 2.5, 1500.5, 1234.5]],
    '0.1 1.2345675e+06 1e-05 2.5 1.500500e+03 1.23e+03',
  ],
  ['sprintf', ['%08.3f|%+.1f|%6.1f|%-6.1f|', [2.71849, 2.5, 2.25, 2.5]], '0002.718|+2.5|   2.2|2.5   |'],
  ['sprintf', ['%t %d', [true, 1.5]], '%!t(string=true) %!d(float64=1.5)'],
  ['sprintf', ['%d', ['a']], '%!d(string=a)'],
  ['sprintf', ['%s', [3]], '%!s(int=3)'],
  ['sprintf', ['%d', [12345678901234567890n]], '12345678901234567890'],
  ['sprintf', ['%s and %s', ['a']], 'a and %!s(MISSING)'],
  ['sprintf', ['a', ['b', 1]], 'a%!(EXTRA string=b, int=1)'],
  ['sprintf', ['%[2]s %[1]s', ['a', 'b']], 'b a'],
  ['sprintf', ['%[3]s', ['a', 'b']], '%!s(BADINDEX)'],
  ['sprintf', ['%*d|%.*f', [4, 7, 1, 2.55]], '   7|2.5'],
  ['sprintf', ['%', []], '%!(NOVERB)'],
  ['sprintf', ['%z %T', [1, 'a']], '%!z(int=1) string'],
  ['sprintf', ['%.2s|%x|%q', ['héllo', 'hi', 'a"\n']], String.raw`hé|6869|"a\"\n"`],
  ['sprintf', [1, []], error(/operand 1 must be string/)],
  ['sprintf', ['a', 'b'], error(/operand 2 must be array but is string/)],
]);

judge('versions, strings and numbers', [
  ['glob.quote_meta', ['*.github.com'], String.raw`\*.github.com`],
  ['glob.quote_meta', [String.raw`?[a]{b}\ `], String.raw`\?\[a\]\{b\}\\ `],
  ['semver.is_valid', ['1.2.3-rc.1+b'], true],
  ['semver.is_valid', ['v1.2.3'], false],
  ['semver.is_valid', ['01.2.3'], false],
  ['semver.is_valid', ['1.2.3-'], false],
  ['semver.is_valid', ['1.2.3+'], false],
  ['semver.is_valid', ['1.2.3-alpha.01'], false],
  ['semver.is_valid', ['1.2.3-0a+01'], true],
  ['semver.is_valid', ['1.2'], false],
  ['semver.is_valid', ['1.2.3-a..b'], false],
  ['semver.is_valid', [1], false],
  ['semver.compare', ['1.10.0', '1.9.0'], 1],
  ['semver.compare', ['1.0.0-rc.2', '1.0.0-rc.10'], -1],
  ['semver.compare', ['1.0.0-1', '1.0.0-a'], -1],
  ['semver.compare', ['1.0.0', '1.0.0-rc'], 1],
  ['semver.compare', ['1.0.0+a', '1.0.0+b'], 0],
  ['semver.compare', ['1.0.0-a', '1.0.0-a.1'], -1],
  ['semver.compare', ['1.0', '1.0.0'], error(/operand 1 must be a semantic version but is "1.0"/)],
  ['indexof_n', ['ababa', 'aba'], [0, 2]],
  ['indexof_n', ['😀a', 'a'], [1]],
  ['indexof_n', ['a', 'b'], []],
  ['indexof_n', ['a', ''], error(/empty/)],
  ['strings.count', ['cheese', 'e'], 3],
  ['strings.count', ['five', ''], 5],
  ['strings.reverse', ['a😀b'], 'b😀a'],
  ['strings.any_prefix_match', ['foobar', set('x', 'foo')], true],
  ['strings.any_prefix_match', [['a', 'b'], 'c'], false],
  ['strings.any_suffix_match', [['a.io', 'b.com'], ['.com']], true],
  ['strings.any_suffix_match', ['a', [1]], error(/must be string/)],
  ['numbers.range_step', [1, 7, 3], [1, 4, 7]],
  ['numbers.range_step', [3, -3, 4], [3, -1]],
  ['numbers.range_step', [1, 2, 0], error(/positive/)],
  ['numbers.range_step', [1.5, 2, 1], error(/operand 1 must be integer/)],
  ['rand.intn', ['a', 0], 0],
  ['rand.intn', ['a', 1], 0],
  ['units.parse', ['1.5Ki'], 1536],
  ['units.parse', ['100m'], 0.1],
  ['units.parse', ['1500m'], 1.5],
  ['units.parse', ['0.5M'], 500_000],
  ['units.parse', ['"10k"'], 10_000],
  ['units.parse', ['-2Gi'], -(2 ** 31)],
  ['units.parse', ['1e3'], 1000],
  ['units.parse', ['100TI'], 109_951_162_777_600],
  ['units.parse', ['1.1Ki'], 1126.4],
  ['units.parse', ['-3.5E2m'], -0.35],
  ['units.parse', ['.0'], 0],
  ['units.parse', ['10e10000000Ei'], error(/exponent is too large/)],
  ['units.parse', ['1E'], 10n ** 18n],
  ['units.parse', ['16Ei'], 2n ** 64n],
  ['units.parse', ['1 Ki'], error(/spaces/)],
  ['units.parse', ['Ki'], error(/no number/)],
  ['units.parse', ['1.2.3'], error(/not a number/)],
  ['units.parse', ['1B'], error(/unit "B" is unknown/)],
  ['units.parse_bytes', ['1GB'], 1e9],
  ['units.parse_bytes', ['2MiB'], 2 ** 21],
  ['units.parse_bytes', ['2mi'], 2 ** 21],
  ['units.parse_bytes', ['0.1kib'], 102],
  ['units.parse_bytes', ['100'], 100],
  ['units.parse_bytes', ['1e2k'], 100_000],
  ['units.parse_bytes', ['a'], error(/no number/)],
  ['units.parse_bytes', ['1bb'], error(/unit "bb" is unknown/)],
  ['units.parse_bytes', ['1b'], error(/unit "b" is unknown/)],
]);

judge('objects, arrays, graphs', [
  ['array.reverse', [[1, 2]], [2, 1]],
  ['array.flatten', [[1, [2, [3]]]], [1, 2, [3]]],
  ['object.keys', [{ b: 1, a: 2 }], set('a', 'b')],
  ['object.union_n', [[{ a: { b: 2 } }, { a: 4 }, { a: { c: 3 } }]], { a: { c: 3 } }],
  ['object.union_n', [[{ a: { b: 2 } }, { a: { c: 3 }, d: 1 }]], { a: { b: 2, c: 3 }, d: 1 }],
  ['object.union_n', [[1]], error(/must be object/)],
  ['object.subset', [{ a: 1, b: { c: [1, 2], d: 2 } }, { b: { c: [2] } }], true],
  ['object.subset', [{ a: 1 }, { a: 2 }], false],
  ['object.subset', [set(1, 2), set(2)], true],
  [
    'object.subset',
    [
      [1, 2, 3],
      [2, 3],
    ],
    true,
  ],
  [
    'object.subset',
    [
      [1, 2, 3],
      [1, 3],
    ],
    false,
  ],
  ['object.subset', [[1, 2, 3], set(3, 1)], true],
  ['object.subset', [1, 1], error(/objects, sets or arrays/)],
  ['graph.reachable_paths', [{ a: ['b'], b: ['c'], c: [] }, ['a']], set(['a', 'b', 'c'])],
  ['graph.reachable_paths', [{ a: ['b'], b: ['a'] }, ['a']], set(['a', 'b'])],
  ['graph.reachable_paths', [{ a: ['b', 'x'], b: [] }, set('a', 'z')], set(['a', 'b'], ['a'])],
  ['graph.reachable_paths', [{ a: ['b'], b: ['none'] }, set('a', 'b')], set(['a', 'b'], ['b'])],
  ['graph.reachable_paths', [{ a: null }, ['a', 'none']], set(['a'])],
  ['graph.reachable_paths', [{ a: ['b', 'c'], b: ['c'], c: [] }, ['a']], set(['a', 'b', 'c'], ['a', 'c'])],
  ['graph.reachable_paths', [[], ['a']], error(/operand 1 must be object/)],
]);

judge('networks', [
  ['net.cidr_is_valid', ['10.0.0.0/8'], true],
  ['net.cidr_is_valid', ['10.0.0.0/33'], false],
  ['net.cidr_is_valid', [1], false],
  ['net.cidr_expand', ['192.168.0.5/30'], set('192.168.0.4', '192.168.0.5', '192.168.0.6', '192.168.0.7')],
  ['net.cidr_expand', ['2001:db8::/127'], set('2001:db8::', '2001:db8::1')],
  ['net.cidr_expand', ['10.0.0.0/8'], error(/more than/)],
  ['net.cidr_expand', ['a'], error(/"a" is not a CIDR address/)],
  ['net.cidr_merge', [['192.0.128.0/24', '192.0.129.0/24']], set('192.0.128.0/23')],
  ['net.cidr_merge', [set('10.0.0.0/8', '10.1.0.0/16', '11.0.0.0/9')], set('10.0.0.0/8', '11.0.0.0/9')],
  ['net.cidr_merge', [['192.0.128.0', '192.0.129.0']], set('192.0.128.0/23')],
  ['net.cidr_merge', [['2601:600::/32', '2601:601::/32', '10.0.0.0/8']], set('2601:600::/31', '10.0.0.0/8')],
  ['net.cidr_merge', [['2601:600::7b3/64', '2601:600::7b3/128']], set('2601:600::/64')],
  ['net.cidr_merge', [['::1']], error(/prefix length/)],
  ['net.cidr_contains_matches', ['1.1.1.0/24', '1.1.1.128'], set(['1.1.1.0/24', '1.1.1.128'])],
  [
    'net.cidr_contains_matches',
    [
      ['1.1.0.0/16', '1.1.2.0/24'],
      ['1.1.1.128', '1.1.2.0/25'],
    ],
    set([0, 0], [0, 1], [1, 1]),
  ],
  ['net.cidr_contains_matches', [{ k: '1.1.0.0/16' }, set(['1.1.1.1', 'x'])], set(['k', ['1.1.1.1', 'x']])],
  ['net.cidr_contains_matches', ['x', '1.1.1.1'], error(/not a CIDR address/)],
]);

const at = 1_700_000_000_123_456_789n;

judge('times', [
  ['time.parse_rfc3339_ns', ['1970-01-01T00:00:01.000000005Z'], 1_000_000_005],
  ['time.parse_rfc3339_ns', ['1970-01-01T01:00:00+01:00'], 0],
  ['time.parse_rfc3339_ns', ['2023-11-14T22:13:20.123456789Z'], at],
  ['time.parse_rfc3339_ns', ['yesterday'], error(/not a time of the layout/)],
  ['time.parse_rfc3339_ns', ['2023-02-29T00:00:00Z'], error(/day out of range/)],
  ['time.parse_rfc3339_ns', ['2300-01-01T00:00:00Z'], error(/out of range/)],
  ['time.parse_ns', ['2006-01-02', '2023-11-14'], 1_699_920_000_000_000_000n],
  ['time.parse_ns', ['RFC1123', 'Tue, 14 Nov 2023 22:13:20 UTC'], 1_700_000_000_000_000_000n],
  ['time.parse_ns', ['RFC822Z', '14 Nov 23 22:13 +0100'], 1_699_996_380_000_000_000n],
  ['time.parse_ns', ['Jan _2 2006 3:04PM', 'nov  4 2023 10:13PM'], 1_699_135_980_000_000_000n],
  ['time.parse_ns', ['15:04:05', '22:13:20.5'], error(/out of range/)],
  ['time.parse_ns', ['2006 002', '2024 060'], 1_709_164_800_000_000_000n],
  ['time.parse_ns', ['2006-01-02', '2023-13-14'], error(/month out of range/)],
  ['time.parse_ns', ['2006-01-02', '2023-11-14 '], error(/" " is left/)],
  ['time.format', [at], '2023-11-14T22:13:20.123456789Z'],
  ['time.format', [[at, 'Europe/Berlin', 'RFC3339']], '2023-11-14T23:13:20+01:00'],
  [
    'time.format',
    [[at, 'UTC', 'Mon Jan _2 03:04:05.000 pm 2006 002 MST -0700']],
    'Tue Nov 14 10:13:20.123 pm 2023 318 UTC +0000',
  ],
  ['time.format', [[at, '', 'Monday, 2 January 06']], 'Tuesday, 14 November 23'],
  ['time.parse_duration_ns', ['1h30m'], 5400e9],
  ['time.parse_duration_ns', ['-1.5s'], -1.5e9],
  ['time.parse_duration_ns', ['2562047h47m16.854775807s'], 9_223_372_036_854_775_807n],
  ['time.parse_duration_ns', ['1 day'], error(/not a duration/)],
  ['time.date', [at], [2023, 11, 14]],
  ['time.date', [-1], [1969, 12, 31]],
  ['time.clock', [at], [22, 13, 20]],
  ['time.clock', [[at, 'Europe/Berlin']], [23, 13, 20]],
  ['time.clock', [[0, 'Nowhere/There']], error(/unknown time zone Nowhere\/There/)],
  ['time.clock', [[0, '+01:00']], error(/unknown time zone/)],
  ['time.clock', ['x'], error(/operand 1 must be integer/)],
  ['time.clock', [2n ** 63n], error(/out of range/)],
  ['time.weekday', [0], 'Thursday'],
  ['time.add_date', [0, 1, 2, 3], BigInt(Date.UTC(1971, 2, 4)) * 1_000_000n],
  ['time.add_date', [at, 0, 0, 1], at + 86_400_000_000_000n],
  ['time.add_date', [[1_698_400_800_000_000_000n, 'Europe/Berlin'], 0, 0, 3], 1_698_663_600_000_000_000n],
  ['time.add_date', [0, 1.5, 0, 0], error(/operand 2 must be integer/)],
  ['time.diff', [0, 1_000_000_000], [0, 0, 0, 0, 0, 1]],
  ['time.diff', [at, 0], [53, 10, 13, 22, 13, 20]],
]);

suite('builtins of Rego', () => {
  test('trace and print say what they are given', () => {
    const said: string[] = [];
    const saying = newContext((text) => void said.push(text));
    assert.equal(builtins['trace']?.(['here'], saying), true);
    assert.equal(builtins['internal.print']?.([[set('a'), set(1), set(), set(['x'])]], saying), true);
    assert.deepEqual(said, ['here', 'a 1 <undefined> ["x"]']);
  });

  test('within an evaluation, the time stands still, and what is random stays', () => {
    const [now, uuid] = [call('time.now_ns'), call('uuid.rfc4122', 'a')];
    assert.ok((now as bigint) <= BigInt(Date.now()) * 1_000_000n);
    assert.equal(call('time.now_ns'), now);
    assert.equal(call('uuid.rfc4122', 'a'), uuid);
    assert.notEqual(call('uuid.rfc4122', 'b'), uuid);
    assert.notEqual(
      builtins['uuid.rfc4122']?.(
        ['a'],
        newContext(() => undefined),
      ),
      uuid,
    );
  });

  test('values are read and written as modules do', () => {
    for (const text of [
      '{"a": [1, null, true]}',
      '{1, "x"}',
      'set()',
      '{}',
      '{[1]: {2: 3}}',
      '12345678901234567890',
      '-1.5',
    ])
      assert.equal(valueText(parseValue(text)), text);
    for (const text of ['', '{1: 2, 3}', '[1', '1 2', '{,}'])
      assert.throws(() => parseValue(text), SyntaxError);
  });
});
