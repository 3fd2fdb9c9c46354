import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Policy } from '../policies/policy.ts';
import type { Judgement } from '../policies/open-policy.ts';
import { resultOf } from './report.ts';

test('invisible characters in the message of a result are escaped', () => {
  const policy = {
    id: 'clusterwide-p',
    source: 'kubewarden',
    mode: 'protect',
    origin: {},
  } as unknown as Policy;
  const judgement = {
    type: 'verdict',
    verdict: { allowed: false, message: 'name a\u202eb is denied' },
    asked: [],
  } as unknown as Judgement;
  assert.equal(resultOf(policy, judgement, 0)?.message, 'name a\\u202eb is denied');
});
