import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { ManualClock } from '../../time/clock.fixture.ts';
import { EventAggregation } from './event-aggregation.ts';
import { cutNote, type EventRecord, newEventPlace } from './event-object.ts';

const MINUTE_MS = 60_000;
const pod = { apiVersion: 'v1', kind: 'Pod', namespace: 'a', name: 'web', uid: 'u1' };
const happened: EventRecord = { regarding: pod, reason: 'Read', action: 'Watch', note: 'by cat' };
const { resourceVersion: _none, ...later } = { ...pod, resourceVersion: '7' };

suite('event aggregation', () => {
  test('the same again is counted, until nothing came for 6 minutes', () => {
    const clock = new ManualClock();
    const events = new EventAggregation(clock);
    const first = events.add(happened);
    assert.equal(first.kind, 'new');
    clock.advanceSync(6 * MINUTE_MS);
    const second = events.add({ ...happened, regarding: { ...later, resourceVersion: '8' }, type: 'Normal' });
    assert.ok(first.kind === 'new' && second.kind === 'series');
    assert.equal(second.entry, first.entry);
    assert.equal(second.entry.count, 2);
    assert.equal(second.entry.lastWallMs - second.entry.firstWallMs, 6 * MINUTE_MS);
    clock.advanceSync(6 * MINUTE_MS + 1);
    assert.equal(events.add(happened).kind, 'new');
  });

  test('events that differ in any field are separate', () => {
    const events = new EventAggregation(new ManualClock());
    events.add(happened);
    for (const other of [
      { reason: 'Wrote' },
      { action: 'Trap' },
      { type: 'Warning' as const },
      { note: 'by dd' },
      { related: pod },
      { regarding: { ...pod, uid: 'u2' } },
      { regarding: { ...pod, fieldPath: 'spec.containers{web}' } },
    ]) {
      assert.equal(events.add({ ...happened, ...other }).kind, 'new', JSON.stringify(other));
    }
  });

  test('many notes become one series, which ends with the burst; known notes keep their own', () => {
    const clock = new ManualClock();
    const events = new EventAggregation(clock);
    const add = (note: string) => events.add({ ...happened, note });
    for (let index = 0; index < 10; index++) assert.equal(add(`file ${index}`).kind, 'new');
    const combined = add('file 10');
    assert.ok(combined.kind === 'new');
    assert.equal(combined.entry.record.note, '(combined from similar events): file 10');
    for (let index = 11; index < 20; index++) {
      const more = add(`file ${index}`);
      assert.equal(more.kind === 'series' && more.entry, combined.entry);
    }
    assert.equal(combined.entry.count, 10);
    const known = add('file 3');
    assert.equal(known.kind === 'series' && known.entry.record.note, 'file 3');
    clock.advanceSync(10 * MINUTE_MS + 1);
    const after = add('file 30');
    assert.equal(after.kind === 'new' && after.entry.record.note, 'file 30');
  });

  test('allows 25 events at once for each object, then one in 5 minutes', () => {
    const clock = new ManualClock();
    const events = new EventAggregation(clock);
    const add = (reason: string) => events.add({ ...happened, reason }).kind;
    for (let index = 0; index < 25; index++) assert.equal(add(`R${index}`), 'new');
    assert.equal(add('R25'), 'limited');
    assert.equal(add('R3'), 'series', 'what is there is counted');
    assert.equal(events.add({ ...happened, regarding: { ...pod, uid: 'u2' } }).kind, 'new');
    clock.advanceSync(5 * MINUTE_MS);
    assert.deepEqual([add('R25'), add('R26')], ['new', 'limited']);
  });

  test('an event that could not be written starts a new series', () => {
    const events = new EventAggregation(new ManualClock(), { distinctNotes: 0 });
    const first = events.add(happened);
    assert.ok(first.kind === 'new');
    events.forget(first.entry);
    const second = events.add(happened);
    assert.equal(second.kind, 'new');
    events.forget(first.entry);
    assert.equal(events.add(happened).kind, 'series', 'another entry of that name is left alone');
  });

  test('the series that was idle longest is forgotten', () => {
    const events = new EventAggregation(new ManualClock(), { remembered: 2, distinctNotes: 100 });
    const add = (note: string) => events.add({ ...happened, note }).kind;
    assert.deepEqual(['a', 'b', 'a', 'c', 'a', 'b'].map(add), [
      'new',
      'new',
      'series',
      'new',
      'series',
      'new',
    ]);
  });

  test('notes are cut at 1024 bytes, between characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 1500 }), fc.nat(2), (text, more) => {
        const note = `${'x'.repeat(more)}${text}`;
        const cut = cutNote(note);
        assert.ok(Buffer.byteLength(cut) <= 1024);
        if (Buffer.byteLength(note) <= 1024) assert.equal(cut, note);
        else {
          assert.ok(cut.endsWith('…') && note.startsWith(cut.slice(0, -1)));
          assert.ok(Buffer.byteLength(cut) > 1024 - 7, 'no more than needed');
        }
      }),
    );
    assert.equal(Buffer.byteLength(cutNote('é'.repeat(600))), 1023);
    assert.equal(cutNote('é'.repeat(512)), 'é'.repeat(512));
  });

  test('the name of an event is one that the API takes, whatever the object is called', () => {
    const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
    fc.assert(
      fc.property(
        fc.oneof(fc.string({ maxLength: 300 }), fc.stringMatching(/^[-a-z0-9.:]{0,260}$/)),
        (name) => {
          const place = newEventPlace({ name });
          assert.match(place.name, subdomain);
          assert.ok(place.name.length <= 253);
          assert.equal(place.namespace, 'default');
        },
      ),
    );
    assert.match(newEventPlace(pod).name, /^web\.[0-9a-f]{16}$/);
    assert.equal(newEventPlace(pod).namespace, 'a');
  });
});
