/**
 * The estimated cost of expressions, with the figures of Kubernetes: apiserver
 * `pkg/cel/library/cost_test.go`. Those of rules with variables are in
 * `lib/apiserver/schema/rules/rule-costs.test.ts`.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Scope } from '../environment.ts';
import { estimateCost } from './estimate.ts';

const figures: Readonly<Record<string, number>> = {
  "ip('192.168.0.1')": 2,
  "ip('2001:db8:3333:4444:5555:6666:7777:8888')": 4,
  "ip('192.168.0.1').isLoopback()": 3,
  "ip('192.168.0.1') == ip('192.168.0.1')": 5,
  "cidr('192.168.0.0/16')": 2,
  "cidr('192.168.0.0/16').ip()": 3,
  "cidr('192.168.0.0/16') == cidr('2001:db8::/32')": 5,
  "cidr('192.168.0.0/16').containsCIDR('192.0.0.0/30')": 11,
  "cidr('192.168.0.0/16').containsCIDR(cidr('192.0.0.0/30'))": 11,
  "cidr('192.168.0.0/16').containsIP('192.0.0.1')": 7,
  "cidr('192.168.0.0/16').containsIP(ip('192.169.169.250'))": 8,
  "cidr('2001:db8::/32').containsIP('2001:db8:3333:4444:5555:6666:7777:8888')": 10,
  "'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()": 9,
  "strings.quote('ABCDEFGHIJ abcdefghij') == strings.quote('ABCDEFGHIJ abcdefghij')": 11,
  "'abc 123 def 123'.replace('', 'x')": 3,
  "'abc 123 def 123'.split(' ', 1)": 3,
  "'abc 123 def 123'.substring(5, 8)": 2,
  "'abc 123 def 123'.findAll('123')": 2,
  "jsonpatch.escapeKey('abc/def~ abc/def~')": 2,
  'sets.contains([], [])': 21,
  'sets.contains([1, 2, 3, 4], [2, 3])': 29,
  'sets.contains([[1], [2, 3]], [[2, 3]])': 53,
  '!sets.contains([1], [1, 2])': 24,
  'sets.equivalent([1], [1, 1])': 25,
  'sets.intersects([1], [1, 1])': 23,
  "{'a': 1, 'b': 2}.all(k, v, v > 0)": 41,
  "{'a': 1, 'b': 2}.exists(k, v, v > 0)": 43,
  "{'a': 1, 'b': 2}.existsOne(k, v, v > 0)": 40,
  "{'a': 1, 'b': 2}.transformMap(k, v, v + 1)": 71,
  "{'a': 1, 'b': 2}.transformMap(k, v, v < 5, v + 1)": 75,
  "{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})": 131,
  "{'a': 1, 'b': 2}.transformMapEntry(k, v, v < 5, {k: v + 1})": 135,
  '[1, 2].transformList(i, v, v + 1)': 49,
  '[1, 2].transformList(i, v, v < 5, v + 1)': 53,
};

test('the figures of Kubernetes', () => {
  const found = Object.keys(figures).map((source) => [
    source,
    estimateCost(source, new Scope({}), () => undefined),
  ]);
  assert.deepEqual(Object.fromEntries(found), figures);
});
