/**
 * The functions of Kubernetes, by the examples in apiserver `pkg/cel/library/{lists,regex,urls,quantity,ip,cidr,format}.go`
 * and cel-go `ext/{strings,sets,comprehensions}.go`.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { Scope } from './environment.ts';
import { evaluationMessage } from './messages.ts';
import { compile } from './program.ts';
import type { CelType } from './types.ts';
import { toCel } from './values.ts';

/** Expressions that hold. */
const holds: Readonly<Record<string, readonly string[]>> = {
  strings: [
    `'tacocat'.charAt(3) == 'o' && 'ab'.charAt(2) == '' && 'é😀x'.charAt(1) == '😀'`,
    `'hello mellow'.indexOf('') == 0 && 'hello mellow'.indexOf('ello') == 1 && 'hello mellow'.indexOf('jello') == -1`,
    `'hello mellow'.indexOf('ello', 2) == 7 && '😀a'.indexOf('a') == 1`,
    `'hello mellow'.lastIndexOf('') == 12 && 'hello mellow'.lastIndexOf('ello') == 7 && 'hello mellow'.lastIndexOf('ello', 6) == 1`,
    `'TacoCÆt'.lowerAscii() == 'tacocÆt' && 'TacoCÆt Xii'.upperAscii() == 'TACOCÆT XII'`,
    `'hello hello'.replace('he', 'we') == 'wello wello' && 'hello hello'.replace('he', 'we', 1) == 'wello hello'`,
    `'hello hello'.replace('he', 'we', 0) == 'hello hello' && 'ab'.replace('', '_') == '_a_b_'`,
    `'hello hello hello'.split(' ') == ['hello', 'hello', 'hello'] && 'hello hello hello'.split(' ', 2) == ['hello', 'hello hello']`,
    `'hello'.split(' ', 0) == [] && 'hello'.split(' ', 1) == ['hello'] && 'a😀'.split('') == ['a', '😀']`,
    `'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco' && '😀ab'.substring(1) == 'ab'`,
    `'  \\ttrim\\n    '.trim() == 'trim'`,
    `['hello', 'mellow'].join() == 'hellomellow' && ['hello', 'mellow'].join(' ') == 'hello mellow' && [].join('/') == ''`,
    `'gums'.reverse() == 'smug' && strings.quote('a"b') == '"a\\\\"b"'`,
    `'a'.contains('a') && 'abc'.startsWith('ab') && 'abc'.endsWith('bc') && size('é😀') == 2`,
    `'%s is %s'.format(['a', 'b']) == 'a is b' && '%d'.format([3]) == '3' && '%.2f'.format([1.5]) == '1.50'`,
    `'%s'.format([[1, 2]]) == '[1, 2]' && '%s'.format([{'a': true}]) == '{"a":true}' && '%x'.format([255]) == 'ff'`,
    `'%b %%'.format([5]) == '101 %' && '%s'.format([duration('90s')]) == '90s' && '%e'.format([1234.5]) == '1.234500 × 10⁰³'`,
  ],
  lists: [
    `[1, 2, 3].isSorted() && !['b', 'a'].isSorted() && [1.0].isSorted() && [].isSorted()`,
    `[1, 3].sum() == 4 && [1.0, 3.0].sum() == 4.0 && [duration('1m'), duration('1s')].sum() == duration('1m1s')`,
    `[1, 3].min() == 1 && [1, 3].max() == 3 && ['b', 'a'].min() == 'a'`,
    `[1, 2, 2, 3].indexOf(2) == 1 && ['a', 'b', 'b', 'c'].lastIndexOf('b') == 2 && [1].indexOf(5) == -1`,
    `sets.contains([1, 2, 3], [2]) && !sets.contains([1], [2]) && sets.contains([], [])`,
    `sets.equivalent([1, 2, 2], [2, 1]) && !sets.equivalent([1], [1, 2]) && sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [])`,
  ],
  'regular expressions': [
    `'abc 123'.find('[0-9]+') == '123' && 'abc'.find('xyz') == '' && 'abc 123'.matches('^[a-z]+ ')`,
    `'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '123 abc 456'.findAll('[0-9]+', 1) == ['123'] && 'abc'.findAll('x') == []`,
    `'ABC'.matches('(?i)^abc$') && matches('a', 'a')`,
  ],
  url: [
    `isURL('https://user:pass@example.com:80/path?query=val') && isURL('/absolute') && !isURL('../relative') && !isURL('https://a:port')`,
    `url('https://user:pass@example.com:80/').getHost() == 'example.com:80' && url('/path').getHost() == ''`,
    `url('https://example.com:80/').getHostname() == 'example.com' && url('https://[::1]:80/').getHostname() == '::1'`,
    `url('https://example.com:80/').getPort() == '80' && url('https://example.com/').getPort() == '' && url('https://x/').getScheme() == 'https'`,
    `url('https://example.com/path with'.replace(' ', '%20')).getEscapedPath() == '/path%20with'`,
    `url('https://e.com/?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']} && url('/').getQuery() == {}`,
    `url('https://e.com/a?b=c#d?e=f').getQuery() == {'b': ['c']} && url('/a#b').getEscapedPath() == '/a' && isURL('/a#b')`,
    `!isURL('https://e.com#a') && url('/a#b') != url('/a')`,
    `url('/a') == url('/a') && url('/a') != url('/b')`,
  ],
  quantity: [
    `isQuantity('1.3G') && isQuantity('1.3Gi') && !isQuantity('1,3G') && isQuantity('10000k') && !isQuantity('200K') && !isQuantity('Three') && !isQuantity('Mi')`,
    `quantity('50000000G').isInteger() && quantity('50k').isInteger() && !quantity('9999999999999999999999999999999999999G').isInteger() && !quantity('1m').isInteger()`,
    `quantity('50k').asInteger() == 50000 && quantity('50k').sub(20000).asApproximateFloat() == 30000.0`,
    `quantity('50k').add(quantity('20k')) == quantity('70k') && quantity('50k').add(20).sub(quantity('100k')).sub(-50000) == quantity('20')`,
    `quantity('200M').compareTo(quantity('0.2G')) == 0 && quantity('50M').compareTo(quantity('50Mi')) == -1 && quantity('50Mi').compareTo(quantity('50M')) == 1`,
    `quantity('150Mi').isGreaterThan(quantity('100Mi')) && quantity('50M').isLessThan(quantity('100M')) && quantity('-1').sign() == -1 && quantity('0').sign() == 0`,
    `quantity('1e3') == quantity('1k') && quantity('1E') == quantity('1000P') && quantity('0.5') == quantity('500m') && quantity('.5') == quantity('500000u')`,
  ],
  'ip and cidr': [
    `isIP('127.0.0.1') && isIP('::1') && !isIP('127.0.0.256') && !isIP(':::1') && !isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0') && !isIP('01.2.3.4')`,
    `ip.isCanonical('127.0.0.1') && ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD') && !ip.isCanonical('2001:db8::0:0:0:abcd')`,
    `ip('127.0.0.1').family() == 4 && ip('::1').family() == 6 && ip('0.0.0.0').isUnspecified() && !ip('::1').isUnspecified()`,
    `ip('127.0.0.1').isLoopback() && ip('::1').isLoopback() && !ip('192.168.0.1').isLoopback()`,
    `ip('224.0.0.1').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast() && !ip('fd00::1').isLinkLocalMulticast()`,
    `ip('169.254.169.254').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast() && !ip('fd80::1').isLinkLocalUnicast()`,
    `ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast() && ip('2001:db8::abcd').isGlobalUnicast() && !ip('ff00::1').isGlobalUnicast()`,
    `string(ip('1:0:0:2:0:0:0:3')) == '1:0:0:2::3' && string(ip('::ffff:0:1.2.3.4'.replace('ffff:0:', '5:'))) == '::5:102:304'`,
    `isCIDR('192.168.0.0/16') && isCIDR('::1/128') && !isCIDR('192.168.0.0/33') && !isCIDR('::1/129') && !isCIDR('1.2.3.4')`,
    `cidr('192.168.0.0/24').containsIP(ip('192.168.0.1')) && !cidr('192.168.0.0/24').containsIP('192.168.1.1') && !cidr('::/0').containsIP('1.2.3.4')`,
    `cidr('192.168.0.0/16').containsCIDR(cidr('192.168.10.0/24')) && !cidr('192.168.1.0/24').containsCIDR('192.168.2.0/24') && !cidr('10.0.0.0/24').containsCIDR('10.0.0.0/8')`,
    `cidr('192.168.0.1/24').ip() == ip('192.168.0.1') && cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24') && cidr('192.168.0.1/24') != cidr('192.168.0.1/24').masked()`,
    `cidr('192.168.0.0/16').prefixLength() == 16 && string(cidr('::1/128')) == '::1/128'`,
  ],
  formats: [
    `!format.dns1123Label().validate('my-label-name').hasValue() && format.dns1123Label().validate('My').hasValue()`,
    `!format.dns1123Subdomain().validate('apiextensions.k8s.io').hasValue() && format.dns1035Label().validate('1a').hasValue()`,
    `!format.qualifiedName().validate('apiextensions.k8s.io/v1beta1').hasValue() && format.qualifiedName().validate('a/b/c').hasValue() && format.qualifiedName().validate('/b').value() == ['prefix part must be non-empty']`,
    `!format.dns1123LabelPrefix().validate('my-label-prefix-').hasValue() && !format.dns1035LabelPrefix().validate('my-label-prefix-').hasValue()`,
    `!format.labelValue().validate('').hasValue() && format.labelValue().validate('-').hasValue() && !format.uri().validate('http://example.com').hasValue()`,
    `!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue() && format.byte().validate('x').value() == ['invalid base64']`,
    `!format.date().validate('2021-01-01').hasValue() && !format.datetime().validate('2021-01-01T00:00:00Z').hasValue()`,
    `format.named('dns1123Label').value().validate('A').value()[0].startsWith('a lowercase RFC 1123 label must consist of') && !format.named('nothing').hasValue()`,
  ],
  'optional types': [
    `optional.of(3).orValue(4) == 3 && optional.none().orValue(4) == 4 && {'a': 1}[?'a'].value() == 1 && !{'a': 1}[?'b'].hasValue()`,
    `optional.of(3).optMap(x, x + 1) == optional.of(4) && optional.of('a') != optional.none()`,
    `optional.of(3).optFlatMap(x, optional.of(x * 2)).value() == 6 && !optional.ofNonZeroValue('').hasValue() && optional.ofNonZeroValue(1).hasValue()`,
    `!optional.none().optMap(x, x).hasValue() && optional.none().or(optional.of(1)).value() == 1`,
  ],
  comprehensions: [
    `[1, 2].all(i, v, i < v) && [1, 2].exists(i, v, i == 1 && v == 2) && [1, 2].existsOne(i, v, v == 2)`,
    `{'a': 1}.all(k, v, k == 'a' && v == 1) && !{'a': 1, 'b': 2}.exists_one(k, v, v > 0)`,
    `[1, 2, 3].transformList(i, v, i * v) == [0, 2, 6] && [1, 2, 3].transformList(i, v, i > 0, v) == [2, 3]`,
    `{'a': 1, 'b': 2}.transformMap(k, v, v * 2) == {'a': 2, 'b': 4} && {'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}`,
    `[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6] && [1, 2].map(x, x > 1, x) == [2] && [1].exists_one(x, x == 1)`,
    `[true, false].exists(x, x || 1 / 0 == 1) && cel.bind(x, 3, x + x == 6)`,
  ],
  conversions: [
    `int('42') == 42 && int(1.9) == 1 && string(1.5) == '1.5' && double('2.5') == 2.5 && bool('true') && string(b'abc') == 'abc'`,
    `int(timestamp('1970-01-01T00:01:00Z')) == 60 && string(timestamp('2024-01-01T00:00:00Z')) == '2024-01-01T00:00:00Z' && string(duration('1h')) == '3600s'`,
    `timestamp('2024-01-01T01:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('1h') && timestamp('2024-03-01T00:00:00Z').getMonth() == 2`,
    `type(1) == int && type('') == string && 1 < 2.5 && 1u + 2u == 3u && 7 % 4 == 3 && -(3) == 0 - 3`,
  ],
};

