import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ApiError } from '../resources/api-error.ts';
import { parseAccept } from './accept.ts';
import { type AnswerKind, negotiate } from './format.ts';

/** The headers that kubectl sends with `get`, by release. */
const table =
  'application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json';
const partialList = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
const partial = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';

const cases: readonly (readonly [
  accept: string | undefined,
  what: AnswerKind,
  result: string | undefined,
])[] = [
  [undefined, 'item', 'json object'],
  ['', 'list', 'json object'],
  ['application/json', 'watch', 'json object'],
  ['*/*', 'item', 'json object'],
  ['application/*', 'list', 'json object'],
  ['APPLICATION/JSON', 'item', 'json object'],
  ['*/json', 'item', undefined],
  ['text/html', 'item', undefined],
  ['text/html, */*;q=0.1', 'item', 'json object'],
  ['application/yaml', 'item', 'yaml object'],
  ['application/yaml', 'list', 'yaml object'],
  ['application/yaml', 'watch', undefined],
  ['application/yaml, application/json', 'watch', 'json object'],
  ['application/json;q=0.5, application/yaml;q=0.8', 'item', 'yaml object'],
  ['application/json;q=0.5, application/yaml', 'item', 'yaml object'],
  ['application/*;q=0.9, application/yaml;q=0.9', 'item', 'yaml object'],
  ['application/json;q=0', 'item', undefined],
  ['application/vnd.kubernetes.protobuf', 'item', undefined],
  ['application/vnd.kubernetes.protobuf, application/json', 'list', 'json object'],
  ['application/vnd.kubernetes.protobuf,application/json', 'watch', 'json object'],
  ['application/json;stream=watch', 'watch', 'json object'],
  ['application/json;stream=other', 'watch', undefined],
  ['application/vnd.kubernetes.protobuf;stream=watch, application/json;stream=watch', 'watch', 'json object'],
  ['application/json;charset=utf-8', 'item', 'json object'],
  ['application/json;sv=v2', 'item', undefined],
  [table, 'item', 'json table v1'],
  [table, 'list', 'json table v1'],
  [table, 'watch', 'json table v1'],
  ['application/yaml;as=Table;v=v1;g=meta.k8s.io', 'list', 'yaml table v1'],
  ['application/json;as=Table;v=v1beta1;g=meta.k8s.io', 'list', 'json table v1beta1'],
  ['application/json;as=Table;v=v2;g=meta.k8s.io,application/json', 'list', 'json object'],
  ['application/json;as=Table;v=v1;g=example.com', 'list', undefined],
  ['application/json;v=v1;g=meta.k8s.io', 'list', undefined],
  ['application/json;as=Chart;v=v1;g=meta.k8s.io', 'list', undefined],
  [partialList, 'list', 'json metadata v1'],
  [partialList, 'item', undefined],
  [partialList, 'watch', undefined],
  [partial, 'item', 'json metadata v1'],
  [partial, 'watch', 'json metadata v1'],
  [partial, 'list', undefined],
  [
    `application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,${partial}`,
    'watch',
    'json metadata v1',
  ],
];

test('formats chosen by Accept headers', () => {
  for (const [accept, what, result] of cases) {
    const format = negotiate(accept, what);
    const shown =
      format === undefined
        ? undefined
        : `${format.encoding} ${format.shape}${format.shape === 'object' ? '' : ` ${format.metaVersion}`}`;
    assert.equal(shown, result, `${accept} for ${what}`);
    assert.equal(format?.contentType, result === undefined ? undefined : `application/${format?.encoding}`);
  }
});

test('a format is one instance', () => {
  assert.equal(negotiate(undefined, 'item'), negotiate('*/*', 'watch'));
  assert.equal(negotiate(table, 'list'), negotiate(table.replaceAll(',', ' , '), 'watch'));
  assert.notEqual(negotiate(table, 'list'), negotiate(undefined, 'list'));
});

test('more headers than are remembered', () => {
  for (let index = 0; index < 1_500; index++) {
    assert.equal(negotiate(`text/${index}, application/yaml`, 'item')?.encoding, 'yaml');
  }
  assert.equal(negotiate(undefined, 'item')?.encoding, 'json');
});

test('the query says how much of an object is in a row, and whether it is indented', () => {
  const included = (query: string) => negotiate(table, 'list', new URLSearchParams(query))?.includeObject;
  assert.equal(included(''), 'Metadata');
  assert.equal(included('includeObject=None'), 'None');
  assert.equal(included('includeObject=Metadata'), 'Metadata');
  assert.equal(included('includeObject=Object'), 'Object');
  assert.throws(
    () => included('includeObject=All'),
    (error) => error instanceof ApiError && error.status.code === 400,
  );
  assert.equal(negotiate(undefined, 'list', new URLSearchParams('includeObject=All'))?.shape, 'object');
  assert.equal(negotiate(undefined, 'item', new URLSearchParams('pretty=true'))?.pretty, true);
  assert.equal(negotiate('application/json;pretty=1', 'item')?.pretty, true);
  assert.equal(negotiate(undefined, 'item', new URLSearchParams('pretty=0'))?.pretty, false);
});

test('the order of media ranges', () => {
  const order = (header: string) => parseAccept(header).map(({ type, subtype }) => `${type}/${subtype}`);
  assert.deepEqual(order('*/*, a/*, a/b'), ['a/b', 'a/*', '*/*']);
  assert.deepEqual(order('a/b;q=0.1, c/d;q=0.2, e/f;q=0'), ['c/d', 'a/b']);
  assert.deepEqual(order(', ;q=1, a, /b, a/, a/b/c, x/y;q=nonsense'), ['x/y']);
  assert.deepEqual(parseAccept('a/b; V = "1"')[0]?.parameters.get('v'), '1');
});
