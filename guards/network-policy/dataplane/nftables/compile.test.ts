import assert from 'node:assert/strict';
import { test } from 'node:test';

import { defaultDataplaneOptions } from '../dataplane.ts';
import { nodeRules } from '../rules.fixture.ts';
import { compileClass } from './compile.ts';
import { PodClasses } from './pod-classes.ts';
import { ruleText } from './rule-text.ts';

const pods = ['a', 'b', 'c'].map((name, at) => ({
  name: `x/${name}`,
  addresses: { 4: `10.1.0.1${at}`, 6: `fd00:1::1${at}` },
}));

// The kernel follows all chains with each change.
test('pods with the same policies share a chain: a rule for each policy, and one for each family that reports', () => {
  const policies = (['ingress', 'egress'] as const).flatMap((direction) =>
    ['x/one', 'x/two'].map((policy) => ({ policy, direction, selects: ['x/a', 'x/b', 'x/c'], allows: [] })),
  );
  const { come } = new PodClasses().change([], nodeRules(pods, policies).pods.values());
  const chains = come.flatMap((of) => compileClass(of, defaultDataplaneOptions));
  assert.deepEqual(
    chains.map((chain) => ('rules' in chain ? chain.rules.map((each) => ruleText(each).split(' ')[0]) : [])),
    [
      ['jump', 'jump', 'counter', 'counter'],
      ['jump', 'jump', 'counter', 'counter'],
    ],
  );
});

test('a chain comes with the first pod and goes with the last one', () => {
  const isolating = (...selects: readonly string[]) =>
    nodeRules(pods, [{ policy: 'x/one', direction: 'ingress', selects, allows: [] }]);
  const classes = new PodClasses();
  const steps = [[], ['x/a'], ['x/a', 'x/b'], ['x/b'], []].map((selected) => isolating(...selected).pods);
  const seen = steps.slice(1).map((after, at) => {
    const change = classes.change(steps[at]!.values(), after.values());
    change.done();
    return [change.come.length, change.gone.length];
  });
  assert.deepEqual(seen, [
    [1, 0],
    [0, 0],
    [0, 0],
    [0, 1],
  ]);
});
