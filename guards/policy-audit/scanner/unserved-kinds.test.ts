import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { PolicyRule } from '../policies/policy.ts';
import { unservedKinds } from './unserved-kinds.ts';

const rule = (group: string, version: string, ...resources: string[]): PolicyRule => ({
  ...{ groups: [group], versions: [version], resources, operations: ['CREATE'], scope: '*', names: [] },
});
const served = {
  resources: [
    { group: '', version: 'v1', resource: 'pods' },
    { group: '', version: 'v1', resource: 'pods/exec' },
    { group: 'apps', version: 'v1', resource: 'deployments' },
    { group: 'authentication.k8s.io', version: 'v1', resource: 'tokenreviews' },
  ],
  unread: ['metrics.k8s.io/v1beta1'],
};

suite('policies that name only kinds that the API does not serve', () => {
  const cases: readonly (readonly [what: string, rules: readonly PolicyRule[], named: string | undefined])[] =
    [
      ['a kind', [rule('', 'v1', 'pods')], undefined],
      ['a kind that cannot be listed', [rule('authentication.k8s.io', 'v1', 'tokenreviews')], undefined],
      ['a subresource', [rule('', 'v1', 'pods/exec')], undefined],
      ['any of them', [rule('*', '*', '*/*')], undefined],
      ['any subresource', [rule('', 'v1', '*/exec')], undefined],
      ['a group that could not be read', [rule('metrics.k8s.io', '*', 'nodes')], undefined],
      ['one of several', [rule('', 'v1', 'pots'), rule('apps', 'v1', 'deployments')], undefined],
      ['a mistyped kind', [rule('apps', 'v1', 'deployment')], 'deployment.apps/v1'],
      ['another version', [rule('apps', 'v1beta1', 'deployments')], 'deployments.apps/v1beta1'],
      ['no such subresource', [rule('', 'v1', 'pods/run')], 'pods/run/v1'],
      ['another group', [rule('', 'v1', 'deployments', 'pots')], 'deployments/v1, pots/v1'],
      [
        'many',
        [rule('x.example', 'v1', 'a', 'b', 'c', 'd', 'e', 'f', 'g')],
        'a.x.example/v1, b.x.example/v1, c.x.example/v1, d.x.example/v1, e.x.example/v1, and 2 more',
      ],
    ];
  for (const [what, rules, named] of cases)
    test(what, () => {
      const more = { excluded: [], isExact: false, namespaceSelector: undefined, objectSelector: undefined };
      assert.equal(unservedKinds({ constraints: [{ rules, ...more }] }, served), named);
      // A binding narrows down what its policy names.
      const all = { rules: [rule('*', '*', '*')], ...more };
      assert.equal(unservedKinds({ constraints: [all, { rules, ...more }] }, served), named);
    });
});
