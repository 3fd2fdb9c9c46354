import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { PolicyRequest } from '../engine/evaluator.ts';
import { failureOf, responseOf } from './review.ts';

test('invisible characters in a message, a cause or a warning are escaped', () => {
  const request = { uid: '1' } as unknown as PolicyRequest;
  const hostile = 'name a\u202eb\u001b[2J is denied';
  const shown = 'name a\\u202eb\\u001b[2J is denied';
  const causes = [{ field: 'metadata.name', message: hostile }];
  const response = responseOf({ allowed: false, message: hostile, causes, warnings: [hostile] }, request);
  assert.equal(response.status?.message, shown);
  assert.deepEqual(response.status.details, { causes: [{ field: 'metadata.name', message: shown }] });
  assert.deepEqual(response.warnings, [shown]);
  assert.equal(failureOf(request, hostile).status?.message, shown);
});
