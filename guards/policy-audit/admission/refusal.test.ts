import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Policy } from '../policies/policy.ts';
import { admissionPolicyRefusal, admissionPolicyWarning, webhookFailure, webhookRefusal } from './refusal.ts';

test('invisible characters in the words of a policy are escaped, in each answer', () => {
  const policy = { id: 'clusterwide-p', origin: { name: 'p' }, binding: 'b' } as unknown as Policy;
  const pods = { group: '', version: 'v1', plural: 'pods', kind: 'Pod', namespaced: true };
  const message = 'name a\u202eb\u001b[2J is denied';
  const causes = [{ field: 'metadata.name', message }];
  for (const answer of [
    webhookRefusal(policy, { allowed: false, message, causes }).status,
    webhookRefusal({ ...policy, message: 'ask' }, { allowed: false, message }).status,
    webhookFailure(policy, message).status,
    admissionPolicyRefusal(pods, 'x', policy, { message }).status,
    admissionPolicyWarning(policy, message),
  ]) {
    const text = JSON.stringify(answer);
    assert.ok(text.includes(String.raw`name a\\u202eb\\u001b[2J is denied`), text);
    assert.ok(!text.includes('\u202e'), text);
  }
});
