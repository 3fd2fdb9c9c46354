/** The error with which an attempt is refused, for tests. */
import assert from 'node:assert/strict';

import { errorCodes } from '../errors/errors.ts';
import { Refusal, type RefusalStatus } from './refusal.ts';

/** Fails where nothing, or something else, is thrown. */
export function refusalOf(attempt: () => unknown): RefusalStatus {
  try {
    attempt();
  } catch (error) {
    assert.ok(error instanceof Refusal, String(error));
    assert.equal(error.code, errorCodes.INPUT);
    assert.equal(error.message, error.status.message);
    return error.status;
  }
  assert.fail('nothing was thrown');
}
