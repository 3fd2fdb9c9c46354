import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parse } from 'yaml';

import * as fc from '../../testing/fast-check.fixture.ts';
import {
  configMaps,
  events as eventKind,
  objectOf,
  pods,
  resourceOf,
  widgets,
} from '../discovery/kinds.fixture.ts';
import { Item } from '../resources/item.ts';
import type { Resource } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';
import type { ItemList } from '../verbs/request.ts';
import { type AnswerKind, type Format, negotiate } from './format.ts';
import { renderBody, renderItem, renderList, toYaml } from './render.ts';

const now = new Date('2026-01-02T00:00:30Z');

function formatOf(accept: string, what: AnswerKind, query = ''): Format {
  const format = negotiate(accept, what, new URLSearchParams(query));
  assert.ok(format !== undefined);
  return format;
}

const json = formatOf('application/json', 'list');
const yaml = formatOf('application/yaml', 'list');
const table = (query = '') => formatOf('application/json;as=Table;g=meta.k8s.io;v=v1', 'list', query);
const metadata = formatOf('application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1', 'list');

function stored(resource: Resource, object: JsonObject): Item {
  const text = JSON.stringify(object);
  return Item.ofStored(resource, {
    resource: resource.storeName,
    namespace: 'default',
    name: 'a',
    uid: 'u',
    resourceVersion: 7n,
    text,
    versionAt: 0,
  });
}

function listOf(resource: Resource, items: readonly Item[], more: Partial<ItemList> = {}): ItemList {
  return { resource, items, version: 12n, continue: undefined, remaining: undefined, ...more };
}

const whole = (list: ItemList, format: Format) => [...renderList(list, format, now)].join('');

const pod = (name: string, phase: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { resourceVersion: '7', name, creationTimestamp: '2026-01-02T00:00:00Z' },
  spec: { nodeName: 'node-1' },
  status: { phase },
});

test('a list is what its items are, in all sizes', () => {
  const object = fc.record(
    {
      metadata: fc.record({ name: fc.string() }, { noNullPrototype: true }),
      data: fc.dictionary(fc.string(), fc.string({ unit: 'grapheme' }), { noNullPrototype: true }),
    },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(
      fc.array(object, { maxLength: 20 }),
      fc.option(fc.string(), { nil: undefined }),
      fc.option(fc.nat(), { nil: undefined }),
      fc.bigInt({ min: 1n, max: 2n ** 63n }),
      (objects, token, remaining, version) => {
        const items = objects.map((one, index) =>
          index % 2 === 0 ? stored(configMaps, one) : Item.ofObject(configMaps, one),
        );
        const list = listOf(configMaps, items, { continue: token, remaining, version });
        const expected = {
          kind: 'ConfigMapList',
          apiVersion: 'v1',
          metadata: {
            resourceVersion: String(version),
            ...(token === undefined ? {} : { continue: token }),
            ...(remaining === undefined ? {} : { remainingItemCount: remaining }),
          },
          items: objects,
        };
        assert.deepEqual(JSON.parse(whole(list, json)), expected);
        assert.deepEqual(parse(whole(list, yaml)), expected);
      },
    ),
    { numRuns: 100 },
  );
});

test('a large list comes in parts, and nothing of it is parsed', () => {
  // No JSON on purpose: whoever parses it fails.
  const body = `<${'x'.repeat(2_000)}>`;
  const text = `{"apiVersion":"v1","kind":"ConfigMap",${body}`;
  const items = Array.from({ length: 1_000 }, () => stored(configMaps, {}));
  for (const item of items) Object.defineProperty(item, 'text', { value: text });
  for (const item of items) {
    Object.defineProperty(item, 'object', { get: () => assert.fail('an object was asked for') });
  }
  const parts = [...renderList(listOf(configMaps, items), json, now)];
  assert.ok(parts.length >= 4 && parts.length <= 10, `${parts.length} parts`);
  assert.equal(parts.join('').split(`{${body}`).length, 1_001);
});

test('an empty list has items', () => {
  assert.deepEqual(objectOf(whole(listOf(widgets, []), json)), {
    kind: 'WidgetList',
    apiVersion: 'stable.example.com/v1',
    metadata: { resourceVersion: '12' },
    items: [],
  });
  assert.deepEqual(objectOf(whole(listOf(widgets, []), table()))['rows'], []);
});

test('an object is its text', () => {
  const item = stored(pods, pod('a', 'Running'));
  const format = formatOf('', 'item');
  assert.equal(renderItem(item, format, now), item.text);
  assert.deepEqual(parse(renderItem(item, formatOf('application/yaml', 'item'), now)), pod('a', 'Running'));
  const pretty = renderItem(item, formatOf('', 'item', 'pretty=true'), now);
  assert.match(pretty, /\n {2}"kind": "Pod",\n/);
  assert.deepEqual(JSON.parse(pretty), pod('a', 'Running'));
});

