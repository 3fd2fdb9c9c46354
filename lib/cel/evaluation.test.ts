/** The semantics of the language, by cel-spec (`doc/langdef.md`) and the checker of cel-go. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { Scope } from './environment.ts';
import { evaluationMessage } from './messages.ts';
import { compile } from './program.ts';
import type { CelType } from './types.ts';
import { toCel } from './values.ts';

const object = (fields: Readonly<Record<string, CelType>>): CelType => ({
  kind: 'object',
  fields: new Map(Object.entries(fields).map(([name, type]) => [name, { name, type }])),
});
const int: CelType = { kind: 'int' };
const self = object({
  n: int,
  s: { kind: 'string' },
  inner: object({ x: int }),
  maybe: object({ y: int }),
  list: { kind: 'list', element: int },
  map: { kind: 'map', element: { kind: 'string' } },
  when: { kind: 'timestamp' },
});
const raw = {
  n: 3,
  s: 'a',
  inner: {},
  maybe: { y: 2 },
  list: [1],
  map: { a: 'b' },
  when: '2024-07-01T12:00:00.5Z',
};
const scope = new Scope({ self: { type: self } });

/** The result, the error of the run, or the first line of that of the compilation. */
function outcome(source: string): unknown {
  const program = compile(source, 'bool', scope);
  if (typeof program === 'string') return program.split('\n', 1)[0];
  const { value, error } = program.run({ self: toCel(raw, self) });
  return error === undefined ? value : evaluationMessage(error);
}

function expect(name: string, cases: Readonly<Record<string, unknown>>): void {
  suite(name, () => {
    for (const [source, wanted] of Object.entries(cases)) {
      test(source, () => {
        assert.equal(outcome(source), wanted);
      });
    }
  });
}

expect('an error counts only when nothing decides', {
  '1 / 0 > 1 || true': true,
  'true || 1 / 0 > 1': true,
  '1 / 0 > 1 && false': false,
  '1 / 0 > 1 || false': 'division by zero',
  '1 / 0 > 1 && true': 'division by zero',
  'dyn(1) || true': true,
  'dyn(1) || false': 'no such overload',
  '[0, 1].exists(x, 1 / x == 1)': true,
  '[1, 0].all(x, 1 / x == 2)': false,
  '[0, 1].all(x, 1 / x == 1)': 'division by zero',
  '[0, 1].exists_one(x, 1 / x == 1)': 'division by zero',
  'false ? 1 / 0 > 1 : true': true,
});

expect('numbers', {
  '-9223372036854775808 < 0': true,
  '-(-9223372036854775807 - 1) > 0': 'integer overflow',
  '(-9223372036854775807 - 1) / -1 > 0': 'integer overflow',
  '-9223372036854775807 - 2 < 0': 'integer overflow',
  '4611686018427387904 * 2 > 0': 'integer overflow',
  '18446744073709551615u + 1u > 0u': 'unsigned integer overflow',
  '0u - 1u > 0u': 'unsigned integer overflow',
  'uint(-1) == 0u': 'unsigned integer overflow',
  'int(18446744073709551615u) > 0': 'integer overflow',
  '7u / 2u == 3u && 7u % 4u == 3u && 2u * 3u == 6u': true,
  "uint(3.7) == 3u && uint('7') == 7u && double(7u) == 7.0": true,
  '-7 / 2 == -3 && -7 % 2 == -1': true,
  '1.0 / 0.0 > 1e300 && 0.0 / 0.0 != 0.0 / 0.0': true,
  'dyn(1) == 1.0 && dyn(1) == 1u && dyn(1u) == 1.0 && dyn([1]) == [1.0]': true,
  'dyn(9007199254740993) == 9007199254740992.0 && 1u < 2 && 1.5 >= 1u': true,
  '9223372036854775807 < 9223372036854775808.0 || 9223372036854775808.0 > 9223372036854775807': false,
  '9223372036854775807 >= 9223372036854775808.0 && 18446744073709551615u <= 18446744073709551616.0': true,
  "string(999999.5) == '999999.5' && string(1000000.0) == '1e+06' && string(-0.00001) == '-1e-05'": true,
  "'%.1f %.0f %s'.format([2.0, 123.0, [2.0]]) == '2.0 123 [2.000000]'": true,
  "'%.1f %.0f %.2f'.format([2.25, 0.5, 1.005]) == '2.2 0 1.00'": true,
  "string(1e21) == '1e+21' && double('1e3') == 1000.0": true,
  "double('0x10') == 16.0": 'strconv.ParseFloat: parsing "0x10": invalid syntax',
});

