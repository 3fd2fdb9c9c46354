import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { PolicyException } from '../api.ts';
import { exceptionFor, exceptionsByPolicy, type ExceptionTarget } from './exception.ts';
import { exceptionOf } from './exception-file.ts';

const policy = { kind: 'ClusterAdmissionPolicy', name: 'no-latest' };
const web: ExceptionTarget = {
  ...{ group: 'apps', kind: 'Deployment', namespace: 'shop', name: 'web-1' },
  labels: { tier: 'old' },
};

function exception(
  match: Partial<PolicyException['spec']['match']>,
  more: Partial<PolicyException['spec']> = {},
  namespace = 'shop',
): object {
  const spec = { policies: [policy], match: { kinds: ['*'], ...match }, reason: 'a migration', ...more };
  return { metadata: { namespace, name: 'one' }, spec };
}

function excepts(one: object, target: Partial<ExceptionTarget> = {}, of = policy): string | undefined {
  const exceptions = exceptionsByPolicy([exceptionOf(one, 'the test')]);
  return exceptionFor(exceptions, of, { ...web, ...target }, Date.UTC(2026, 11, 1))?.message;
}

suite('exceptions from policies', () => {
  test('its reason and its end are shown', () => {
    assert.equal(excepts(exception({})), 'excepted by PolicyException shop/one: a migration');
    assert.equal(
      excepts(exception({}, { until: '2026-12-01T00:00:01Z' })),
      'excepted by PolicyException shop/one until 2026-12-01T00:00:01Z: a migration',
    );
    assert.equal(excepts(exception({}, { until: '2026-12-01T00:00:00Z' })), undefined);
  });

  test('applies to the objects that its kinds, names, namespaces and selectors match', () => {
    const cases: readonly (readonly [PolicyException['spec']['match'], boolean])[] = [
      [{ kinds: ['apps/Deployment'], names: ['web-*'], selector: { matchLabels: { tier: 'old' } } }, true],
      [{ kinds: ['Pod', 'apps/*'] }, true],
      [{ kinds: ['Deployment'] }, false],
      [{ kinds: ['*'], names: ['web'] }, false],
      [{ kinds: ['*'], selector: { matchLabels: { tier: 'new' } } }, false],
      [{ kinds: ['*'], namespaces: ['other'] }, false],
    ];
    for (const [match, isMatched] of cases)
      assert.equal(excepts(exception(match)) !== undefined, isMatched, JSON.stringify(match));
    assert.equal(excepts(exception({}), {}, { ...policy, name: 'other' }), undefined);
    assert.equal(excepts(exception({}), {}, { ...policy, kind: 'AdmissionPolicy' }), undefined);
  });

  test('it is for its own namespace; in rampart-system, for all and for cluster-scoped objects', () => {
    assert.equal(excepts(exception({}), { namespace: 'other' }), undefined);
    assert.equal(excepts(exception({}), { namespace: '' }), undefined);
    const system = exception({}, {}, 'rampart-system');
    assert.ok(excepts(system, { namespace: 'other' }));
    assert.ok(excepts(system, { namespace: '' }));
    const some = exception({ namespaces: ['sho?'] }, {}, 'rampart-system');
    assert.deepEqual([excepts(some) === undefined, excepts(some, { namespace: '' })], [false, undefined]);
  });

  test('an exception that cannot be read is refused', () => {
    const cases: readonly (readonly [object, RegExp])[] = [
      [exception({}, { reason: '' }), /spec\.reason: .*at least 1/],
      [exception({}, { until: 'tomorrow' }), /spec\.until: .*date-time/],
      [exception({ kinds: ['[z-a]'] }), /spec\.match\.kinds/],
      [{ ...exception({}), specs: {} }, /unknown field "specs"/],
    ];
    for (const [one, why] of cases) assert.throws(() => excepts(one), why);
  });
});
