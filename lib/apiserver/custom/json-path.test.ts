import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { columnsOf } from './columns.ts';
import { firstAt, parseJsonPath } from './json-path.ts';
import { compareVersions } from '../resources/version-order.ts';

const object = {
  metadata: { creationTimestamp: '2026-01-01T00:00:00Z', labels: { 'a.b/c': 'dotted', plain: 'x' } },
  spec: {
    replicas: 3,
    ratio: 0.5,
    on: true,
    list: [{ name: 'a' }, { name: 'b' }],
    nothing: null,
    map: { b: 1, a: 2 },
  },
  status: {
    conditions: [
      { type: 'Ready', status: 'True', count: 1 },
      { type: 'Failed', status: 'False', count: 2 },
    ],
  },
};

suite('JSON paths', () => {
  const cases: [string, unknown][] = [
    ['.spec.replicas', 3],
    ['.metadata.labels.plain', 'x'],
    [".metadata.labels['a.b/c']", 'dotted'],
    ['.metadata.labels.a\\.b/c', 'dotted'],
    ['.metadata.labels["a.b/c"]', 'dotted'],
    ['.spec.list[0].name', 'a'],
    ['.spec.list[-1].name', 'b'],
    ['.spec.list[*].name', 'a'],
    ['.spec.list[7].name', undefined],
    ['.status.conditions[?(@.type=="Ready")].status', 'True'],
    [".status.conditions[?(@.type == 'Failed')].status", 'False'],
    ['.status.conditions[?(@.type!="Ready")].status', 'False'],
    ['.status.conditions[?(@.count==2)].type', 'Failed'],
    ['.status.conditions[?(@.missing)].type', undefined],
    ['.status.conditions[?(@.type=="None")].status', undefined],
    ['.spec.missing.deeper', undefined],
    ['.spec.replicas.deeper', undefined],
    ['.spec.constructor', undefined],
    ['.', object],
  ];
  for (const [text, expected] of cases) {
    test(text, () => {
      const path = parseJsonPath(text);
      assert.ok(path !== undefined);
      assert.deepEqual(firstAt(object, path), expected);
    });
  }
  for (const text of ['spec', '.spec..name', '.a[', '.a[1:2]', '.a[?(@.b > 1)]', '.a[x]', '.a]']) {
    test(`${text} is refused`, () => assert.equal(parseJsonPath(text), undefined));
  }
});

suite('columns', () => {
  const now = new Date('2026-01-01T00:05:30Z');
  const cell = (type: string, jsonPath: string): unknown =>
    columnsOf([{ name: 'C', type, format: '', description: '', priority: 0, jsonPath }])[0]?.cell(
      object,
      now,
    );
  const cases: [string, string, unknown][] = [
    ['string', '.spec.replicas', '3'],
    ['string', '.spec.ratio', '0.5'],
    ['string', '.spec.on', 'true'],
    ['string', '.spec.map', '{"a":2,"b":1}'],
    ['string', '.spec.nothing', null],
    ['string', '.spec.missing', null],
    ['integer', '.spec.replicas', 3],
    ['integer', '.spec.on', null],
    ['number', '.spec.ratio', 0.5],
    ['boolean', '.spec.on', true],
    ['boolean', '.spec.replicas', null],
    ['date', '.metadata.creationTimestamp', '5m30s'],
    ['date', '.metadata.labels.plain', '<invalid>'],
    ['date', '.spec.missing', null],
    ['string', 'broken', null],
  ];
  for (const [type, path, expected] of cases) {
    test(`${type} at ${path}`, () => assert.deepEqual(cell(type, path), expected));
  }
  test('the column of age, without others', () => {
    const [age, ...rest] = columnsOf([]);
    assert.deepEqual([age?.name, age?.type, age?.cell(object, now), rest], ['Age', 'date', '5m30s', []]);
  });
});

test('versions in their order', () => {
  const ordered = [
    'v10',
    'v2',
    'v1',
    'v11beta2',
    'v10beta3',
    'v3beta1',
    'v12alpha1',
    'v11alpha2',
    'foo1',
    'foo10',
    'v0',
  ];
  assert.deepEqual([...ordered].reverse().sort(compareVersions), ordered);
});
