import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KivePolicy } from '../api.ts';
import { callbackProblems, hasCallback } from './callback-problems.ts';
import type { CallbackState } from './options.ts';
import { policyOf, trapOn } from '../policy/policy.fixture.ts';

const url = 'https://sink/hush';
const plain = policyOf(
  'p',
  trapOn('/none'),
  { ...trapOn('/a'), callback: url },
  { ...trapOn('/b'), callback: url },
  { ...trapOn('/c'), callback: url, callbackSecret: 'hook' },
);
const policy: KivePolicy = { ...plain, metadata: { ...plain.metadata, namespace: 'shop' } };

function state(secret: string, more: Partial<CallbackState>): CallbackState {
  const name = `https://sink#${secret === '' ? 'plain' : 'secret'}`;
  return {
    callback: url,
    secret,
    name,
    problem: undefined,
    isDecided: true,
    aboutCredentials: false,
    ...more,
  };
}

test('each callback once, with the Secret that its trap names', () => {
  const asked: string[] = [];
  const found = callbackProblems(policy, (callback, secret) => {
    asked.push(secret);
    return state(secret, { callback, problem: `HTTP 404${'x'.repeat(400)}` });
  });
  assert.deepEqual(asked, ['', '', 'shop/hook']);
  assert.deepEqual(
    found.map(({ callback, message }) => [callback, message.length]),
    [
      ['https://sink#plain', 300],
      ['https://sink#secret', 300],
    ],
  );
});

test('a reported problem stays until it is known to be solved', () => {
  const before = [{ callback: 'https://sink#plain', message: 'HTTP 404' }];
  const unknown = callbackProblems(policy, (_, secret) => state(secret, { isDecided: false }), before);
  assert.deepEqual(unknown, before);
  assert.deepEqual(
    callbackProblems(policy, (_, secret) => state(secret, {}), before),
    [],
  );
  assert.deepEqual(
    callbackProblems(policy, () => undefined, before),
    [],
  );
});

test('whose callback it is', () => {
  assert.ok(hasCallback(policy, url, '') && hasCallback(policy, url, 'shop/hook'));
  assert.ok(!hasCallback(policy, url, 'bank/hook') && !hasCallback(policy, 'https://sink/', ''));
});
