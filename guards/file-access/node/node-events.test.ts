import assert from 'node:assert/strict';
import { test } from 'node:test';

import { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { EventRecord } from '../../../lib/kube/events/event-object.ts';
import type { KivePolicy } from '../api.ts';
import { policyQuery } from '../caches.ts';
import type { CallbackState, CallbackStats } from '../delivery/options.ts';
import { compilePolicy } from '../policy/matching.ts';
import { NodeEvents } from './node-events.ts';
import { nginxPod, policyOf, trapOn } from '../policy/policy.fixture.ts';

function start(...names: readonly string[]): {
  readonly events: NodeEvents;
  readonly reported: EventRecord[];
} {
  return startWith(names.map((name) => policyOf(name, trapOn('/secret.txt'))));
}

function startWith(all: readonly KivePolicy[]): {
  readonly events: NodeEvents;
  readonly reported: EventRecord[];
  readonly touched: string[];
} {
  const touched: string[] = [];
  const onCallbacks = (keys: Iterable<string>): void => void touched.push(...keys);
  const policies = new IndexedCache(policyQuery);
  for (const policy of all) {
    policies.put({ ...policy, metadata: { ...policy.metadata, resourceVersion: '1' } }, { force: true });
  }
  const reported: EventRecord[] = [];
  const recorder = { record: (record: EventRecord) => void reported.push(record) };
  return { events: new NodeEvents({ recorder, nodeName: 'n1', policies, onCallbacks }), reported, touched };
}

test('a file is reported on its policy and on the object that holds it', () => {
  const { events, reported } = start('p');
  const [trap] = compilePolicy(policyOf('p', trapOn('/secret.txt'))).traps;
  const [other] = compilePolicy(policyOf('gone', trapOn('/secret.txt'))).traps;
  assert.ok(trap && other);
  const container = { id: 'containerd://1', name: 'nginx', pod: nginxPod };
  events.file('FileMissing', trap, container);
  events.file('Watching', other, container);
  assert.equal(reported.length, 1, 'nothing about a policy that is gone');
  assert.equal(reported[0]?.regarding.name, 'p');
  assert.equal(reported[0]?.type, 'Warning');
  assert.match(reported[0]?.note ?? '', /^\/secret\.txt in default\/nginx-pod\/nginx on n1 is gone/);
  events.file('FileMoved', trap, container);
  assert.equal(reported[1]?.type, 'Warning');
  assert.match(reported[1]?.note ?? '', /was moved; the moved file is still watched$/);
});

test('a loss is reported once on each policy, on a limited number of them', () => {
  const names = Array.from({ length: 30 }, (_, number) => `p${number}`);
  const { events, reported } = start(...names);
  events.lost(
    7,
    [...names, ...names].map((name) => `kivebpf-system/${name}`),
  );
  assert.equal(reported.length, 20);
  assert.equal(new Set(reported.map(({ regarding }) => regarding.name)).size, 20);
  assert.match(reported[0]?.note ?? '', /^7 accesses to watched files were lost on n1/);
});

function failing(callback: string, secret: string, why: string): CallbackStats {
  return {
    callback,
    secret,
    name: `${new URL(callback).origin}#0123abcd`,
    depth: 1,
    sizeBytes: 100,
    oldestMs: 0,
    delivered: 0,
    failures: 1,
    lastError: { why, atMs: 0, aboutCredentials: true },
  };
}

test('missing credentials are reported on the policies with that Secret only', () => {
  const callback = 'https://sink/hooks/hush';
  const trap = { ...trapOn('/secret.txt'), callback };
  const named = (name: string, namespace: string, more: object): KivePolicy => {
    const policy = policyOf(name, { ...trap, ...more });
    return { ...policy, metadata: { ...policy.metadata, namespace } };
  };
  const { events, reported } = startWith([
    named('same', 'shop', { callbackSecret: 'hook' }),
    named('other-namespace', 'bank', { callbackSecret: 'hook' }),
    named('other-secret', 'shop', { callbackSecret: 'other' }),
    named('other-callback', 'shop', { callback: 'https://sink/', callbackSecret: 'hook' }),
    named('none', 'shop', {}),
  ]);
  const now = failing(callback, 'shop/hook', 'the Secret shop/hook does not exist');
  let listener: ((callback: CallbackStats) => void) | undefined;
  using following = events.followCallbacks({
    callbacks: () => [now, { ...now, failures: 0 }, { ...now, lastError: undefined }],
    onCredentialsTrouble: (heard) => {
      listener = heard;
      return { [Symbol.dispose]: () => void (listener = undefined) };
    },
  });
  assert.deepEqual(
    reported.map(({ regarding, reason }) => [regarding.namespace, regarding.name, reason]),
    [['shop', 'same', 'CallbackFailing']],
  );
  assert.equal(
    reported[0]?.note,
    'alerts for https://sink#0123abcd are waiting on n1: the Secret shop/hook does not exist',
  );
  listener?.(failing(callback, '', 'HTTP 401'));
  assert.deepEqual(
    reported.slice(1).map(({ regarding }) => regarding.name),
    ['none'],
  );
  following[Symbol.dispose]();
  assert.equal(listener, undefined);
});

test('a callback that takes no alerts for long: an event, and the status of all its policies', () => {
  const callback = 'https://sink/hooks/hush';
  const trap = { ...trapOn('/secret.txt'), callback };
  const names = Array.from({ length: 30 }, (_, number) => `p${number}`);
  const { events, reported, touched } = startWith([
    ...names.map((name) => policyOf(name, trap)),
    policyOf('other', trapOn('/secret.txt')),
  ]);
  let notify: ((state: CallbackState) => void) | undefined;
  using _following = events.followCallbacks({
    onLastingTrouble: (listener) => {
      notify = listener;
      return { [Symbol.dispose]: () => undefined };
    },
  });
  const state: CallbackState = {
    callback,
    secret: '',
    name: 'https://sink#0123abcd',
    problem: 'HTTP 404',
    isDecided: true,
    aboutCredentials: false,
  };
  notify?.(state);
  assert.equal(reported.length, 20);
  assert.equal(reported[0]?.reason, 'CallbackFailing');
  assert.equal(reported[0]?.note, 'alerts for https://sink#0123abcd are not delivered by n1: HTTP 404');
  assert.deepEqual(touched.toSorted(), names.map((name) => `kivebpf-system/${name}`).toSorted());
  // It works again; problems of credentials were reported at once.
  notify?.({ ...state, problem: undefined });
  notify?.({ ...state, problem: 'HTTP 401', aboutCredentials: true });
  assert.deepEqual([reported.length, touched.length], [20, 90]);
});