expect('maps, lists and strings', {
  "{1: 'a', 2: 'b'}[2] == 'b' && {1: 'a'}.all(k, k == 1) && {true: 'x'}[true] == 'x'": true,
  "1u in {1: 'a'}.map(k, dyn(k)) && dyn(1.0) in {1: 'a'}": true,
  "self.map.a == 'b' && self.map['a'] == 'b' && has(self.map.a) && !has(self.map.b)": true,
  'self.list[-1] == 1': 'index out of bounds: -1',
  '[[1], [2]] == [[1]] + [[2]] && [1, 2] != [2, 1]': true,
  "b'ab' + b'c' == b'abc' && b'a' < b'b' && bytes('é').size() == 2": true,
  [String.raw`string(b'\xff') == ''`]: 'invalid UTF-8 in bytes, cannot convert to string',
  "'\u{10000}' > '\uffff' && 'a' < 'b'": true,
  '[1, 2].map(x, [3].map(y, x + y)) == [[4], [5]]': true,
  'self.list.exists(x, [2].all(x, x == 2) && x == 1)': true,
  'cel.bind(x, 1, cel.bind(y, x + 1, y + x == 3))': true,
  "'%s: %d, %s'.format(['a', 1u, self.maybe]) == 'a: 1, {\"y\":2}'": true,
});

expect('times', {
  "duration('-1.5s') + duration('1s') == duration('-500ms')": true,
  "duration('1h30m').getMinutes() == 90 && string(duration('-1.5s')) == '-1.5s'": true,
  "duration(self.s + '2 days') > duration('1s')": 'time: invalid duration "a2 days"',
  "self.when.getHours('Europe/Berlin') == 14 && self.when.getHours('+05:30') == 17": true,
  "self.when.getMinutes('05:30') == 30 && self.when.getMilliseconds('UTC') == 500": true,
  'self.when.getDayOfYear() == 182 && self.when.getDayOfWeek() == 1 && self.when.getDayOfMonth() == 0': true,
  "self.when.getHours('Nowhere') == 1": 'unknown time zone Nowhere',
  "timestamp('9999-12-31T23:59:59Z') + duration('1h') > self.when": 'timestamp overflow',
  "string(timestamp('9999-12-31T23:59:59.999999999Z')) == '9999-12-31T23:59:59.999999999Z'": true,
  "timestamp('2024-01-01T00:00:00.000000001Z') - timestamp('2024-01-01T00:00:00Z') == duration('1ns')": true,
  "timestamp('2024-01-01T00:00:00Z') + duration('1ns') > timestamp('2024-01-01T00:00:00Z')": true,
  "string(timestamp('1969-12-31T23:59:59.5Z') - duration('1ns')) == '1969-12-31T23:59:59.499999999Z'": true,
  "timestamp('1969-12-31T23:59:59.5Z').getMilliseconds() == 500 && int(timestamp('1969-12-31T23:59:59.5Z')) == -1": true,
  "timestamp('9999-12-31T23:59:59.999999999Z') + duration('1ns') > self.when": 'timestamp overflow',
  "timestamp('0001-01-01T00:00:00Z') + duration('-1ns') < self.when": 'timestamp overflow',
  "string(timestamp('2024-01-01T00:00:00+05:30') + duration('1h')) == '2024-01-01T01:00:00+05:30'": true,
  "timestamp('2024-01-01T00:00:00+05:30') == timestamp('2023-12-31T18:30:00Z')": true,
  "timestamp('2024-01-01t00:00:00z') > self.when": 'ERROR: <input>:1:11: invalid timestamp argument',
  "duration('2562047h47m16.854775807s') == duration('9223372036854775807ns')": true,
  "duration('2562047h47m16.854775808s') > duration('1s')": 'ERROR: <input>:1:10: invalid duration argument',
  "timestamp(60) - timestamp(0) == duration('1m') && timestamp(0) + duration('1m') == timestamp(60)": true,
});

