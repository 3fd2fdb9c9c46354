import assert from 'node:assert/strict';
import { test } from 'node:test';

import { objectOf, pods, widgets } from '../discovery/kinds.fixture.ts';
import { Item } from '../resources/item.ts';
import type { JsonObject } from '../../json/json.ts';
import type { WatchEvent } from '../verbs/request.ts';
import { renderEvents } from './events.ts';
import { type Format, negotiate } from './format.ts';

const now = new Date('2026-01-02T00:00:30Z');
const later = new Date('2026-01-02T00:00:40Z');

function formatOf(accept: string, query = ''): Format {
  const format = negotiate(accept, 'watch', new URLSearchParams(query));
  assert.ok(format !== undefined);
  return format;
}

const json = formatOf('application/json;stream=watch');
const table = formatOf('application/json;as=Table;g=meta.k8s.io;v=v1');
const metadata = formatOf('application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1');

const pod = (name: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { resourceVersion: '7', name, creationTimestamp: '2026-01-02T00:00:00Z' },
  status: { phase: 'Running' },
});
const itemOf = (name: string) => Item.ofObject(pods, pod(name));
const lines = (text: string): readonly JsonObject[] => {
  assert.ok(text.endsWith('\n'));
  return text.slice(0, -1).split('\n').map(objectOf);
};

test('events are lines', () => {
  const batch: readonly WatchEvent[] = [
    { type: 'ADDED', item: itemOf('a') },
    { type: 'MODIFIED', item: itemOf('b') },
    { type: 'DELETED', item: itemOf('c') },
    { type: 'BOOKMARK', version: 9n, initialEventsEnd: false },
  ];
  assert.deepEqual(lines(renderEvents(batch, pods, json, now)), [
    { type: 'ADDED', object: pod('a') },
    { type: 'MODIFIED', object: pod('b') },
    { type: 'DELETED', object: pod('c') },
    { type: 'BOOKMARK', object: { kind: 'Pod', apiVersion: 'v1', metadata: { resourceVersion: '9' } } },
  ]);
});

test('a line is made once for all watches', (t) => {
  const item = itemOf('a');
  const asked = t.mock.getter(item, 'text', () => JSON.stringify(pod('a')));
  const event: WatchEvent = { type: 'ADDED', item };
  const first = renderEvents([event], pods, json, now);
  for (let watch = 0; watch < 100; watch++) {
    assert.ok(Object.is(renderEvents([event], pods, json, later), first));
  }
  assert.equal(asked.mock.callCount(), 1);
});

test('another type, another format and another moment are other lines', () => {
  const item = itemOf('a');
  const of = (type: 'ADDED' | 'DELETED', format: Format, at: Date, columns?: boolean) =>
    lines(renderEvents([{ type, item }], pods, format, at, columns))[0];
  assert.equal(of('ADDED', json, now)?.['type'], 'ADDED');
  assert.equal(of('DELETED', json, now)?.['type'], 'DELETED');
  const cells = (event: JsonObject | undefined) => {
    const shown = event?.['object'] as { rows: readonly { cells: readonly unknown[] }[] } | undefined;
    return shown?.rows[0]?.cells;
  };
  assert.deepEqual(cells(of('ADDED', table, now)), ['a', 'Running', '30s', null]);
  assert.deepEqual(cells(of('ADDED', table, later)), ['a', 'Running', '40s', null]);
  assert.deepEqual(of('ADDED', metadata, now)?.['object'], {
    kind: 'PartialObjectMetadata',
    apiVersion: 'meta.k8s.io/v1',
    metadata: pod('a').metadata,
  });
});

test('only the first Table of a watch has its columns', () => {
  const batch = ['a', 'b'].map((name): WatchEvent => ({ type: 'ADDED', item: itemOf(name) }));
  const columns = (text: string) =>
    lines(text).map(
      ({ object }) => (object as { columnDefinitions: readonly unknown[] }).columnDefinitions.length,
    );
  assert.deepEqual(columns(renderEvents(batch, pods, table, now, true)), [4, 0]);
  assert.deepEqual(columns(renderEvents(batch, pods, table, now, false)), [0, 0]);
  assert.deepEqual(columns(renderEvents(batch, pods, table, now)), [4, 0]);
});

test('bookmarks in all formats', () => {
  const end: WatchEvent = { type: 'BOOKMARK', version: 18_446_744_073_709_551_615n, initialEventsEnd: true };
  const meta = {
    resourceVersion: '18446744073709551615',
    annotations: { 'k8s.io/initial-events-end': 'true' },
  };
  const shown = (format: Format) => lines(renderEvents([end], widgets, format, now))[0]?.['object'];
  const bookmark = { kind: 'Widget', apiVersion: 'stable.example.com/v1', metadata: meta };
  const partial = { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: meta };
  assert.deepEqual(shown(json), bookmark);
  assert.deepEqual(shown(metadata), partial);
  const { metadata: tableMeta, rows } = shown(table) as { metadata: unknown; rows: readonly JsonObject[] };
  assert.deepEqual(tableMeta, { resourceVersion: meta.resourceVersion });
  assert.deepEqual(rows[0]?.['object'], partial);
  const whole = shown(formatOf('application/json;as=Table;g=meta.k8s.io;v=v1', 'includeObject=Object'));
  assert.deepEqual((whole as { rows: readonly JsonObject[] }).rows[0]?.['object'], bookmark);
});
