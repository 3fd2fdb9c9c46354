import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Toleration } from '../api.ts';
import { isForNode } from './for-node.ts';

type Taint = { key: string; value?: string; effect: string };

const defaults: Toleration[] = ['master', 'infra'].map((role) => ({
  ...{ effect: 'NoSchedule', key: `node-role.kubernetes.io/${role}`, operator: 'Exists' },
}));

function isFor(
  spec: { nodeSelector?: Record<string, string>; tolerations?: Toleration[] },
  node: { labels?: Record<string, string>; taints?: Taint[] } | undefined,
  isRunning = false,
): boolean {
  const { tolerations = defaults, nodeSelector } = spec;
  return isForNode(
    { tolerations, ...(nodeSelector && { nodeSelector }) },
    node && { metadata: { labels: node.labels ?? {} }, spec: { taints: node.taints ?? [] } },
    isRunning,
  );
}

test('labels', () => {
  const spec = { nodeSelector: { role: 'worker', zone: '' } };
  assert.ok(isFor({}, {}));
  assert.ok(isFor({}, undefined), 'no node is known');
  assert.ok(isFor(spec, { labels: { role: 'worker', zone: '', more: 'x' } }));
  assert.ok(!isFor(spec, { labels: { role: 'worker' } }));
  assert.ok(!isFor(spec, { labels: { role: 'workers', zone: '' } }));
  assert.ok(!isFor(spec, undefined));
});

test('taints', () => {
  const taint = (key: string, effect: string, value?: string): { taints: Taint[] } => ({
    taints: [{ key, effect, ...(value !== undefined && { value }) }],
  });
  const table: [boolean, Toleration[] | undefined, { taints: Taint[] }][] = [
    [true, undefined, taint('node-role.kubernetes.io/master', 'NoSchedule')],
    [false, [], taint('node-role.kubernetes.io/master', 'NoSchedule')],
    [false, undefined, taint('node-role.kubernetes.io/master', 'NoExecute')],
    [false, undefined, taint('gpu', 'NoSchedule')],
    [true, undefined, taint('gpu', 'PreferNoSchedule')],
    [true, [{ operator: 'Exists' }], taint('gpu', 'NoExecute')],
    [false, [{ operator: 'Exists', effect: 'NoSchedule' }], taint('gpu', 'NoExecute')],
    [true, [{ key: 'gpu', value: 'a' }], taint('gpu', 'NoSchedule', 'a')],
    [false, [{ key: 'gpu', value: 'a' }], taint('gpu', 'NoSchedule', 'b')],
    [true, [{ key: 'gpu', operator: 'Equal' }], taint('gpu', 'NoSchedule')],
    [false, [{ key: 'gpu', operator: 'Smaller' }], taint('gpu', 'NoSchedule')],
    // A cordoned node, and one that is not ready.
    [true, [], taint('node.kubernetes.io/unschedulable', 'NoSchedule')],
    [true, [], taint('node.kubernetes.io/unreachable', 'NoSchedule')],
    [true, [], taint('node.kubernetes.io/not-ready', 'NoSchedule')],
    [true, [], taint('node.kubernetes.io/not-ready', 'NoExecute')],
  ];
  for (const [expected, tolerations, node] of table) {
    assert.equal(
      isFor({ ...(tolerations && { tolerations }) }, node),
      expected,
      JSON.stringify({ tolerations, node }),
    );
  }
  // Each taint has to be tolerated.
  const taints = [
    { key: 'a', effect: 'NoSchedule' },
    { key: 'b', effect: 'NoSchedule' },
  ];
  assert.ok(!isFor({ tolerations: [{ key: 'a', operator: 'Exists' }] }, { taints }));
});

test('a later taint ends what runs only if nothing may go on there', () => {
  const tainted = (effect: string): { taints: Taint[] } => ({ taints: [{ key: 'gpu', effect }] });
  assert.ok(isFor({}, tainted('NoSchedule'), true));
  assert.ok(!isFor({}, tainted('NoSchedule'), false));
  assert.ok(!isFor({}, tainted('NoExecute'), true));
  assert.ok(!isFor({ nodeSelector: { a: 'b' } }, {}, true));
});
