import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { NodeCounts } from '../node/metrics.ts';
import type { PodObject } from '../engine/objects.ts';
import type { NetworkPolicy } from '../api.ts';
import { type NodeReport, nodeFacts, readNodeFacts } from './node-facts.ts';
import { networkPolicy } from '../guard.ts';
import type { Processes } from '../../../guard/guarded.ts';
import { processesOn, processWith, running } from '../../../guard/processes.fixture.ts';
import { type Verdict, verdictOn } from '../../../guard/verdict.ts';
import type { SectionReport } from '../../../guard/status-section.ts';
import { examine, section } from './section.ts';

const nowMs = Date.parse('2026-11-23T10:00:00Z');
const plain = { widthColumns: 120, colour: false };
const policy = (name: string, spec: object): NetworkPolicy => ({
  metadata: { namespace: 'shop', name, resourceVersion: '90' },
  spec,
});
const pod = (name: string, nodeName: string, ip: string): PodObject => ({
  metadata: {
    ...{ namespace: 'shop', name, labels: { app: name.replace(/-.*/, '') } },
    creationTimestamp: '2026-11-23T09:00:00Z',
  },
  spec: { nodeName },
  status: { podIP: ip },
});
const pods = [
  pod('db-0', 'n1', '10.0.0.1'),
  pod('db-1', 'n2', '10.0.0.2'),
  pod('db-2', 'n2', '10.0.0.3'),
  pod('web', 'n1', '10.0.0.4'),
];

function reported(
  change: Partial<NodeCounts> = {},
  state: Partial<Parameters<typeof nodeFacts>[0]> = {},
): NodeReport {
  const counts = Object.assign(
    new NodeCounts(),
    { lastSyncMs: nowMs - 30_000, lastSyncSeconds: 0.0123, localPods: 4 },
    change,
  );
  const report = readNodeFacts(
    nodeFacts({
      backend: 'nftables',
      isProgrammed: true,
      counts,
      policiesVersion: '100',
      problem: undefined,
      refused: [],
      unreported: undefined,
      bypassed: undefined,
      ...state,
    }),
  );
  assert.ok(report);
  return report;
}

function verdictOf({ objects = [] }: SectionReport, processes: Partial<Processes> = {}): Verdict {
  return verdictOn(networkPolicy, objects, { ...processesOn(['n1', 'n2'], 'network-policy'), ...processes });
}

