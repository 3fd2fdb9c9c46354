/** Each policy in each runtime gives the same verdicts. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { JsonObject, PolicyRequest, Verdict } from '../evaluator.ts';
import { allRuntimes, openPolicy, podRequest, type PolicyName } from './policies.fixture.ts';

interface Case {
  readonly title: string;
  readonly policy: PolicyName;
  readonly settings: JsonObject;
  readonly request: PolicyRequest;
  readonly expected: Verdict;
}

const cases: readonly Case[] = [
  {
    title: 'allows an object that has the labels that the settings name',
    policy: 'labels',
    settings: { required: ['team', 'tier'] },
    request: podRequest({ labels: { team: 'a', tier: 'front' } }),
    expected: { allowed: true, warnings: ['team', 'tier'] },
  },
  {
    title: 'refuses one that lacks a label, with message, code and annotations',
    policy: 'labels',
    settings: { required: ['team', 'tier'] },
    request: podRequest({ labels: { team: 'a' } }),
    expected: {
      allowed: false,
      message: 'label tier is missing',
      code: 422,
      auditAnnotations: { missing: 'tier' },
    },
  },
];

/** Gatekeeper's policies say messages only. */
function sayable(runtime: string, expected: Verdict): Verdict {
  if (runtime !== 'gatekeeper') return expected;
  const { allowed, message } = expected;
  return { allowed, ...(message !== undefined && { message }) };
}

for (const runtime of allRuntimes) {
  suite(`a policy run by ${runtime}`, () => {
    for (const { title, policy, settings, request, expected } of cases) {
      test(title, async () => {
        await using evaluator = await openPolicy(policy, runtime, settings);
        assert.equal(evaluator.runtime, runtime);
        assert.deepEqual(await evaluator.evaluate(request), sayable(runtime, expected));
      });
    }
  });
}