/** Expressions that fail when they run, and why. */
const fails: Readonly<Record<string, string>> = {
  "quantity('Mi') == quantity('1')": 'quantities must match the regular expression',
  "quantity('1m').asInteger() == 1": 'cannot convert value to integer',
  "ip('x').family() == 4": 'IP Address "x" parse error during conversion from string',
  "cidr('x').prefixLength() == 4": 'network address parse error during conversion from string',
  "url('a b').getHost() == ''": 'URL parse error during conversion from string',
  "'abc'.charAt(9) == ''": 'index out of range: 9',
  "'abc'.substring(2, 1) == ''": 'invalid substring range. start: 2, end: 1',
  "'%d'.format(['x']) == ''": 'error during formatting',
  "'%s'.format([]) == ''": 'index 0 out of range',
  'dyn([]).max() == 1': 'max called on empty list',
  "'a'.matches('(' + '')": 'error parsing regexp: missing closing ): `(`',
  "int('1x') == 1": 'strconv.ParseInt: parsing "1x": invalid syntax',
  'int(1e30) == 1': 'integer overflow',
  '9223372036854775807 + 1 > 0': 'integer overflow',
  '1 / 0 == 1': 'division by zero',
  '1 % 0 == 1': 'modulus by zero',
  "{'a': 1}['b'] == 1": 'no such key: b',
  '[1][5] == 1': 'index out of bounds: 5',
  'optional.none().value() == 1': 'optional.none() dereference',
};

