/** Policies of expressions for tests. */
import assert from 'node:assert/strict';

import type { JsonObject, PolicyRequest, Verdict } from '../evaluator.ts';
import { podNamed, requestFor } from '../requests.fixture.ts';
import { openCelEvaluator, type CelOptions } from './open.ts';

export const kubernetes: CelOptions = { dialect: 'validating-admission-policy' };

/** Opens a policy, asks it, and closes it. */
export async function evaluate(
  settings: JsonObject,
  request: PolicyRequest = requestFor(podNamed('web')),
  options: CelOptions = {},
): Promise<Verdict> {
  await using policy = openCelEvaluator(settings, options);
  const { valid, message } = await policy.validateSettings();
  assert.ok(valid, message);
  // The machine may be busy: a deadline is only for tests that are about one.
  return await policy.evaluate(request, { deadlineMs: 60_000 });
}

/** Settings with these validations, each with the default message. */
export const validations = (...expressions: readonly string[]): JsonObject => ({
  validations: expressions.map((expression) => ({ expression })),
});
