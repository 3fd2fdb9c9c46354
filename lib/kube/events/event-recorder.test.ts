import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ManualClock } from '../../time/clock.fixture.ts';
import { type Answer, json, type Pair, pair, status } from '../client/api-server.fixture.ts';
import { type EventRecord, type KubeEvent, referenceTo } from './event-object.ts';
import { EventRecorder, type EventRecorderOptions } from './event-recorder.ts';
import { leases } from '../object/object.ts';

const pod = { apiVersion: 'v1', kind: 'Pod', namespace: 'a', name: 'web', uid: 'u1' };
const happened: EventRecord = { regarding: pod, reason: 'Read', action: 'Watch', note: 'by cat' };
const { signal } = new AbortController();

/** The events endpoint of an API server, with its rules for events.k8s.io/v1. */
class EventStore {
  readonly stored = new Map<string, KubeEvent>();
  /** Answers in place of the server; after it, when it says so. */
  fault: (method: string, count: number) => 'none' | 'mute' | { code: number; reason: string } = () => 'none';

  readonly answer: Answer = ({ method, url, body }, response, count) => {
    const fault = this.fault(method, count);
    if (typeof fault === 'object') return json(response, fault.code, status(fault.code, fault.reason, 'no'));
    const [code, answer] = this.#carryOut(method, url, JSON.parse(body) as KubeEvent);
    if (fault === 'mute') response.socket?.resetAndDestroy();
    else json(response, code, answer);
  };

  #carryOut(method: string, url: string, sent: KubeEvent): [number, unknown] {
    const [, namespace = '', name = ''] = /namespaces\/([^/]+)\/events\/?([^/?]*)/.exec(url) ?? [];
    if (method === 'POST') {
      const key = `${namespace}/${sent.metadata.name}`;
      if (this.stored.has(key)) return [409, status(409, 'AlreadyExists', 'is there')];
      if (sent.reason === '') return [422, status(422, 'Invalid', 'reason: Required value')];
      assert.equal(sent.apiVersion, 'events.k8s.io/v1');
      assert.match(String(sent.eventTime), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
      if (sent.series) assert.ok(sent.series.count >= 2);
      this.stored.set(key, sent);
      return [201, sent];
    }
    const old = this.stored.get(`${namespace}/${name}`);
    if (old === undefined) return [404, status(404, 'NotFound', 'expired')];
    assert.deepEqual(Object.keys(sent), ['series'], 'all else must not change');
    const changed = { ...old, ...sent };
    this.stored.set(`${namespace}/${name}`, changed);
    return [200, changed];
  }

  /** The recorded notes, in order. */
  get reported(): unknown[] {
    return [...this.stored.values()].map(({ note, series }) => [note, series?.count ?? 1]);
  }
}

interface Fixture {
  readonly store: EventStore;
  readonly both: Pair;
  readonly clock: ManualClock;
  readonly recorder: EventRecorder;
}

async function withRecorder(
  run: (fixture: Fixture) => Promise<void>,
  options: Partial<EventRecorderOptions> = {},
): Promise<void> {
  const store = new EventStore();
  const clock = new ManualClock(0);
  await using both = await pair(store.answer, { perSecond: Infinity });
  const recorder = new EventRecorder({
    client: both.client,
    controller: 'rampart.dev/agent',
    instance: 'node-1',
    clock,
    ...options,
  });
  await run({ store, both, clock, recorder });
  await recorder.stop(AbortSignal.abort());
  const { recorded, waiting, ...outcomes } = recorder.stats();
  assert.equal(waiting, 0);
  assert.equal(
    Object.values(outcomes).reduce((sum, one) => sum + one, 0),
    recorded,
    `every event is accounted for: ${JSON.stringify(recorder.stats())}`,
  );
}