expect('types', {
  'type(self.n) == int && type(null) == null_type && type(type(1)) == type': true,
  'type(self.when) == google.protobuf.Timestamp && type(self) != int': true,
  'has(self.maybe.y) && self.maybe.y == 2': true,
  'self.inner == null': false,
  'self.?inner.x.hasValue()': false,
  "{'a': {'b': 1}}[?'z'].b.hasValue()": false,
  "dyn('a').orValue('b') == 'a' && dyn(dyn(1).or(optional.of(2))) == 1": true,
  'dyn([1]).optMap(x, x) == optional.of([1])': 'no such overload',
  "{'n': dyn(null)}.?n.b.hasValue()": false,
  '[1, 2].first().value() == 1 && [1, 2].last() == optional.of(2) && !self.list.filter(x, false).first().hasValue()': true,
  'optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of(2)].unwrapOpt() == [2]': true,
  "{'a': [1]}[?'z'][0].orValue(7) == 7 && {'a': [1]}[?'a'][0].orValue(7) == 1": true,
  '[self.inner][0].x == 1': 'no such key: x',
  'has([self.inner][0].x)': false,
});

expect('what does not compile', {
  'self.s == null': "ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(string, null)'",
  'self.inner == self':
    "ERROR: <input>:1:12: found no matching overload for '_==_' applied to '(object, object)'",
  '1 == 1.0': "ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, double)'",
  "self.list == ['a']":
    "ERROR: <input>:1:11: found no matching overload for '_==_' applied to '(list(int), list(string))'",
  "self['n'] == 3": "ERROR: <input>:1:5: found no matching overload for '_[_]' applied to '(object, string)'",
  "self.list['a'] == 1":
    "ERROR: <input>:1:10: found no matching overload for '_[_]' applied to '(list(int), string)'",
  "'a' in self.inner":
    "ERROR: <input>:1:5: found no matching overload for '@in' applied to '(string, object)'",
  'self.?nosuch == optional.none()': "ERROR: <input>:1:5: undefined field 'nosuch'",
  'self.s.size': "ERROR: <input>:1:7: type 'string' does not support field selection",
  'has(self)': 'ERROR: <input>:1:5: invalid argument to has() macro',
  'self.s && true': "ERROR: <input>:1:8: found no matching overload for '_&&_' applied to '(string, bool)'",
  'self.n ? 1 : 2': "ERROR: <input>:1:8: found no matching overload for '_?_:_' applied to '(int, int, int)'",
  "true ? 1 : 'a'":
    "ERROR: <input>:1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'",
  "[1, 'a'].size() > 0": "ERROR: <input>:1:5: expected type 'int' but found 'string'",
  "{'a': 1, 2: 2}.size() > 0": "ERROR: <input>:1:10: expected type 'string' but found 'int'",
  'self.list.all(x, 1)': "ERROR: <input>:1:18: expected type 'bool' but found 'int'",
  'self.list.all(x, y, x)': "ERROR: <input>:1:21: expected type 'bool' but found 'int'",
  'self.list.all(x, x > 0) && x > 0': "ERROR: <input>:1:28: undeclared reference to 'x' (in container '')",
  'self.inner.all(k, true)':
    "ERROR: <input>:1:5: expression of type 'object' cannot be range of a comprehension (must be list, map, or dynamic)",
  "optional.of(1).orValue('a') == 1": "ERROR: <input>:1:23: expected type 'int' in the alternative",
  'sets.nosuch([1])': "ERROR: <input>:1:1: undeclared reference to 'sets' (in container '')",
  'size()': "ERROR: <input>:1:5: found no matching overload for 'size' applied to '()'",
  "self.n + 'a' == ''": "ERROR: <input>:1:8: found no matching overload for '_+_' applied to '(int, string)'",
});
