import assert from 'node:assert/strict';
import { test } from 'node:test';

import { saidByNextThread } from '../../../../lib/testing/next-thread.fixture.ts';
import { PolicyThread } from './thread.ts';

test('a thread for policies that is ended at once loads its code first: V8 may crash otherwise', async () => {
  const said = saidByNextThread();
  await new PolicyThread(() => undefined).end({ why: 'aborted', message: 'at once' });
  assert.deepEqual(await said, [{ ready: true }]);
});
