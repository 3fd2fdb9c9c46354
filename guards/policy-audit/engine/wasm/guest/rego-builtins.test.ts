import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { builtins } from './rego-builtins.ts';

function call(name: string, ...args: readonly unknown[]): unknown {
  return builtins[name]?.(args, () => undefined);
}

/** What `opa eval` answers. Undefined: an error, as the expression is undefined then. */
const table: readonly (readonly [name: string, args: readonly unknown[], expected: unknown])[] = [
  ['sprintf', ['label %v is missing', ['team']], 'label team is missing'],
  ['sprintf', ['%s has %d of %v', ['a', 3, ['x', 1]]], 'a has 3 of ["x", 1]'],
  ['sprintf', ['%v %v %v', [null, true, { a: 1 }]], 'null true {"a": 1}'],
  ['sprintf', ['%05d|%-4s|%4s|%x|%q', [42, 'a', 'b', 255, 'c']], '00042|a   |   b|ff|"c"'],
  ['sprintf', ['%.2f%%', [12.345]], '12.35%'],
  ['sprintf', ['%d', ['a']], '%!d(string=a)'],
  ['sprintf', ['%s and %s', ['a']], 'a and %!s(MISSING)'],
  ['sprintf', ['a', ['b']], 'a%!(EXTRA string=b)'],
  ['sprintf', [1, []], undefined],
  ['hex.encode', ['größe'], '6772c3b6c39f65'],
  ['hex.decode', ['6772c3b6c39f65'], 'größe'],
  ['hex.decode', ['xy'], undefined],
  ['base64url.encode', ['a?>'], 'YT8-'],
  ['base64url.encode', ['a'], 'YQ=='],
  ['base64url.encode_no_pad', ['a'], 'YQ'],
  ['base64url.decode', ['YT8-'], 'a?>'],
  ['base64url.decode', ['!'], undefined],
  ['urlquery.encode', ["a b&c='*"], 'a+b%26c%3D%27%2A'],
  ['urlquery.decode', ['a+b%26c'], 'a b&c'],
  ['urlquery.decode', ['%'], undefined],
  ['urlquery.encode_object', [{ b: ['1', '2'], a: 'x y' }], 'a=x+y&b=1&b=2'],
  ['urlquery.decode_object', ['a=1&b=2&a=3'], { a: ['1', '3'], b: ['2'] }],
  ['crypto.sha256', ['a'], 'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb'],
  ['glob.quote_meta', ['*.github.com'], String.raw`\*.github.com`],
  ['json.patch', [{ a: { foo: 1 } }, [{ op: 'add', path: '/a/bar', value: 2 }]], { a: { foo: 1, bar: 2 } }],
  ['json.patch', [{ a: [1] }, [{ op: 'add', path: ['a', '-'], value: 2 }]], { a: [1, 2] }],
  ['json.patch', [{ a: 1 }, [{ op: 'remove', path: '/b' }]], undefined],
  ['regex.template_match', ['urn:foo:{.*}', 'urn:foo:bar:baz', '{', '}'], true],
  ['regex.template_match', ['urn:foo:{[a-z]{2}}', 'urn:foo:b', '{', '}'], false],
  ['regex.template_match', ['urn:{', 'urn:', '{', '}'], undefined],
  ['regex.find_n', ['[oa]+', 'foo bar goo', 2], ['oo', 'a']],
  ['regex.find_n', ['[oa]+', 'foo bar goo', -1], ['oo', 'a', 'oo']],
  ['regex.find_n', ['(', 'a', 1], undefined],
  ['semver.is_valid', ['1.2.3-rc.1+b'], true],
  ['semver.is_valid', ['v1.2.3'], false],
  ['semver.is_valid', [1], false],
  ['semver.compare', ['1.10.0', '1.9.0'], 1],
  ['semver.compare', ['1.0.0-rc.2', '1.0.0-rc.10'], -1],
  ['semver.compare', ['1.0.0-1', '1.0.0-a'], -1],
  ['semver.compare', ['1.0.0', '1.0.0-rc'], 1],
  ['semver.compare', ['1.0.0+a', '1.0.0+b'], 0],
  ['semver.compare', ['1.0', '1.0.0'], undefined],
  ['indexof_n', ['ababa', 'aba'], [0, 2]],
  ['units.parse', ['1.5Ki'], 1536],
  ['units.parse', ['100m'], 0.1],
  ['units.parse_bytes', ['1GB'], 1e9],
  ['units.parse_bytes', ['2MiB'], 2 * 2 ** 20],
  ['units.parse_bytes', ['a'], undefined],
  ['time.parse_rfc3339_ns', ['1970-01-01T00:00:01.000000005Z'], 1_000_000_005],
  ['time.parse_rfc3339_ns', ['1970-01-01T01:00:00+01:00'], 0],
  ['time.parse_rfc3339_ns', ['yesterday'], undefined],
  ['time.parse_duration_ns', ['1h30m'], 5400e9],
  ['time.parse_duration_ns', ['-1.5s'], -1.5e9],
  ['time.parse_duration_ns', ['1 day'], undefined],
  ['time.date', [1_700_000_000_000_000_000], [2023, 11, 14]],
  ['time.clock', [1_700_000_000_000_000_000], [22, 13, 20]],
  ['time.clock', [[1_700_000_000_000_000_000, 'Europe/Berlin']], [23, 13, 20]],
  ['time.clock', [[0, 'Nowhere/There']], undefined],
  ['time.weekday', [0], 'Thursday'],
  ['time.add_date', [0, 1, 2, 3], Date.UTC(1971, 2, 4) * 1e6],
];

suite('builtins of Rego', () => {
  for (const [name, args, expected] of table) {
    test(`${name}(${args.map((arg) => JSON.stringify(arg)).join(', ')})`, () => {
      assert.deepEqual(call(name, ...args), expected);
    });
  }

  test('trace and print say what they are given', () => {
    const said: string[] = [];
    const say = (text: string): void => void said.push(text);
    assert.equal(builtins['trace']?.(['here'], say), true);
    assert.equal(builtins['print']?.([[['a', 1]]], say), true);
    assert.deepEqual(said, ['here', 'a 1']);
  });

  test('the time goes on', () => {
    const before = Date.now() * 1e6;
    assert.ok((call('time.now_ns') as number) >= before);
  });
});
