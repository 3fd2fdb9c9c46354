import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { alertFilter, type AlertFilterOptions, parseSince } from './filter.ts';

type Given = Parameters<ReturnType<typeof alertFilter>>;
const finding: Given[0] = {
  timeNs: BigInt(Date.UTC(2026, 10, 21, 10, 0, 0, 123)) * 1_000_000n + 456_789n,
  head: {
    severity: 'medium',
    policy: { kind: 'KivePolicy', namespace: 'kivebpf-system', name: 'kive-sample-policy' },
    object: { kind: 'Pod', namespace: 'default', name: 'nginx-pod' },
  },
};

function fits(
  options: Partial<AlertFilterOptions>,
  of = finding,
  view: Given[1] = { path: '/secret.txt' },
): boolean {
  return alertFilter({ policy: [], pod: [], path: [], ...options })(of, view);
}

suite('filters of lines', () => {
  for (const [options, expected] of [
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
    [{ namespace: 'default' }, true],
    [{ namespace: 'kivebpf-system' }, true],
    [{ namespace: 'def' }, false],
    [{ severity: 'info' }, true],
    [{ severity: 'medium' }, true],
    [{ severity: 'high' }, false],
    [{ sinceMs: Date.UTC(2026, 10, 21, 10) }, true],
    [{ sinceMs: Date.UTC(2026, 10, 21, 10, 0, 0, 123) }, true],
    [{ sinceMs: Date.UTC(2026, 10, 21, 10, 0, 0, 124) }, false],
  ] as const) {
    test(`${JSON.stringify(options)}: ${expected ? 'shown' : 'left out'}`, () =>
      assert.equal(fits(options), expected));
  }

  test('findings without a policy, a pod or a file are omitted if one is requested', () => {
    const bare: Given[0] = { ...finding, head: { severity: 'info', policy: null, object: null } };
    assert.equal(fits({}, bare, {}), true);
    assert.equal(fits({ policy: ['kive-sample-policy'] }, bare, {}), false);
    assert.equal(fits({ pod: ['nginx-pod'] }, bare, {}), false);
    assert.equal(fits({ path: ['/**'] }, bare, {}), false);
  });

  test('a pod: the object, or the author; another kind of object of the same name does not count', () => {
    const node: Given[0] = {
      ...finding,
      head: { ...finding.head, object: { kind: 'Node', namespace: '', name: 'web' } },
    };
    assert.equal(fits({ pod: ['web'] }, node, {}), false);
    assert.equal(fits({ pod: ['shop/web'] }, node, { by: { namespace: 'shop', name: 'web' } }), true);
    assert.equal(fits({ pod: ['shop/web'] }, finding, { by: { namespace: 'shop', name: 'web' } }), true);
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
      assert.throws(() => parseSince(text, nowMs), { code: 'RAMPART_INPUT', message: /is not a time/ }));
  }
});
