import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { AlertEncoder, type KiveAlert } from '../../systems/file-access/alert.ts';
import { access, context } from '../../systems/file-access/alert.fixture.ts';
import { parseAlert } from './alert-line.ts';
import { alertFilter, type AlertFilterOptions, parseSince } from './filter.ts';

function alertOf(more: Partial<typeof context> = {}): KiveAlert {
  const alert = parseAlert(new AlertEncoder({ ...context, ...more }).encode(access));
  assert.ok(alert);
  return alert;
}

suite('filters of alerts', () => {
  const alert = alertOf();
  for (const [options, fits] of [
    [{}, true],
    [{ policy: ['kive-sample-policy'] }, true],
    [{ policy: ['kivebpf-system/kive-sample-policy'] }, true],
    [{ policy: ['default/kive-sample-policy'] }, false],
    [{ policy: ['sample'] }, false],
    [{ policy: ['x', '*sample*'] }, true],
    [{ pod: ['nginx-pod'] }, true],
    [{ pod: ['def*/nginx-*'] }, true],
    [{ pod: ['shop/nginx-pod'] }, false],
    [{ path: ['/secret.txt'] }, true],
    [{ path: ['secret.*'] }, true],
    [{ path: ['/etc/**', '/*'] }, true],
    [{ path: ['/etc/**'] }, false],
    [{ policy: ['kive*'], pod: ['nginx*'], path: ['/x'] }, false],
    [{ sinceMs: Date.UTC(2026, 10, 21, 10) }, true],
    [{ sinceMs: Date.UTC(2026, 10, 21, 10, 0, 1) }, false],
  ] as const) {
    test(`${JSON.stringify(options)}: ${fits ? 'shown' : 'left out'}`, () => {
      const all: AlertFilterOptions = { policy: [], pod: [], path: [], ...options };
      assert.equal(alertFilter(all)(alert), fits);
    });
  }

  test('an alert of an older agent, which tells no namespace of the policy, fits the name alone', () => {
    const { 'kive-policy-namespace': _namespace, ...older } = alert;
    const filter = (policy: string): boolean =>
      alertFilter({ policy: [policy], pod: [], path: [] })(older as KiveAlert);
    assert.equal(filter('kive-sample-policy'), true);
    assert.equal(filter('kivebpf-system/kive-sample-policy'), false);
  });
});

suite('--since', () => {
  const nowMs = Date.UTC(2026, 10, 21, 12);
  for (const [text, expected] of [
    ['90s', '2026-11-21T11:58:30.000Z'],
    ['10m', '2026-11-21T11:50:00.000Z'],
    ['1h30m', '2026-11-21T10:30:00.000Z'],
    ['2d', '2026-11-19T12:00:00.000Z'],
    ['2026-11-21T10:00:00Z', '2026-11-21T10:00:00.000Z'],
    ['2026-11-21T10:00:00.5+01:00', '2026-11-21T09:00:00.500Z'],
  ] as const) {
    test(text, () => assert.equal(new Date(parseSince(text, nowMs)).toISOString(), expected));
  }
  for (const text of ['', '10', 'm', '1w', '-1h', 'yesterday', '2026-99-01T00:00:00Z', '1']) {
    test(`refused: ${JSON.stringify(text)}`, () =>
      assert.throws(() => parseSince(text, nowMs), { code: 'RAMPART_INPUT', message: /is no time/ }));
  }
});