test('a Table: columns, cells, metadata, and finished pods', () => {
  const items = [
    stored(pods, pod('a', 'Running')),
    stored(pods, pod('b', 'Succeeded')),
    stored(pods, pod('c', 'Failed')),
  ];
  const shown = objectOf(whole(listOf(pods, items, { continue: 'token', remaining: 4 }), table()));
  const rows = shown['rows'] as readonly JsonObject[];
  assert.deepEqual(
    { ...shown, rows: undefined },
    {
      kind: 'Table',
      apiVersion: 'meta.k8s.io/v1',
      metadata: { resourceVersion: '12', continue: 'token', remainingItemCount: 4 },
      columnDefinitions: [
        {
          name: 'Name',
          type: 'string',
          format: 'name',
          description: 'Name of the object, unique among those of its kind in its namespace.',
          priority: 0,
        },
        { name: 'Status', type: 'string', format: '', description: 'The Status.', priority: 0 },
        { name: 'Age', type: 'date', format: '', description: 'The Age.', priority: 0 },
        { name: 'Node', type: 'string', format: '', description: 'The Node.', priority: 1 },
      ],
      rows: undefined,
    },
  );
  assert.deepEqual(rows[0], {
    cells: ['a', 'Running', '30s', 'node-1'],
    object: {
      kind: 'PartialObjectMetadata',
      apiVersion: 'meta.k8s.io/v1',
      metadata: pod('a', 'Running').metadata,
    },
  });
  assert.deepEqual(rows[1]?.['conditions'], [
    {
      type: 'Completed',
      status: 'True',
      reason: 'Succeeded',
      message: 'The pod has completed successfully.',
    },
  ]);
  assert.deepEqual(rows[2]?.['conditions'], [
    { type: 'Completed', status: 'True', reason: 'Failed', message: 'The pod failed.' },
  ]);
});

test('includeObject', () => {
  const items = [stored(pods, pod('a', 'Running'))];
  const object = (query: string) => {
    const rows = objectOf(whole(listOf(pods, items), table(query)))['rows'] as readonly JsonObject[];
    return rows[0]?.['object'];
  };
  assert.equal(object('includeObject=None'), null);
  assert.deepEqual(object('includeObject=Object'), pod('a', 'Running'));
});

test('a Table of one object has its version', () => {
  const format = formatOf('application/json;as=Table;g=meta.k8s.io;v=v1beta1', 'item');
  const shown = objectOf(renderItem(stored(pods, pod('a', 'Running')), format, now));
  assert.equal(shown['apiVersion'], 'meta.k8s.io/v1beta1');
  assert.deepEqual(shown['metadata'], { resourceVersion: '7' });
  assert.equal((shown['rows'] as readonly unknown[]).length, 1);
});

test('columns of kinds with a column for the name, and of kinds without columns', () => {
  const names = (resource: Resource) => {
    const columns = objectOf(whole(listOf(resource, []), table()))['columnDefinitions'];
    return (columns as readonly JsonObject[]).map(({ name }) => name);
  };
  assert.deepEqual(names(eventKind), ['Reason', 'Name']);
  assert.deepEqual(names(configMaps), ['Name']);
  assert.deepEqual(names(widgets), ['Name', 'Size', 'Color', 'Phase']);
});

test('a column that fails hides nothing else', () => {
  const broken = resourceOf({
    group: 'example.com',
    version: 'v1',
    plural: 'things',
    kind: 'Thing',
    openApi: widgets.openApi,
    columns: [{ ...(widgets.columns[0] ?? assert.fail()), cell: () => assert.fail('broken') }],
  });
  const rows = objectOf(whole(listOf(broken, [stored(broken, { metadata: { name: 'a' } })]), table()))[
    'rows'
  ];
  assert.deepEqual((rows as readonly JsonObject[])[0]?.['cells'], ['a', '<invalid>']);
});

test('metadata alone', () => {
  const items = [stored(pods, pod('a', 'Running'))];
  const partial = {
    kind: 'PartialObjectMetadata',
    apiVersion: 'meta.k8s.io/v1',
    metadata: pod('a', '').metadata,
  };
  assert.deepEqual(objectOf(whole(listOf(pods, items), metadata)), {
    kind: 'PartialObjectMetadataList',
    apiVersion: 'meta.k8s.io/v1',
    metadata: { resourceVersion: '12' },
    items: [partial],
  });
});

test('renders integers beyond the range of JavaScript numbers', () => {
  const text = '{"metadata":{"name":"a","generation":9007199254740993},"n":9223372036854775807}';
  const item = stored(configMaps, {});
  Object.defineProperty(item, 'text', { value: text });
  assert.equal(renderItem(item, json, now), text);
  assert.match(renderItem(item, formatOf('application/yaml', 'item'), now), /"n": 9223372036854775807\n/);
  const pretty = renderItem(item, formatOf('', 'item', 'pretty=1'), now);
  assert.match(pretty, /^ {4}"generation": 9007199254740993\n {2}\},\n {2}"n": 9223372036854775807\n\}\n$/m);
});

test('integers beyond those that a number holds for sure, whose digits are the same as a number', () => {
  const text = '{"n":9223372036854776000,"m":9007199254740992}';
  const item = stored(configMaps, {});
  Object.defineProperty(item, 'text', { value: text });
  const pretty = renderItem(item, formatOf('', 'item', 'pretty=1'), now);
  assert.equal(pretty, '{\n  "n": 9223372036854776000,\n  "m": 9007199254740992\n}\n');
});

test('YAML means the same to all readers', () => {
  const hard = [
    'yes',
    'off',
    'y',
    'null',
    '~',
    '1_000',
    '0o17',
    '-0o7',
    '017',
    '0x1f',
    '1e3',
    '=',
    '<<',
    '1:30',
    '',
    ' a',
    '2026-01-01',
    'a: b',
    '#',
    'a\nb',
  ];
  const value = { hard, map: Object.fromEntries(hard.map((name) => [name, name])) };
  const text = toYaml(value);
  assert.deepEqual(parse(text, { version: '1.1' }), value);
  assert.deepEqual(parse(text, { version: '1.2' }), value);
  assert.deepEqual(parse(text, { version: '1.2', schema: 'core' }), value);
  assert.match(text, /- "0o17"\n/);
  const line = 'word '.repeat(100).trim();
  assert.equal(toYaml({ line }), `line: ${line}\n`);
});

test('a Status keeps its form', () => {
  const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', code: 404 };
  assert.deepEqual(JSON.parse(renderBody(status, table())), status);
  assert.deepEqual(parse(renderBody(status, yaml)), status);
});
