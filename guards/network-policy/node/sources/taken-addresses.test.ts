import assert from 'node:assert/strict';
import { test } from 'node:test';

import { TakenAddresses } from './taken-addresses.ts';

test('an address is taken while it has an owner', () => {
  const taken = new TakenAddresses();
  taken.change({ gone: [], come: ['10.1.0.10', '10.1.0.11'] });
  taken.setOthers(new Set(['10.1.0.10', 'fe80::1']));
  assert.deepEqual([...taken].sort(), ['10.1.0.10', '10.1.0.11', 'fe80::1']);
  assert.deepEqual(taken.takeChange(), { gone: [], come: ['10.1.0.10', '10.1.0.11', 'fe80::1'] });
  taken.change({ gone: ['10.1.0.10', '10.1.0.11'], come: ['10.1.0.12'] });
  taken.change({ gone: ['10.1.0.12'], come: [] });
  assert.deepEqual(taken.takeChange(), { gone: ['10.1.0.11'], come: [] });
  taken.setOthers(new Set());
  assert.deepEqual(taken.takeChange(), { gone: ['10.1.0.10', 'fe80::1'], come: [] });
  assert.deepEqual([...taken], []);
});
