/**
 * The language, by the sections of the tests of its specification (https://github.com/google/cel-spec, `tests/simple`), with
 * cel-go's options as Kubernetes 1.34 sets them (apiserver `pkg/cel/environment/base.go`).
 */
import { Scope } from '../../lib/cel/environment.ts';
import { evaluationMessage } from '../../lib/cel/messages.ts';
import { measured } from '../../lib/cel/meter.ts';
import { compileExpression } from '../../lib/cel/program.ts';
import { conformance, type ExpressionCase, nothingHere, type Section } from './section.fixture.ts';

const noProtobuf = 'Kubernetes has no messages of protobuf in expressions';
const homogeneous = 'Kubernetes refuses literals of lists and maps with several types';
const checked = 'Kubernetes checks types before it evaluates';

const sections: readonly Section<ExpressionCase>[] = [
  {
    name: 'basic',
    cases: [
      "0 == 0 && 0u == 0u && 0.0 == 0.0 && '' == '' && b'' == b'' && !false && null == null && [] == [] && {} == {}",
      String.raw`42 == 0x2a && 123456789u == 0x75bcd15u && -2.3e+1 == -23.0 && '"' == "\"" && '' != ' '`,
      String.raw`'\u00ff' == 'ÿ' && b'\377' != b'ÿ' && '\x41\101\u0041\U00000041' == 'AAAA'`,
      'false || true && !(1 == 2)',
      'x == 123 && x + 1 == 124',
      'int == type(1) && true != false',
    ],
    ...nothingHere('names that nothing declares', checked),
  },
  {
    name: 'bindings_ext',
    cases: [
      'cel.bind(t, true, t) && cel.bind(a, 1, cel.bind(b, a + 1, b == 2))',
      "cel.bind(msg, 'hello', msg + msg + msg) == 'hellohellohello'",
      'cel.bind(valid, [1, 2, 3], [3, 4, 5].exists(e, e in valid))',
      'cel.bind(x, x + 1, x == 124)',
    ],
  },
  {
    name: 'block_ext',
    ...nothingHere('cel.block', 'a form that optimizers of cel-go make, which nobody writes'),
  },
  {
    name: 'comparisons',
    cases: [
      "1 == 1 && 1u == 1u && 1.5 == 1.5 && 'a' == 'a' && b'a' == b'a' && true == true && [1] == [1] && {'a': 1} == {'a': 1}",
      "-1 != 1 && 1.5 != 2.5 && 'abc' != 'ABC' && [1, 2] != [2, 1] && {'a': 1} != {'a': 2} && {'a': 1} != {'b': 1}",
      "dyn(1) == 1u && dyn(1) == 1.0 && dyn(1u) == 1.0 && dyn(3.0) == 3 && dyn([1]) == [1.0] && dyn({'a': 1}) == {'a': 1.0}",
      "dyn(1) != 'a' && dyn(null) != 0 && dyn([]) != {} && dyn('1') != 1 && dyn(b'a') != 'a'",
      'double("NaN") != double("NaN") && !(double("NaN") == double("NaN"))',
      "0 < 1 && -1 < 0 && 0u < 1u && 0.5 < 1.0 && 'a' < 'b' && 'A' < 'a' && 'ab' < 'b' && b'a' < b'b' && false < true",
      "'\u{e1}' > 'b' && '\u{10000}' > '\uffff' && 'a' < 'aa' && '' < 'a'",
      'dyn(1) < 2u && dyn(1u) < 1.5 && dyn(2.5) > 2 && dyn(-1) < 0u && dyn(1) <= 1.0 && dyn(2u) >= 2',
      'dyn(9223372036854775807) < 9223372036854775808.0 ? false : true',
      'dyn(9223372036854775808.0) > 9223372036854775807 ? false : true',
      'dyn(9223372036854775808.0) <= 9223372036854775807 && dyn(9223372036854775807) >= 9223372036854775808.0',
      'dyn(9223372036854775807) < 9223372036854775808u && dyn(18446744073709551615u) > 9223372036854775807',
      'dyn(18446744073709551615u) >= 18446744073709551616.0 && dyn(-9223372036854775809.0) <= -9223372036854775807',
      "1 in [1, 2] && !(3 in [1, 2]) && !(1 in []) && dyn(1.0) in [1, 2] && 'a' in {'a': 1} && !('b' in {'a': 1}) && dyn(2.0) in {2: 1}",
      'x == 123 && x != 122 && x >= 123 && x <= 123 && !(x < 123) && !(x > 123)',
      ["dyn(1) < 'a'", 'no such overload'],
      ['dyn([1]) < dyn([2])', 'no such overload'],
      ['1 == 1.0', "ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, double)'"],
    ],
    notApplicable: [
      { what: 'wrappers and messages', why: noProtobuf },
      { what: 'lists and maps of several types', why: homogeneous },
    ],
  },
  {
    name: 'conversions',
    cases: [
      String.raw`bytes('') == b'' && bytes('abc') == b'abc' && bytes('ÿ') == b'\303\277' && string(b'\303\277') == 'ÿ'`,
      "double(1) == 1.0 && double(1u) == 1.0 && double('123.456') == 123.456 && double('-987.654') == -987.654 && double('6.02214e23') == 6.02214e23",
      "double('1.38e-23') == 1.38e-23 && double('-84.32e7') == -8.432e8 && double('-5.43e-21') == -5.43e-21 && double('.5') == 0.5",
      "int(42u) == 42 && int(1.5) == 1 && int(-1.9) == -1 && int('987') == 987 && int('-1') == -1 && int(timestamp('2004-09-16T23:59:59Z')) == 1095379199",
      'int(9223372036854774784.0) == 9223372036854774784 && int(-9223372036854774784.0) == -9223372036854774784',
      "uint(1729) == 1729u && uint(3.14159265) == 3u && uint('300') == 300u && uint(25000000000.0) == 25000000000u",
      "string(123) == '123' && string(-456) == '-456' && string(9876u) == '9876' && string(123.456) == '123.456' && string(-4.5e-3) == '-0.0045'",
      "string(1e6) == '1e+06' && string(1e-5) == '1e-05' && string(100000.0) == '100000' && string(double('Infinity')) == '+Inf'",
      "string('abc') == 'abc' && string(b'abc') == 'abc' && string(true) == 'true' && string(duration('1h2m')) == '3720s'",
      "bool('true') && bool('1') && bool('t') && bool('TRUE') && !bool('false') && !bool('0') && !bool('f') && !bool('False')",
      "type(true) == bool && type(1) == int && type(1u) == uint && type(1.0) == double && type('') == string && type(b'') == bytes",
      'type([1]) == list && type({1: 1}) == map && type(null) == null_type && type(type(1)) == type && type(int) == type',
      'type(dyn(1)) == int && dyn(1u) == 1 && type(timestamp(0)) == google.protobuf.Timestamp',
      'int(int(1)) == 1 && string(string("a")) == "a" && duration(duration("1s")) == duration("1s")',
      ['int(9223372036854775807.0) == 0', 'integer overflow'],
      ['int(18446744073709551615u) == 0', 'integer overflow'],
      ['int(1e99) == 0', 'integer overflow'],
      ['uint(-1) == 0u', 'unsigned integer overflow'],
      ['uint(6.022e23) == 0u', 'unsigned integer overflow'],
      ["bool('tRuE')", 'strconv.ParseBool'],
      ["int('abc') == 1", 'strconv.ParseInt'],
      [String.raw`string(b'\000\xff') == ''`, 'invalid UTF-8'],
    ],
    ...nothingHere('lists of several types', homogeneous),
  },
  { name: 'dynamic', ...nothingHere('wrappers, Struct, Value, Any', noProtobuf) },
  {
    name: 'encoders_ext',
    ...nothingHere('base64', 'not in Kubernetes; cel-policy has it and is judged with it'),
  },
  { name: 'enums', ...nothingHere('enums', noProtobuf) },
  {
    name: 'fields',
    cases: [
      "{'k': 'v'}.k == 'v' && {'a': {'b': 1}}.a.b == 1 && {'k': 'v'}['k'] == 'v' && {1: 'a'}[1] == 'a' && {true: 'a'}[true] == 'a'",
      "dyn({1: 'a'})[1.0] == 'a' && dyn({1u: 'a'})[1] == 'a' && dyn({1: 'a'})[1u] == 'a'",
      "has({'a': 1}.a) && !has({'a': 1}.b) && !has({}.a) && has({'a': {'b': 1}}.a.b)",
      "'k' in {'k': 1} && !('q' in {'k': 1}) && {'k1': 'v', 'k2': ''}['k2'] == ''",
      ["{'a': 1}.b == 1", 'no such key: b'],
      ["{'a': 1}['b'] == 1", 'no such key: b'],
      ["dyn({1: 'a'})[1.1] == 'a'", 'no such key'],
      ["{'a': 1, 'a': 2}.size() == 1", 'Failed with repeated key'],
      ['has({"a": 1}.a.b.c)', 'ERROR'],
    ],
    notApplicable: [
      { what: 'names in backticks', why: 'Kubernetes leaves them off' },
      { what: 'names in containers', why: 'Kubernetes has none' },
      { what: 'keys of several types', why: homogeneous },
    ],
  },
  {
    name: 'fp_math',
    cases: [
      '4.25 + 15.25 == 19.5 && 42.0 - 12.0 == 30.0 && 42.0 * -0.5 == -21.0 && 0.0 * -0.5 == -0.0 && 1.5 / 0.5 == 3.0 && -(-4.5) == 4.5',
      '15.75 / 0.0 == double("Infinity") && -15.75 / 0.0 == double("-Infinity") && 0.0 / 0.0 != 0.0 / 0.0',
      '2.0 * 1.7e308 == double("Infinity") && -1.7e308 * 2.0 == double("-Infinity") && 1e308 + 1e308 > 1.7e308',
      ['dyn(47.5) % 5 == 2', 'no such overload'],
      ['dyn(1.0) + 1 == 2', 'no such overload'],
    ],
  },
  {
    name: 'integer_math',
    cases: [
      '40 + 2 == 42 && 42 - 12 == 30 && 42 * 2 == 84 && 42 / 2 == 21 && 47 % 5 == 2 && -(-42) == 42 && -42 / 5 == -8 && -42 % 5 == -2 && 42 % -5 == 2',
      '40u + 2u == 42u && 42u - 12u == 30u && 42u * 2u == 84u && 60u / 20u == 3u && 47u % 5u == 2u',
      '9223372036854775807 + -9223372036854775808 == -1 && (-9223372036854775807 - 1) % -1 == 0',
      ['15 / 0 == 0', 'division by zero'],
      ['34 % 0 == 0', 'modulus by zero'],
      ['15u / 0u == 0u', 'division by zero'],
      ['9223372036854775807 * 2 == 0', 'integer overflow'],
      ['-(-9223372036854775808) == 0', 'integer overflow'],
      ['(-9223372036854775807 - 1) / -1 == 0', 'integer overflow'],
      ['0u - 1u == 0u', 'unsigned integer overflow'],
      ['5000000000u * 5000000000u == 0u', 'unsigned integer overflow'],
      ['dyn(1) + 1u == 2u', 'no such overload'],
      ['-1u == 0u', 'ERROR'],
      ['9223372036854775808 == 1', 'ERROR'],
    ],
  },
  {
    name: 'lists',
    cases: [
      "[0, 1] + [2] == [0, 1, 2] && [] + [] == [] && [1] + [] == [1] && ['a'] + ['b'] == ['a', 'b']",
      "[7, 8, 9][0] == 7 && ['foo'][0] == 'foo' && dyn([7, 8])[1.0] == 8 && dyn([7, 8])[1u] == 8",
      "7 in [7] && !(0 in [7]) && 'elem' in ['a', 'elem'] && [1] in [[1], [2]]",
      'size([]) == 0 && size([1, 2]) == 2 && [1, 2, 3].size() == 3',
      ['[1, 2][3] == 1', 'index out of bounds: 3'],
      ['[1, 2][-1] == 1', 'index out of bounds: -1'],
      ['dyn([1, 2])[0.5] == 1', 'no such overload'],
      ["dyn([1])['a'] == 1", 'no such overload'],
    ],
    ...nothingHere('lists of several types', homogeneous),
  },
  {
    name: 'logic',
    cases: [
      "(true ? 1 : 2) == 1 && (false ? 'foo' : 'bar') == 'bar' && (true ? 1 : 1 / 0) == 1 && (false ? 1 / 0 : 1) == 1",
      '!(false && 1 / 0 == 1) && !(1 / 0 == 1 && false) && (true || 1 / 0 == 1) && (1 / 0 == 1 || true)',
      "!(false && dyn('a')) && !(dyn('a') && false) && (true || dyn('a')) && (dyn('a') || true)",
      '!false && !!true && !(!true)',
      ['true && 1 / 0 == 1', 'division by zero'],
      ['1 / 0 == 1 || false', 'division by zero'],
      ["dyn('a') && true", 'no such overload'],
      ["!dyn('a')", 'no such overload'],
      ["dyn('a') ? true : false", 'no such overload'],
      ['1 / 0 == 1 ? true : false', 'division by zero'],
    ],
    ...nothingHere('operands of other types', checked),
  },
  {
    name: 'macros',
    cases: [
      "[1, 2, 3].exists(e, e > 1) && !['a'].exists(e, e == 'b') && {'k1': 1}.exists(k, k == 'k1') && ![].exists(e, e == 2)",
      "[0, 1, 2].exists(e, 1 / e == 1) && [1, 'x'.size()].exists(e, e == 1)",
      "[1, 2, 3].all(e, e > 0) && ![1, 2].all(e, e == 1) && [].all(e, e > 0) && {'k': 1}.all(k, k.startsWith('k')) && ![1, 0].all(e, 1 / e == 0)",
      "[7].exists_one(a, a == 7) && ![7, 8].exists_one(a, a % 2 == 7) && ![1, 1].exists_one(a, a == 1) && {6: 'six', 7: 'seven'}.exists_one(k, k == 6)",
      "[1, 2, 3].map(n, n * 2) == [2, 4, 6] && [].map(n, n / 2) == [] && ['a'].map(s, s + s) == ['aa'] && {'a': 1}.map(k, k) == ['a'] && [1, 2].map(n, n > 1, n) == [2]",
      "[1, 2, 3].filter(x, x > 2) == [3] && [].filter(x, x > 2) == [] && {'a': 1, 'b': 2}.filter(k, k == 'b') == ['b']",
      "['signer'].filter(s, ['artifact'].all(a, true)) == ['signer'] && ['a'].all(s, ['b'].all(t, s != t))",
      ['[0, 1].all(e, 1 / e > 0)', 'division by zero'],
      ['[1, 0].exists(e, 1 / e > 2)', 'division by zero'],
      ['[0, 1].exists_one(e, 1 / e == 1)', 'division by zero'],
      ['[2, 1, 0].map(n, 4 / n) == []', 'division by zero'],
      ['[3, 2, 1, 0].filter(n, 12 / n > 4) == []', 'division by zero'],
      ['dyn(1).all(e, true)', 'no such overload'],
      ["[1].exists(e, 'a')", "ERROR: <input>:1:15: expected type 'bool' but found 'string'"],
    ],
    ...nothingHere('elements of several types', homogeneous),
  },
  {
    name: 'macros2',
    cases: [
      "[1, 2, 3].exists(i, v, i > -1 && v > 2) && {'k': 'v'}.exists(k, v, k == 'k' && v == 'v') && ![].exists(i, v, i == 0)",
      "[1, 2, 3].all(i, v, i < v) && {'k': 1}.all(k, v, k == 'k' && v == 1) && ![1, 2].all(i, v, v == 1)",
      '[6, 7, 8].existsOne(i, v, i == 1 && v == 7) && !{1: 2, 3: 4}.existsOne(k, v, k < v)',
      "[2, 4, 6].transformList(i, v, v / 2 + i) == [1, 3, 5] && [1, 2].transformList(i, v, i > 0, v) == [2] && {'a': 'b'}.transformList(k, v, k + v) == ['ab']",
      "{'a': 'b', 'c': 'd'}.transformMap(k, v, v + v) == {'a': 'bb', 'c': 'dd'} && [2, 4].transformMap(i, v, v * 2) == {0: 4, 1: 8} && {'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}",
      "{'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'} && [1, 2].transformMapEntry(i, v, v > 1, {v: i}) == {2: 1}",
      ['[0, 1].existsOne(i, v, 1 / v == 1)', 'division by zero'],
      ['[2, 0].transformList(i, v, 4 / v) == []', 'division by zero'],
      ['[1, 1].transformMapEntry(i, v, {v: i}) == {}', 'insert failed: key 1 already exists'],
    ],
  },
  { name: 'math_ext', ...nothingHere('math', 'not in Kubernetes, nor in cel-policy') },
  { name: 'namespace', ...nothingHere('containers', 'Kubernetes has none') },
  {
    name: 'network_ext',
    cases: [
      "ip('127.0.0.1').family() == 4 && ip('::1').family() == 6 && isIP('10.0.0.1') && !isIP('10.0.0.1/8') && !isIP('10.0.0')",
      "string(ip('2001:DB8::0:1')) == '2001:db8::1' && ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1') && type(ip('::1')) == net.IP",
      "ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified() && ip('169.254.1.1').isLinkLocalUnicast() && ip('224.0.0.1').isLinkLocalMulticast() && ip('10.0.0.1').isGlobalUnicast()",
      "ip('::1').isLoopback() && ip('::').isUnspecified() && ip('fe80::1').isLinkLocalUnicast() && ip('ff02::1').isLinkLocalMulticast() && ip('2001:db8::1').isGlobalUnicast()",
      "ip('10.0.0.1') == ip('10.0.0.1') && ip('10.0.0.1') != ip('10.0.0.2') && ip('::1') != ip('127.0.0.1')",
      "cidr('192.168.0.0/24').containsIP('192.168.0.1') && !cidr('192.168.0.0/24').containsIP(ip('192.168.1.1')) && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
      "cidr('192.168.1.5/24').masked() == cidr('192.168.1.0/24') && cidr('192.168.1.5/24').ip() == ip('192.168.1.5') && cidr('::/0').prefixLength() == 0 && isCIDR('::1/128') && !isCIDR('::1/129')",
      ["ip('999.1.1.1').family() == 4", 'IP Address "999.1.1.1" parse error'],
      ["cidr('10.0.0.1').prefixLength() == 1", 'network address parse error'],
      ["ip('fe80::1%en0').family() == 6", 'IP Address "fe80::1%en0" parse error'],
    ],
    ...nothingHere('IPv4 in IPv6', 'Kubernetes refuses such addresses'),
  },
  {
    name: 'optionals',
    cases: [
      'optional.of(null).hasValue() && !optional.ofNonZeroValue(null).hasValue() && optional.none().or(optional.none()).orValue(42) == 42',
      "{}.?k.optMap(v, v).hasValue() == false && {'k': {}}.?k.optFlatMap(v, v.?s).hasValue() == false && {'k': {'s': 'x'}}.?k.optFlatMap(v, v.?s).value() == 'x'",
      "{'n': dyn(null)}.?n.hasValue() && !{true: dyn(0)}[?false].absent.hasValue() && {}.?n.invalid.hasValue() == false",
      'optional.of(42).optMap(y, y + 1).value() == 43 && optional.ofNonZeroValue(42).or(optional.of(20)).value() == 42',
      "!has({}.?x.y) && has({'x': {'y': 'z'}}.?x.y) && type(optional.none()) == optional_type",
      "optional.of({'c': {'i': 'bye'}}).c.i.orValue('none') == 'bye' && optional.of({'c': {}}).c.missing.or(optional.of(['v'])[0]).orValue('none') == 'v'",
      "{'c': {'d-i': 'bye'}}.?c.missing.or({'c': {'d-i': 'bye'}}.?c['d-i']).orValue('').size() == 3",
      "{?'m': optional.of({'a': 1}), ?'n': optional.none()} == {'m': {'a': 1}} && [?{}.?c, ?optional.of(42), ?optional.none()] == [dyn(42)]",
      "['foo'][?0].value() == 'foo' && ![][?0].hasValue() && !optional.of([1])[?7].hasValue() && optional.of([1])[0].value() == 1 && {1: 'a'}[?1].value() == 'a'",
      'optional.none() == optional.none() && optional.of(1) == optional.of(1) && optional.of(1) != optional.none() && optional.of(1) != optional.of(2)',
      "dyn('a').orValue('b') == 'a' && ({'a': dyn(1)}.a).orValue(2) == 1",
      '[1, 2, 3].first().value() == 1 && [1, 2, 3].last().value() == 3 && ![].first().hasValue()',
      'optional.unwrap([optional.of(42), optional.none()]) == [42] && [optional.of(1)].unwrapOpt() == [1]',
      ['optional.none().value() == 1', 'optional.none() dereference'],
      ["optional.ofNonZeroValue({'c': 1}.a.z).orValue(1) == 1", 'ERROR'],
      ["[?dyn('a')] == []", 'no such overload'],
    ],
    ...nothingHere(
      'an error for a field of an optional that holds no map',
      'an option of cel-go that Kubernetes leaves off: there is no value',
    ),
  },
  {
    name: 'parse',
    cases: [
      `${'('.repeat(32)}7${')'.repeat(32)} == 7 && ${'['.repeat(32)}0${']'.repeat(32)}.size() == 1`,
      `${'true && '.repeat(32)}true && ${'1 + '.repeat(32)}1 == 33 && ${'!'.repeat(32)}true`,
      `{}.?a${'.a'.repeat(32)}.hasValue() == false && [[[[1]]]][0][0][0][0] == 1`,
      String.raw`'\a\b\f\n\r\t\v\\\?\'\"` +
        '\\`' +
        String.raw`'.size() == 12 && "a'b" == 'a\'b' && '''a'b"c''' == "a'b\"c" && """a
b""" == 'a\nb'`,
      String.raw`r'\n' == '\\n' && R"a\b" == 'a\\b' && br'\n' == b'\\n' && bR"a".size() == 1`,
      String.raw`'\303' == 'Ã' && '\u270c' == '✌' && '\U0001f431' == '🐱' && b'\xff\303'.size() == 2`,
      ' \t\r\n 1 \n + // a comment\n 2 == 3 // the end',
      "{'as': 1}.as == 1 && {'if': {'while': 2}}.if.while == 2 && {'package': 3}.package == 3",
      ["'\\ud800' == ''", 'ERROR'],
      ["'\\q' == ''", 'ERROR'],
      ["b'\\u0041' == b'A'", 'ERROR'],
      ["'a\nb' == ''", 'ERROR'],
      ['1 +', 'ERROR'],
      ['while == 1', 'ERROR'],
      ["x.'a' == 1", 'ERROR'],
    ],
    notApplicable: [
      { what: 'messages', why: noProtobuf },
      { what: 'functions with reserved names', why: 'Kubernetes declares none' },
    ],
  },
  {
    name: 'plumbing',
    cases: [
      '17 == 17',
      "{'k1': 'v1', 'k': 'v'} == {'k': 'v', 'k1': 'v1'}",
      'x == 123',
      ['1 / 0 == 1', 'division by zero'],
    ],
    ...nothingHere('expressions that are not checked', checked),
  },
  { name: 'proto2, proto2_ext, proto3', ...nothingHere('messages', noProtobuf) },
  {
    name: 'string',
    cases: [
      "size('') == 0 && size('four') == 4 && 'ÿÿ'.size() == 2 && size('🐱') == 1 && size(b'') == 0 && size(b'ÿ') == 2",
      "'foobar'.startsWith('foo') && 'a'.startsWith('') && !'foobar'.startsWith('bar') && 'foobar'.endsWith('bar') && ''.endsWith('') && 'завтра'.startsWith('за')",
      "'hubba'.matches('ubb') && !'cows'.matches('^he$') && 'abcd'.matches('bc') && matches('foobar', '[a-z]+') && '🐱'.matches('^.$') && 'Ab'.matches('(?i)^aB$')",
      "'he' + 'llo' == 'hello' && 'ÿ' + '🐱' == 'ÿ🐱' && '' + '' == '' && 'elephant'.contains('pha') && ''.contains('') && !'a'.contains('b')",
      String.raw`b'abc' + b'def' == b'abcdef' && b'' + b'' == b'' && b'\xff' + b'\x00' == b'\xff\x00'`,
      ["'a'.matches('(' + 'a')", 'error parsing regexp'],
      ["'a'.matches('(?=a)' + '')", 'error parsing regexp'],
    ],
  },
  {
    name: 'string_ext',
    cases: [
      "'tacocat'.charAt(3) == 'o' && 'tacocat'.charAt(7) == '' && '©αT'.charAt(0) == '©' && '🐱a'.charAt(1) == 'a'",
      "'tacocat'.indexOf('ac') == 1 && 'tacocat'.indexOf('none') == -1 && 'tacocat'.indexOf('a', 3) == 5 && 'tacocat'.indexOf('') == 0 && 'ta©o©αT'.indexOf('©', 3) == 4",
      "'tacocat'.lastIndexOf('at') == 5 && 'tacocat'.lastIndexOf('none') == -1 && 'tacocat'.lastIndexOf('a', 3) == 1 && 'tacocat'.lastIndexOf('') == 7",
      "'TacoCat'.lowerAscii() == 'tacocat' && 'TacoCÆt'.lowerAscii() == 'tacocÆt' && 'tacoCat'.upperAscii() == 'TACOCAT' && 'tacoCαt'.upperAscii() == 'TACOCαT'",
      "'12 days 12 hours'.replace('{0}', '2') == '12 days 12 hours' && '{0} a {0}'.replace('{0}', '2', 1) == '2 a {0}' && 'ab'.replace('', '-') == '-a-b-' && 'a'.replace('a', 'b', 0) == 'a'",
      "'hello hello'.split(' ') == ['hello', 'hello'] && 'a b c'.split(' ', 2) == ['a', 'b c'] && 'a b'.split(' ', 0) == [] && '🐱🐱'.split('') == ['🐱', '🐱'] && 'a b'.split(' ', -1).size() == 2",
      "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco' && 'tacocat'.substring(7) == '' && 'ta©o©αT'.substring(2, 6) == '©o©α'",
      String.raw`' \f\n\r\t\vtext  '.trim() == 'text' && '\u0085\u00a0\u1680text'.trim() == 'text' && 'text\u2000\u2028\u3000'.trim() == 'text' && '\u200btext'.trim() != 'text'`,
      "['x', 'y'].join() == 'xy' && ['x', 'y'].join('-') == 'x-y' && [].join('-') == '' && ['x'].join('-') == 'x'",
      String.raw`strings.quote('first\nsecond') == '"first\\nsecond"' && strings.quote('\a\b\f\r\t\v\\') == '"\\a\\b\\f\\r\\t\\v\\\\"' && strings.quote('🐱"') == '"🐱\\""'`,
      "'gums'.reverse() == 'smug' && ''.reverse() == '' && '🐱a'.reverse() == 'a🐱'",
      "'no substitution'.format([]) == 'no substitution' && '%s %s'.format(['str', true]) == 'str true' && '%%%s%%'.format(['text']) == '%text%' && '%d'.format([42]) == '42'",
      "'%.3f'.format([1.2345]) == '1.234' && '%f'.format([2.71828]) == '2.718280' && '%.1f'.format([2.0]) == '2.0' && '%.0f'.format([123.0]) == '123'",
      "'%b'.format([5]) == '101' && '%b'.format([-5]) == '-101' && '%b'.format([true]) == '1' && '%o'.format([11]) == '13' && '%x is %X'.format([30, 30]) == '1e is 1E' && '%x'.format(['Hi']) == '4869' && '%X'.format([b'a:']) == '613A'",
      "'%s'.format([duration('1h45m47s')]) == '6347s' && '%s'.format([timestamp('2023-02-03T23:31:20+00:00')]) == '2023-02-03T23:31:20Z' && '%s'.format([null]) == 'null' && '%s'.format([type('')]) == 'string'",
      ["'tacocat'.charAt(30) == ''", 'index out of range: 30'],
      ["'tacocat'.substring(4, 1) == ''", 'invalid substring range. start: 4, end: 1'],
      ["'tacocat'.indexOf('a', 30) == 1", 'index out of range: 30'],
      ["'%d'.format(['x']) == ''", 'error during formatting'],
      ["'%d %d'.format([1]) == ''", 'index 1 out of range'],
      ["'%a'.format([1]) == ''", 'could not parse formatting clause'],
      ["'%o'.format([1.5]) == ''", 'error during formatting'],
      ["42.charAt(2) == ''", 'ERROR'],
    ],
    ...nothingHere(
      'format of version 4 of the library',
      'Kubernetes and cel-policy have version 2, which prints by locale',
    ),
  },
  {
    name: 'timestamps',
    cases: [
      "int(timestamp('2009-02-13T23:31:30Z')) == 1234567890 && string(timestamp('2009-02-13T23:31:30Z')) == '2009-02-13T23:31:30Z' && timestamp(1234567890) == timestamp('2009-02-13T23:31:30Z')",
      "string(timestamp('9999-12-31T23:59:59.999999999Z')) == '9999-12-31T23:59:59.999999999Z' && string(timestamp('0001-01-01T00:00:00Z')) == '0001-01-01T00:00:00Z'",
      "string(duration('1000000s')) == '1000000s' && string(duration('1.5h')) == '5400s' && string(duration('-1ns')) == '-0.000000001s'",
      "timestamp('2009-02-13T23:31:20Z').getFullYear() == 2009 && timestamp('2009-02-13T23:31:20Z').getMonth() == 1 && timestamp('2009-02-13T23:31:20Z').getDate() == 13 && timestamp('2009-02-13T23:31:20Z').getDayOfMonth() == 12",
      "timestamp('2009-02-13T23:31:20Z').getDayOfWeek() == 5 && timestamp('2009-02-13T23:31:20Z').getDayOfYear() == 43 && timestamp('2009-02-13T23:31:20.123456789Z').getMilliseconds() == 123 && timestamp('2009-02-13T23:31:20Z').getSeconds() == 20",
      "timestamp('2009-02-13T23:31:30Z').getDate('Australia/Sydney') == 14 && timestamp('2009-02-13T23:31:30Z').getHours('-00:30') == 23 && timestamp('2009-02-13T23:31:30Z').getMinutes('Asia/Kathmandu') == 16 && timestamp('2009-02-13T02:00:00Z').getDayOfMonth('America/St_Johns') == 11 && timestamp('2009-02-13T23:31:30Z').getHours('02:00') == 1",
      "timestamp('2009-02-13T23:31:30Z') == timestamp('2009-02-14T00:31:30+01:00') && timestamp(0) != timestamp(1) && duration('123s') == duration('2m3s') && duration('1s') != duration('1ms')",
      "timestamp(0) + duration('1s') == timestamp(1) && duration('1s') + timestamp(0) == timestamp(1) && timestamp(1) - duration('1s') == timestamp(0) && timestamp(1) - timestamp(0) == duration('1s') && duration('10m') - duration('600s') == duration('0s')",
      "timestamp('2024-01-01T00:00:00.000000001Z') > timestamp('2024-01-01T00:00:00Z') && duration('1ns') > duration('0s') && duration('200s') <= duration('200s') && timestamp(0) < timestamp(1)",
      "duration('10000s').getHours() == 2 && duration('3730s').getMinutes() == 62 && duration('3730s').getSeconds() == 3730 && duration('123.321456789s').getMilliseconds() == 123321",
      ["timestamp('0000-00-00T00:00:00Z') == timestamp(0)", 'ERROR'],
      ["timestamp('10000-01-01T00:00:00Z') == timestamp(0)", 'ERROR'],
      ['timestamp(253402300800) == timestamp(0)', 'timestamp overflow'],
      ['timestamp(-62135596801) == timestamp(0)', 'timestamp overflow'],
      ["timestamp('9999-12-31T23:59:59.999999999Z') + duration('1ns') > timestamp(0)", 'timestamp overflow'],
      ["timestamp('0001-01-01T00:00:00Z') - duration('1ns') > timestamp(0)", 'timestamp overflow'],
      [
        "timestamp('9999-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z') > duration('1s')",
        'duration overflow',
      ],
      ["duration('320000000000s') > duration('1s')", 'ERROR'],
      ["duration('9223372036s') + duration('9223372036s') > duration('1s')", 'duration overflow'],
    ],
  },
  {
    name: 'type_deduction',
    cases: [
      "type([1, 2][0]) == int && type({'a': 1.5}.a) == double && type([[]] + [[1]]) == list && type(optional.of(1)) == optional_type",
      'cel.bind(f, dyn(1), f + 1 == 2) && [dyn(1), dyn("a")].size() == 2',
      [
        "[1].map(x, x + 'a') == []",
        "ERROR: <input>:1:14: found no matching overload for '_+_' applied to '(int, string)'",
      ],
      [
        "{'a': 1}.a == 'b'",
        "ERROR: <input>:1:12: found no matching overload for '_==_' applied to '(int, string)'",
      ],
      ['size(1) == 1', "ERROR: <input>:1:5: found no matching overload for 'size' applied to '(int)'"],
      ["optional.of(1).orValue('a') == 1", 'ERROR'],
    ],
    ...nothingHere('messages and wrappers', noProtobuf),
  },
  { name: 'unknowns', ...nothingHere('partial evaluation', 'nothing is unknown when a policy is evaluated') },
  { name: 'wrappers', ...nothingHere('wrappers', noProtobuf) },
];

const scope = new Scope({ x: { type: { kind: 'int' } } });

function outcome(source: string): unknown {
  const expression = compileExpression(source, scope);
  if (typeof expression === 'string') return expression.split('\n', 1)[0];
  const frame = Array.from({ length: scope.size }, () => undefined as unknown);
  frame[scope.variables.get('x')?.place ?? 0] = 123n;
  const { value, error } = measured(() => expression.run(frame), 1_000_000);
  return error === undefined ? value : evaluationMessage(error);
}

conformance('cel-spec', sections, (one) => {
  const [source, error] = typeof one === 'string' ? [one, undefined] : one;
  const found = outcome(source);
  if (error === undefined ? found === true : typeof found === 'string' && found.startsWith(error))
    return undefined;
  return `${source}: ${String(found)}`;
});
