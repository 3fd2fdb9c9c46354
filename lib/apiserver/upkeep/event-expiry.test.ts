// Old events are deleted, through the real store and the real verbs; time is the test's.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { type Clock, systemClock } from '../../time/clock.ts';
import type { JsonObject } from '../../json/json.ts';
import { EventExpiry } from './event-expiry.ts';
import { kinds, startServer, type TestServer } from './server.fixture.ts';

const { events } = kinds;
const minuteMs = 60_000;

function event(name: string, fields: JsonObject = {}): JsonObject {
  const involvedObject = { kind: 'Pod', namespace: 'default', name: 'web' };
  return { apiVersion: 'v1', kind: 'Event', metadata: { name }, involvedObject, ...fields };
}

function expiry(server: TestServer, aheadMs: () => number, calls = server.calls): EventExpiry {
  const clock: Clock = {
    ...systemClock,
    wallMs: () => Date.now() + aheadMs(),
    schedule: systemClock.schedule,
  };
  return new EventExpiry({ store: server.store, registry: server.registry, calls, clock });
}

function feed(server: TestServer, into: EventExpiry): void {
  for (const object of server.store.list('events').items) into.object('ADDED', object);
}

const names = (server: TestServer): string[] => server.store.list('events').items.map(({ name }) => name);

suite('event expiry', { timeout: 300_000 }, () => {
  test('an event goes an hour after it was seen last', async () => {
    await using server = await startServer({ upkeep: false });
    let aheadMs = 0;
    const subject = expiry(server, () => aheadMs);
    const old = new Date(Date.now() - 180 * minuteMs).toISOString();
    await server.create(events, event('a', { lastTimestamp: old }));
    await server.create(events, event('b'));
    feed(server, subject);
    await subject.deleteDue(server.signal);
    assert.deepEqual(names(server), ['a', 'b'], 'both were made just now');
    aheadMs = 58 * minuteMs;
    await subject.deleteDue(server.signal);
    assert.deepEqual(names(server), ['a', 'b']);
    const seen = new Date(Date.now() + aheadMs).toISOString();
    const patch = { series: { count: 2, lastObservedTime: seen.replace('Z', '000Z') } };
    await server.calls.patch(events, { namespace: 'default', name: 'b' }, patch, server.signal);
    aheadMs = 62 * minuteMs;
    await subject.deleteDue(server.signal);
    assert.deepEqual(names(server), ['b']);
    aheadMs = 120 * minuteMs;
    await subject.deleteDue(server.signal);
    assert.deepEqual(names(server), []);
    assert.deepEqual([subject.expired, subject.size, subject.failures], [2, 0, 0]);
  });

  test('events that others have deleted or created again cause no error', async () => {
    await using server = await startServer({ upkeep: false });
    let aheadMs = 0;
    const subject = expiry(server, () => aheadMs);
    await server.create(events, event('a'));
    await server.create(events, event('b'));
    feed(server, subject);
    await server.delete(events, 'a');
    await server.delete(events, 'b');
    await server.create(events, event('b'));
    feed(server, subject);
    aheadMs = 62 * minuteMs;
    await subject.deleteDue(server.signal);
    assert.deepEqual(names(server), []);
    assert.deepEqual([subject.expired, subject.failures], [1, 0]);
  });

  test('a deletion that fails is tried again later', async () => {
    await using server = await startServer({ upkeep: false });
    let aheadMs = 0;
    let refuses = true;
    const calls = new Proxy(server.calls, {
      get: (target, name) =>
        name === 'delete' && refuses
          ? () => Promise.reject(new Error('no'))
          : (target[name as keyof typeof target] as (...all: unknown[]) => unknown).bind(target),
    });
    const subject = expiry(server, () => aheadMs, calls);
    await server.create(events, event('a'));
    feed(server, subject);
    aheadMs = 62 * minuteMs;
    await subject.deleteDue(server.signal);
    assert.equal(subject.failures, 1);
    refuses = false;
    aheadMs = 65 * minuteMs;
    await subject.deleteDue(server.signal);
    assert.deepEqual(names(server), []);
  });

  test('many at once, in the running server', async () => {
    await using server = await startServer({ eventTtlMs: 200 });
    await Promise.all(Array.from({ length: 500 }, (_, index) => server.create(events, event(`e-${index}`))));
    await server.until('all are gone', () => names(server).length === 0);
    await server.until('all are counted', () => server.upkeep.counts.eventsExpired === 500);
    assert.deepEqual([server.upkeep.counts.eventsKept, server.upkeep.counts.failures], [0, 0]);
  });
});
