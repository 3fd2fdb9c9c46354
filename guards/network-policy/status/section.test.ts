import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { NodeCounts } from '../node/metrics.ts';
import type { PodObject } from '../engine/objects.ts';
import type { NetworkPolicy } from '../api.ts';
import { type NodeReport, nodeFacts, readNodeFacts } from './node-facts.ts';
import { reports, section } from './section.ts';

const nowMs = Date.parse('2026-11-23T10:00:00Z');
const plain = { widthColumns: 120, colour: false };
const policy = (name: string, spec: object): NetworkPolicy => ({
  metadata: { namespace: 'shop', name },
  spec,
});
const pod = (name: string, nodeName: string, ip: string): PodObject => ({
  metadata: { namespace: 'shop', name, labels: { app: name.replace(/-.*/, '') } },
  spec: { nodeName },
  status: { podIP: ip },
});
const pods = [
  pod('db-0', 'n1', '10.0.0.1'),
  pod('db-1', 'n2', '10.0.0.2'),
  pod('db-2', 'n2', '10.0.0.3'),
  pod('web', 'n1', '10.0.0.4'),
];

function told(
  change: Partial<NodeCounts> = {},
  state: Partial<Parameters<typeof nodeFacts>[0]> = {},
): NodeReport {
  const counts = Object.assign(
    new NodeCounts(),
    { lastSyncMs: nowMs - 30_000, lastSyncSeconds: 0.0123 },
    change,
  );
  const report = readNodeFacts(
    nodeFacts({
      backend: 'nftables',
      isProgrammed: true,
      counts,
      problem: undefined,
      refused: [],
      untold: undefined,
      bypassed: undefined,
      ...state,
    }),
  );
  assert.ok(report);
  return report;
}

suite('the section of network-policy', () => {
  test('how many pods each policy selects, on which node', () => {
    const db = policy('db', { podSelector: { matchLabels: { app: 'db' } }, policyTypes: ['Ingress'] });
    const none = policy('none', { podSelector: { matchLabels: { app: 'gone' } }, policyTypes: ['Egress'] });
    const all = reports([none, db], pods);
    assert.deepEqual(
      all.map(({ name, pods: count, podsByNode }) => [name, count, podsByNode]),
      [
        ['db', 3, { n1: 1, n2: 2 }],
        ['none', 0, {}],
      ],
    );
    const { table } = section(all, new Map(), nowMs);
    assert.deepEqual(table(plain).split('\n'), [
      'NETWORK POLICY  ISOLATES  PODS  PROBLEMS',
      'shop/db         Ingress   3     0',
      '    pods: 1 on n1, 2 on n2',
      'shop/none       Egress    0     0',
    ]);
    assert.deepEqual(
      reports([db], undefined).map(({ pods: count, podsByNode }) => [count, podsByNode]),
      [[null, null]],
    );
  });

  test('how each node is: backend, last full sync, its time, drift repaired', () => {
    const db = reports([policy('db', { podSelector: {} })], pods);
    const nodes = new Map([
      ['n1', told()],
      ['n2', told({ driftRepaired: 2, lastSyncMs: nowMs - 240_000 }, { isProgrammed: false })],
    ]);
    const { nodes: rows, guarded, foot } = section(db, nodes, nowMs);
    assert.deepEqual([guarded, foot, rows?.columns], [true, [], ['NETWORK', 'LAST FULL SYNC', 'REPAIRED']]);
    assert.deepEqual(rows?.of('n1').cells, ['nftables', '30 s ago, in 12 ms', '0']);
    assert.deepEqual(rows?.of('n2').cells, [
      'nftables, no rules',
      '4 min ago, in 12 ms',
      { text: '2', style: 'yellow' },
    ]);
    assert.deepEqual(rows?.of('n3').cells, ['-', '-', '-']);
    assert.deepEqual(rows?.of('n3').fields, { networkPolicy: null });
    assert.equal(
      (rows?.of('n1').fields['networkPolicy'] as NodeReport | undefined)?.lastFullSync,
      '2026-11-23T09:59:30.000Z',
    );
  });

  test('what is the matter on a node: then not all is guarded', () => {
    const db = reports([policy('db', { podSelector: {} })], pods);
    const refused = told({}, { problem: 'nftables refused a change: No space left on device' });
    const around = told({}, { bypassed: 'traffic between pods on one bridge (br0) bypasses all policies' });
    const silent = told({}, { untold: 'cannot read NFLOG group 100: another program reads it' });
    const leftOut = told(
      {},
      { refused: [0, 1].map((at) => ({ policy: 'shop/db', field: `spec.ingress[${at}]`, message: 'full' })) },
    );
    const of = (node: NodeReport) => section(db, new Map([['n1', node]]), nowMs);
    assert.deepEqual(
      [refused, leftOut, around, silent].map((node) => of(node).guarded),
      [false, false, false, true],
    );
    assert.equal(of(refused).headline(plain), 'NetworkPolicies are not enforced as written on n1.');
    assert.deepEqual(of(refused).foot, [
      'network-policy on n1: the kernel refuses the rules: nftables refused a change: No space left on device',
    ]);
    assert.deepEqual(of(leftOut).foot, [
      'network-policy on n1: a rule is left out: shop/db and 1 more: spec.ingress[0]: full',
    ]);
    assert.match(
      of(silent).foot[0] ?? '',
      /refused packets are counted but not reported: cannot read NFLOG group 100/,
    );
    assert.ok([refused, around, silent].every((node) => of(node).nodes?.of('n1').isDoubtful));
    // Nobody asks for anything: nothing can be missing.
    assert.equal(section([], new Map([['n1', refused]]), nowMs).guarded, true);
  });

  test('what an agent says that is none of this, or makes no sense, is passed over', () => {
    assert.equal(readNodeFacts(undefined), undefined);
    assert.equal(readNodeFacts({ pods: 3 }), undefined);
    const odd = readNodeFacts({ backend: 'new', pods: 'many', lastFullSync: 'soon', programmed: 1 });
    assert.deepEqual([odd?.pods, odd?.lastFullSync, odd?.programmed, odd?.enforced], [0, null, false, true]);
  });
});