suite('the section of network-policy', () => {
  test('how many pods each policy selects, on which node', () => {
    const db = policy('db', { podSelector: { matchLabels: { app: 'db' } }, policyTypes: ['Ingress'] });
    const none = policy('none', { podSelector: { matchLabels: { app: 'gone' } }, policyTypes: ['Egress'] });
    const all = examine([none, db], pods, nowMs);
    assert.deepEqual(
      all.map(({ name, pods: count, podsByNode }) => [name, count, podsByNode]),
      [
        ['db', 3, { n1: 1, n2: 2 }],
        ['none', 0, {}],
      ],
    );
    const both = new Map(['n1', 'n2'].map((node) => [node, reported()]));
    const report = section(all, both, nowMs);
    assert.deepEqual(report.table(verdictOf(report), plain).split('\n'), [
      'NETWORK POLICY  ISOLATES  PODS  ENFORCED',
      'shop/db         Ingress   3     yes',
      '    pods: 1 on n1, 2 on n2',
      'shop/none       Egress    0     yes',
    ]);
    assert.deepEqual(
      examine([db], undefined, nowMs).map(({ pods: count, podsByNode }) => [count, podsByNode]),
      [[null, null]],
    );
  });

  test('monitored policies are not a problem, and not called enforced: by annotation, by Namespace, by node', () => {
    const annotations = { 'kube-router.io/network-policy.monitor': 'true' };
    const spec = { podSelector: { matchLabels: { app: 'db' } }, policyTypes: ['Ingress'] };
    const web = policy('web', { podSelector: { matchLabels: { app: 'web' } }, policyTypes: ['Ingress'] });
    const db = policy('db', spec);
    const watched = { ...db, metadata: { ...db.metadata, name: 'watched', annotations } };
    const both = (n2: NodeReport = reported()) =>
      new Map([
        ['n1', reported()],
        ['n2', n2],
      ]);
    const show = (report: SectionReport) => {
      const verdict = verdictOf(report);
      const { networkPolicies } = report.fields(verdict);
      const fields = networkPolicies as readonly { readonly mode: string; readonly guarded: boolean }[];
      return {
        failing: verdict.failing,
        headline: report.headline(verdict, plain),
        table: report.table(verdict, plain).split('\n').slice(1),
        modes: fields.map(({ mode, guarded }) => `${mode} ${guarded}`),
      };
    };
    assert.deepEqual(show(section(examine([db, watched, web], pods, nowMs), both(), nowMs)), {
      failing: 0,
      headline: '2 NetworkPolicies are enforced on all their nodes; 1 is monitored.',
      table: [
        'shop/db         Ingress   3     yes',
        '    pods: 1 on n1, 2 on n2',
        'shop/watched    Ingress   3     monitor',
        '    pods: 1 on n1, 2 on n2',
        'shop/web        Ingress   1     yes',
      ],
      modes: ['enforce true', 'monitor true', 'enforce true'],
    });
    const place = { metadata: { name: 'shop', annotations } };
    const ofNamespace = show(section(examine([db, web], pods, nowMs, [place]), both(), nowMs));
    assert.equal(ofNamespace.headline, '2 NetworkPolicies are monitored, not enforced.');
    assert.deepEqual(ofNamespace.modes, ['monitor true', 'monitor true']);
    const onNode = section(examine([db, web], pods, nowMs), both(reported({}, { mode: 'monitor' })), nowMs);
    assert.deepEqual(show(onNode).table, [
      'shop/db         Ingress   3     monitor',
      '    pods: 1 on n1, 2 on n2',
      '    monitored on n2 (--network-policy-mode monitor)',
      'shop/web        Ingress   1     yes',
    ]);
    assert.equal(show(onNode).headline, '1 NetworkPolicy is enforced on all its nodes; 1 is monitored.');
    assert.deepEqual(onNode.nodes?.of('n2').cells[0], { text: 'nftables, monitor', style: 'yellow' });
    assert.equal((onNode.nodes?.of('n2').fields['networkPolicy'] as NodeReport | undefined)?.mode, 'monitor');
  });

  test('how each node is: backend, last full sync, its time, drift repaired', () => {
    const db = examine([policy('db', { podSelector: {} })], pods, nowMs);
    const nodes = new Map([
      ['n1', reported()],
      ['n2', reported({ driftRepaired: 2, lastSyncMs: nowMs - 240_000 }, { isProgrammed: false })],
    ]);
    const report = section(db, nodes, nowMs);
    const { nodes: rows, foot } = report;
    assert.deepEqual(
      [verdictOf(report).failing, foot, rows?.columns],
      [0, [], ['NETWORK', 'LAST FULL SYNC', 'REPAIRED']],
    );
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

  test('a problem on a node: then not everything is guarded', () => {
    const db = examine([policy('db', { podSelector: {} })], pods, nowMs);
    const refused = reported({}, { problem: 'nftables refused a change: No space left on device' });
    const around = reported(
      {},
      { bypassed: 'traffic between pods on one bridge (br0) bypasses all policies' },
    );
    const silent = reported({}, { unreported: 'cannot read NFLOG group 100: another program reads it' });
    const unlogged = reported({}, { unlogged: 'net.netfilter.nf_conntrack_events is 0' });
    const leftOut = reported(
      {},
      { refused: [0, 1].map((at) => ({ policy: 'shop/db', field: `spec.ingress[${at}]`, message: 'full' })) },
    );
    const of = (node: NodeReport) =>
      section(
        db,
        new Map([
          ['n1', node],
          ['n2', reported()],
        ]),
        nowMs,
      );
    assert.deepEqual(
      [refused, leftOut, around, silent, unlogged].map((node) => verdictOf(of(node)).failing),
      [1, 1, 1, 0, 0],
    );
    const headline = (report: SectionReport): string => report.headline(verdictOf(report), plain);
    assert.equal(headline(of(refused)), '1 of 1 NetworkPolicies is not enforced as written.');
    assert.equal(headline(of(silent)), '1 NetworkPolicy is enforced on all its nodes.');
    assert.deepEqual(of(refused).foot, [
      'network-policy on n1: the kernel refuses the rules: nftables refused a change: No space left on device',
    ]);
    assert.deepEqual(of(unlogged).foot, [
      'network-policy on n1: allowed connections are not logged: net.netfilter.nf_conntrack_events is 0',
    ]);
    assert.deepEqual(of(leftOut).foot, [
      'network-policy on n1: a rule is left out: shop/db and 1 more: spec.ingress[0]: full',
    ]);
    assert.match(
      of(silent).foot[0] ?? '',
      /refused packets are counted but not reported: cannot read NFLOG group 100/,
    );
    assert.ok([refused, around, silent].every((node) => of(node).nodes?.of('n1').isDoubtful));
    // Without policies, nothing can be missing.
    assert.equal(verdictOf(section([], new Map([['n1', refused]]), nowMs)).failing, 0);
  });

  test('not enforced: a killed agent, one that has not programmed this version, one that knows too few pods', () => {
    const db = examine([policy('db', { podSelector: {} })], pods, nowMs);
    const kinds = (n1: NodeReport | undefined, processes: Partial<Processes> = {}): string[] => {
      const nodes = new Map([...(n1 ? [['n1', n1] as const] : []), ['n2', reported()] as const]);
      return verdictOf(section(db, nodes, nowMs), processes).problems.map(
        ({ kind, node }) => `${kind} ${node}`,
      );
    };
    assert.deepEqual(kinds(reported()), []);
    const dead = processWith(running('network-policy'), { isRenewed: false });
    const agents = new Map(
      ['n1', 'n2'].map((node) => [node, node === 'n1' ? dead : processWith(running('network-policy'))]),
    );
    assert.deepEqual(kinds(reported(), { agents }), ['agent-dead n1']);
    assert.deepEqual(kinds(reported({}, { policiesVersion: '89' })), ['outdated n1']);
    assert.deepEqual(kinds(reported({}, { policiesVersion: undefined })), ['not-reported n1']);
    assert.deepEqual(kinds(undefined), ['not-reported n1']);
    assert.deepEqual(kinds(reported({ localPods: 1 })), ['outdated n1']);
    // Pods that have just been created may take until the lease is renewed.
    const young = pods.map((one) => ({
      ...one,
      metadata: { ...one.metadata, creationTimestamp: '2026-11-23T09:59:45Z' },
    }));
    const report = section(
      examine([policy('db', { podSelector: {} })], young, nowMs),
      new Map([
        ['n1', reported({ localPods: 1 })],
        ['n2', reported()],
      ]),
      nowMs,
    );
    assert.equal(verdictOf(report).failing, 0);
  });

  test('a rule that cannot be expressed is named by its field', () => {
    const ports = [{ protocol: 'TCP', port: 80 }];
    const odd = policy('odd', {
      podSelector: {},
      policyTypes: ['Ingress'],
      ingress: [{ from: [{ ipBlock: { cidr: 'x' } }], ports }],
    });
    const report = section(
      examine([odd], pods, nowMs),
      new Map(['n1', 'n2'].map((node) => [node, reported()])),
      nowMs,
    );
    const verdict = verdictOf(report);
    assert.deepEqual(
      verdict.problems.map(({ kind, field }) => [kind, field?.startsWith('spec.ingress[0]')]),
      [['not-expressed', true]],
    );
    assert.equal(
      report.headline(verdict, plain),
      '1 of 1 NetworkPolicies has rules that cannot be enforced.',
    );
  });

  test('unknown and malformed facts of an agent are ignored', () => {
    assert.equal(readNodeFacts(undefined), undefined);
    assert.equal(readNodeFacts({ pods: 3 }), undefined);
    const odd = readNodeFacts({ backend: 'new', pods: 'many', lastFullSync: 'soon', programmed: 1 });
    assert.deepEqual([odd?.pods, odd?.lastFullSync, odd?.programmed, odd?.enforced], [0, null, false, true]);
  });
});
