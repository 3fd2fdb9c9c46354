import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { Item, storedText } from '../resources/item.ts';
import { Registry } from '../resources/registry.ts';
import type { JsonObject } from '../../json/json.ts';
import { builtinResources } from './builtin.ts';
import { cells, created, resourceOf, updated } from './builtin.fixture.ts';
import { eventCodec } from './event-codec.ts';

const old = `
apiVersion: v1
kind: Event
metadata: { name: web.1, namespace: shop }
involvedObject: { apiVersion: v1, kind: Pod, name: web, namespace: shop, uid: u1, fieldPath: "spec.containers{web}" }
reason: BackOff
message: "Back-off restarting failed container "
type: Warning
source: { component: kubelet, host: node1 }
count: 7
firstTimestamp: 2026-01-01T00:00:00Z
lastTimestamp: 2026-01-01T00:05:00Z
`;

const now = `
apiVersion: events.k8s.io/v1
kind: Event
metadata: { name: web.2, namespace: shop }
eventTime: 2026-01-01T00:00:00.000000Z
action: Binding
reason: Scheduled
note: assigned
type: Normal
reportingController: default-scheduler
reportingInstance: scheduler-1
regarding: { kind: Pod, name: web, namespace: shop }
`;

suite('Event', () => {
  test('both groups take what their clients send', () => {
    for (const manifest of [old, now]) {
      const { causes, unknown } = created(manifest);
      assert.deepEqual({ causes, unknown }, { causes: [], unknown: [] });
    }
  });

  test('the shapes of both groups', () => {
    const { object } = created(old);
    assert.deepEqual(eventCodec.decode(object), {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: object['metadata'],
      regarding: object['involvedObject'],
      reason: 'BackOff',
      note: 'Back-off restarting failed container ',
      type: 'Warning',
      deprecatedSource: { component: 'kubelet', host: 'node1' },
      deprecatedCount: 7,
      deprecatedFirstTimestamp: '2026-01-01T00:00:00Z',
      deprecatedLastTimestamp: '2026-01-01T00:05:00Z',
      eventTime: null,
    });
    const { object: shown } = created(now);
    assert.equal(eventCodec.encode(shown)['reportingComponent'], 'default-scheduler');
  });

  test('events written in either group can be read in both', () => {
    const resources = [resourceOf('v1', 'Event'), resourceOf('events.k8s.io/v1', 'Event')];
    for (const manifest of [old, now]) {
      const { resource, object } = created(manifest);
      const { before, after } = storedText(resource, object);
      const stored = { text: `${before}7${after}` } as Parameters<typeof Item.ofStored>[1];
      assert.equal((JSON.parse(stored.text) as JsonObject)['apiVersion'], 'v1');
      for (const reader of resources) {
        const item = Item.ofStored(reader, stored);
        const sent = reader === resource ? object : undefined;
        assert.equal(item.object['apiVersion'], reader.group === '' ? 'v1' : 'events.k8s.io/v1');
        const shown = { ...item.object, metadata: { ...(item.object['metadata'] as JsonObject) } };
        Reflect.deleteProperty(shown.metadata, 'resourceVersion');
        if (sent !== undefined) assert.deepEqual(shown, sent);
      }
    }
  });

  test('property: decoding and encoding are each other’s inverse', () => {
    const names = [
      'involvedObject',
      'message',
      'source',
      'firstTimestamp',
      'lastTimestamp',
      'count',
      'reportingComponent',
      'reason',
      'series',
      'type',
      'metadata',
    ];
    const event = fc.dictionary(fc.constantFrom(...names), fc.jsonValue()).map((fields) => ({
      apiVersion: 'v1',
      kind: 'Event',
      ...fields,
    }));
    fc.assert(
      fc.property(event, (stored) => {
        const text = JSON.stringify(stored);
        const shown = eventCodec.decode(stored);
        assert.deepEqual(eventCodec.encode(shown), stored);
        assert.deepEqual(eventCodec.decode(eventCodec.encode(shown)), shown);
        assert.equal(JSON.stringify(stored), text);
      }),
    );
  });

  test('a registry has both groups over one store', () => {
    const registry = new Registry();
    for (const versions of builtinResources()) registry.add(versions);
    const [core, events] = [
      registry.find('', 'v1', 'events'),
      registry.find('events.k8s.io', 'v1', 'events'),
    ];
    assert.equal(core?.storeName, 'events');
    assert.equal(events?.storeName, 'events');
    assert.equal(registry.findStored('events'), core);
    assert.equal(registry.all.filter(({ plural }) => plural === 'events').length, 2);
  });

  test('columns are the same in both groups', () => {
    const at = new Date('2026-01-01T00:10:00Z');
    const { object } = created(old);
    const wanted = {
      'Last Seen': '5m',
      Type: 'Warning',
      Reason: 'BackOff',
      Object: 'pod/web',
      Subobject: 'spec.containers{web}',
      Source: 'kubelet, node1',
      Message: 'Back-off restarting failed container',
      'First Seen': '10m',
      Count: 7,
      Name: 'web.1',
    };
    assert.deepEqual(cells(object, at, true), wanted);
    assert.deepEqual(cells(eventCodec.decode(object), at, true), wanted);
    const single = cells(created(now).object, at, true);
    assert.equal(single['Last Seen'], '10m');
    assert.equal(single['Count'], 1);
    assert.equal(single['Source'], 'default-scheduler, scheduler-1');
  });

  test('field selectors have the names of their group', () => {
    const { object } = created(old);
    const { selectableFields: core } = resourceOf('v1', 'Event');
    const { selectableFields: events } = resourceOf('events.k8s.io/v1', 'Event');
    const shown = eventCodec.decode(object);
    for (const field of ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath']) {
      assert.equal(core.get(`involvedObject.${field}`)?.(object), events.get(`regarding.${field}`)?.(shown));
    }
    assert.equal(core.get('source')?.(object), 'kubelet');
    assert.equal(events.get('source')?.(shown), 'kubelet');
    assert.equal(core.has('regarding.name'), false);
    assert.equal(events.has('involvedObject.name'), false);
  });

  test('an event of the old group is in the namespace of its object', () => {
    assert.deepEqual(created(old.replace('namespace: shop, uid', 'namespace: other, uid')).causes, [
      'involvedObject.namespace: Invalid value: "other": does not match event.namespace',
    ]);
  });

  test('an event of the new group is complete and stored unchanged', () => {
    assert.deepEqual(created(now.replace('eventTime: 2026-01-01T00:00:00.000000Z\n', '')).causes, [
      'eventTime: Required value',
    ]);
    const less = now.replace('action: Binding', 'deprecatedCount: 1').replace('type: Normal', 'type: Fatal');
    assert.deepEqual(created(less).causes, [
      'action: Required value',
      'type: Invalid value: "": has invalid value: Fatal',
      'count: Invalid value: "": needs to be unset',
    ]);
    const first = created(now);
    const series = { count: 2, lastObservedTime: '2026-01-01T00:01:00.000000Z' };
    assert.deepEqual(updated(first, (event) => (event['series'] = series)).causes, []);
    assert.deepEqual(updated(first, (event) => (event['note'] = 'other')).causes, [
      'message: Invalid value: "other": field is immutable',
    ]);
  });
});