const scope = new Scope({});

function run(expression: string): { readonly value?: unknown; readonly error?: unknown } {
  const program = compile(expression, 'bool', scope);
  assert.ok(typeof program !== 'string', String(program));
  return program.run({});
}

for (const [name, expressions] of Object.entries(holds)) {
  suite(name, () => {
    for (const expression of expressions) {
      test(expression, () => {
        const { value, error } = run(expression);
        assert.deepEqual([value, error], [true, undefined]);
      });
    }
  });
}

suite('errors of functions say the reason', () => {
  for (const [expression, reason] of Object.entries(fails)) {
    test(expression, () => {
      const { error } = run(expression);
      assert.ok(evaluationMessage(error).startsWith(reason), String(error));
    });
  }
});

test('two variables may have one type', () => {
  const pod: CelType = { kind: 'object', fields: new Map([['n', { name: 'n', type: { kind: 'int' } }]]) };
  const both = new Scope({ object: { type: pod }, oldObject: { type: pod } });
  const program = compile('object.n > oldObject.n && object != oldObject', 'bool', both);
  assert.ok(typeof program !== 'string', String(program));
  const [object, oldObject] = [{ n: 2 }, { n: 1 }].map((value) => toCel(value, pod));
  assert.equal(program.run({ object, oldObject }).value, true);
  assert.deepEqual([...program.variables].sort(), ['object', 'oldObject']);
  assert.match(String(compile('object.m > 1', 'bool', both)), /undefined field 'm'/);
});
