import assert from 'node:assert/strict';
import { test } from 'node:test';

import { defaultDataplaneOptions } from '../dataplane.ts';
import { nodeRules } from '../rules.fixture.ts';
import { compilePod } from './compile.ts';
import { ruleText } from './rule-text.ts';

const pod = { name: 'x/a', addresses: { 4: '10.1.0.10', 6: 'fd00:1::10' } };

// The kernel follows the chains of all pods with each change.
test('the chain of a pod has a rule for each policy and one that reports, whatever addresses it has', () => {
  const policies = (['ingress', 'egress'] as const).flatMap((direction) =>
    ['x/one', 'x/two'].map((policy) => ({ policy, direction, selects: ['x/a'], allows: [] })),
  );
  const [compiled] = nodeRules([pod], policies).pods.values();
  assert.ok(compiled);
  const chains = compilePod(compiled, defaultDataplaneOptions).filter(({ kind }) => kind === 'chain');
  assert.deepEqual(
    chains.map((chain) => ('rules' in chain ? chain.rules.map((each) => ruleText(each).split(' ')[0]) : [])),
    [
      ['jump', 'jump', 'counter'],
      ['jump', 'jump', 'counter'],
    ],
  );
});