/** Waits until the server has had `count` requests. */
async function requests({ server }: Pair, count: number, clock?: ManualClock): Promise<void> {
  while (server.received.length < count) {
    await clock?.advance(60_000);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

suite('event recorder', () => {
  test('an event as the API wants it; repeated, one patch of its series', () =>
    withRecorder(async ({ store, both, clock, recorder }) => {
      recorder.record({ ...happened, type: 'Warning', related: { kind: 'Node', name: 'n' } });
      await recorder.flush(signal);
      const [event] = store.stored.values();
      const { name = '' } = event?.metadata ?? {};
      assert.match(name, /^web\.[0-9a-f]{16}$/);
      assert.deepEqual(event, {
        apiVersion: 'events.k8s.io/v1',
        kind: 'Event',
        metadata: { namespace: 'a', name },
        eventTime: '2030-01-01T00:00:00.000000Z',
        reportingController: 'rampart.dev/agent',
        reportingInstance: 'node-1',
        type: 'Warning',
        reason: 'Read',
        action: 'Watch',
        note: 'by cat',
        regarding: pod,
        related: { kind: 'Node', name: 'n' },
      });
      await clock.advance(5000);
      const again = { ...happened, type: 'Warning' as const, related: { kind: 'Node', name: 'n' } };
      for (let times = 0; times < 1000; times++) recorder.record(again);
      await clock.advance(9999);
      assert.equal(both.server.received.length, 1);
      await clock.advance(1);
      await requests(both, 2);
      await recorder.flush(signal);
      assert.deepEqual(
        [...store.stored.values()].map(({ series }) => series),
        [{ count: 1001, lastObservedTime: '2030-01-01T00:00:05.000000Z' }],
      );
      assert.equal(both.server.received.length, 2);
      assert.equal(recorder.stats().written, 1001);
    }));

  test('events that come together are one object from the start', () =>
    withRecorder(async ({ store, both, recorder }) => {
      for (let times = 0; times < 5; times++) recorder.record(happened);
      for (let index = 0; index < 20; index++) recorder.record({ ...happened, note: `file ${index}` });
      await recorder.flush(signal);
      assert.deepEqual(store.reported.slice(0, 2), [
        ['by cat', 5],
        ['file 0', 1],
      ]);
      assert.deepEqual(store.reported.at(-1), ['(combined from similar events): file 9', 11]);
      assert.equal(both.server.received.length, 11);
    }));

  test('a cluster-scoped object: its events are in default; a spec of a lease', () =>
    withRecorder(async ({ store, recorder }) => {
      recorder.record({ ...happened, regarding: { kind: 'Node', name: 'n' } });
      const lease = { metadata: { namespace: 'a', name: 'l', uid: 'u', resourceVersion: '3', labels: {} } };
      const regarding = referenceTo(leases, lease);
      recorder.record({ ...happened, regarding });
      await recorder.flush(signal);
      assert.deepEqual(
        [...store.stored.values()].map(({ metadata, regarding: about }) => [metadata.namespace, about?.kind]),
        [
          ['default', 'Node'],
          ['a', 'Lease'],
        ],
      );
      const rest = { namespace: 'a', name: 'l', uid: 'u', resourceVersion: '3' };
      assert.deepEqual(regarding, { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', ...rest });
    }));

  test('the event has expired: the series goes on in a new object', () =>
    withRecorder(async ({ store, recorder }) => {
      recorder.record(happened);
      await recorder.flush(signal);
      store.stored.clear();
      recorder.record(happened);
      await recorder.flush(signal);
      assert.deepEqual(store.reported, [['by cat', 2]]);
    }));

  test('an answer that gets lost: written once, counted right', () =>
    withRecorder(async ({ store, both, clock, recorder }) => {
      store.fault = (_method, count) => (count === 0 || count === 2 ? 'mute' : 'none');
      recorder.record(happened);
      recorder.record(happened);
      await requests(both, 3, clock);
      recorder.record(happened);
      const flushed = recorder.flush(signal);
      await requests(both, 4, clock);
      await flushed;
      assert.deepEqual(store.reported, [['by cat', 3]]);
      assert.equal(recorder.stats().written, 3);
    }));

  test('a server that is busy or broken: tried again; then given up, counted, and begun anew', () =>
    withRecorder(async ({ store, both, clock, recorder }) => {
      store.fault = (_method, count) => (count < 3 ? { code: 500, reason: 'InternalError' } : 'none');
      recorder.record(happened);
      await requests(both, 4, clock);
      await recorder.flush(signal);
      assert.deepEqual(store.reported, [['by cat', 1]]);
      store.fault = () => ({ code: 500, reason: 'InternalError' });
      recorder.record({ ...happened, note: 'other' });
      await requests(both, 4 + 12, clock);
      await recorder.flush(signal);
      assert.equal(recorder.stats().failed, 1);
      store.fault = () => 'none';
      recorder.record({ ...happened, note: 'other' });
      await recorder.flush(signal);
      assert.deepEqual(store.reported.at(-1), ['other', 1]);
    }));

  test('an event that the API refuses is not retried, and does not delay others', () =>
    withRecorder(async ({ store, both, recorder }) => {
      store.fault = (_method, count) => (count === 0 ? { code: 403, reason: 'Forbidden' } : 'none');
      recorder.record(happened);
      recorder.record({ ...happened, reason: '' });
      recorder.record({ ...happened, note: 'other' });
      await recorder.flush(signal);
      assert.deepEqual(store.reported, [['other', 1]]);
      assert.equal(both.server.received.length, 3);
      assert.equal(recorder.stats().refused, 2);
    }));

  test('never throws into its caller', () =>
    withRecorder(async ({ recorder }) => {
      recorder.record({} as EventRecord);
      recorder.record(undefined as unknown as EventRecord);
      assert.equal(recorder.stats().refused, 2);
    }));

  test('a full queue: what is over is dropped and counted, what is in it is written', () =>
    withRecorder(
      async ({ store, recorder }) => {
        for (const note of ['a', 'b', 'a', 'c', 'b', 'c']) recorder.record({ ...happened, note });
        assert.equal(recorder.stats().dropped, 2);
        await recorder.flush(signal);
        recorder.record({ ...happened, note: 'c' });
        await recorder.flush(signal);
        assert.deepEqual(store.reported, [
          ['a', 2],
          ['b', 2],
          ['c', 1],
        ]);
        for (const note of ['d', 'e', 'a', 'a']) recorder.record({ ...happened, note });
        await recorder.flush(signal);
        assert.equal(recorder.stats().dropped, 4);
        recorder.record({ ...happened, note: 'a' });
        await recorder.flush(signal);
        assert.deepEqual(store.reported[0], ['a', 3], 'what was dropped is not counted');
      },
      { queueLimit: 2 },
    ));

  test('too many about one object are limited and counted', () =>
    withRecorder(async ({ store, recorder }) => {
      for (let index = 0; index < 30; index++) recorder.record({ ...happened, reason: `R${index}` });
      await recorder.flush(signal);
      assert.deepEqual([store.stored.size, recorder.stats().limited], [25, 5]);
    }));

  test('stopped: what waits is written, series too; what comes after is dropped', () =>
    withRecorder(async ({ store, recorder }) => {
      recorder.record(happened);
      await recorder.flush(signal);
      recorder.record(happened);
      await recorder.stop(signal);
      recorder.record(happened);
      assert.deepEqual(store.reported, [['by cat', 2]]);
      assert.equal(recorder.stats().dropped, 1);
    }));

  test('stopped while the API is down: ends when its time is up, and says what is lost', () =>
    withRecorder(async ({ store, both, recorder, clock }) => {
      store.fault = () => ({ code: 503, reason: 'ServiceUnavailable' });
      for (const note of ['a', 'a', 'b']) recorder.record({ ...happened, note });
      await requests(both, 1);
      await assert.rejects(recorder.flush(AbortSignal.abort(new Error('no time'))), /no time/);
      const stopped = recorder[Symbol.asyncDispose]();
      await clock.advance(5000);
      await stopped;
      assert.equal(recorder.stats().dropped, 3);
      assert.equal(clock.timers, 0);
    }));
});
