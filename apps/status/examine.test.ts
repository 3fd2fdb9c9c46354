import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { operatorLease } from '../../guard/operator-lease.ts';
import { bootIdOf, leaseOf } from '../../guards/file-access/status/snapshot.fixture.ts';
import { examine } from './examine.ts';
import { agentOn, type Change, foundOf, intact, type JsonReport } from './found.fixture.ts';

function reportOf(change: Change = {}): JsonReport {
  return examine(foundOf(change)) as JsonReport;
}

const operator = {
  state: 'held',
  holder: 'operator-1_0e8e63a6-51a7-4b04-9f1c-3c0a4f7d9a10',
  renewedSecondsAgo: 1,
};
const free = { state: 'free', holder: null, renewedSecondsAgo: null };
const unavailable = { state: 'unavailable', reason: 'no BPF' } as const;
const waiting = { state: 'waiting', reason: 'no CRD' } as const;
const running = { state: 'running', reason: '' } as const;

suite('the report', () => {
  test('all is well', () => {
    const { policies, nodes, ...rest } = reportOf();
    assert.deepEqual(rest, {
      schema: 'rampart.dev/status/v1',
      server: 'https://10.0.0.1:6443',
      time: '2026-11-21T12:00:00.000Z',
      namespace: null,
      guarded: true,
      guards: [
        { name: 'file-access', installed: true, guarded: true, operator, nodes: [] },
        { name: 'file-integrity', installed: true, guarded: true, operator, nodes: [] },
      ],
      fileIntegrities: [],
      operator,
      kiveData: { total: 2, orphans: 0 },
      notRead: [],
    });
    assert.equal(policies.length, 1);
    assert.deepEqual(
      nodes.map(({ loader, ...node }) => ({ ...node, loader: loader.state })),
      ['n1', 'n2'].map((name) => ({
        name,
        agent: 'running',
        agentPod: { name: `rampart-agent-${name}`, ready: true },
        kernel: bootIdOf(name),
        containers: 1,
        files: 1,
        loader: 'held',
      })),
    );
  });

  test('what may not be read is not known', () => {
    const unread = { data: undefined, leases: undefined, nodes: undefined, pods: undefined };
    const report = reportOf({ access: unread, agents: undefined, agentPods: undefined });
    assert.equal(report.operator.state, 'unknown');
    assert.deepEqual(
      report.nodes.map(({ name, agent, kernel }) => [name, agent, kernel]),
      [
        ['n1', 'not-seen', null],
        ['n2', 'not-seen', null],
      ],
    );
  });

  test('one guard that is not asked well enough is enough', () => {
    const report = reportOf({ integrities: [{ ...intact, guarded: false }] });
    assert.deepEqual([report.guarded, ...report.guards.map(({ guarded }) => guarded)], [false, true, false]);
  });
});

suite('operators', () => {
  test('as good as the worst of the guards that are installed; one that does not run a guard is not its operator', () => {
    const kernels = ['n1', 'n2'].map((name) => leaseOf(bootIdOf(name), name));
    const own = leaseOf(operatorLease, 'operator-2', 60_000, false);
    const stale = reportOf({ access: { leases: [own, ...kernels] } });
    assert.deepEqual([stale.operator.state, stale.operator.holder?.slice(0, 10)], ['stale', 'operator-2']);
    assert.deepEqual(
      stale.guards.map(({ operator: one }) => one?.state),
      ['stale', 'stale'],
    );
    const leases = [{ ...leaseOf(operatorLease, 'operator-1'), guards: ['file-access'] }, ...kernels];
    const none = reportOf({ access: { leases } });
    assert.deepEqual([none.operator, none.guards[1]?.operator], [free, free]);
    // Nothing that is guarded is lost.
    assert.equal(none.guarded, true);
    const { guards } = foundOf({ access: { leases } });
    const absent = reportOf({
      access: { leases },
      guards: guards.map((one, at) => (at === 1 ? { ...one, installed: false } : one)),
    });
    assert.deepEqual([absent.operator, absent.guards[1]?.operator], [operator, null]);
  });

  test('a lock of a guard is no kernel, and its holder no node', () => {
    const leases = [operatorLease, 'rampart-network-policy', 'other'].map((name) =>
      leaseOf(name, 'operator-1'),
    );
    const report = reportOf({ access: { leases } });
    assert.deepEqual(
      report.nodes.map(({ name }) => name),
      ['n1', 'n2'],
    );
  });
});

suite('agents', () => {
  const none = { leases: [], data: [], pods: [] };

  test('one that renews its Lease runs there, whatever else is known', () => {
    const agents = [agentOn('n1', { 'file-access': running }), agentOn('n2', {}, false), agentOn('n3')];
    const report = reportOf({ access: none, agents, agentPods: [] });
    assert.deepEqual(
      report.nodes.map(({ name, agent }) => [name, agent]),
      [
        ['n1', 'running'],
        ['n2', 'not-seen'],
        ['n3', 'running'],
      ],
    );
  });

  test('a Lease that one left behind on a node that is gone makes no node', () => {
    const agents = [agentOn('n9', { 'file-access': unavailable }, false)];
    assert.deepEqual(
      reportOf({ agents }).nodes.map(({ name }) => name),
      ['n1', 'n2'],
    );
    const unknown = reportOf({ agents, access: { nodes: undefined } });
    assert.deepEqual(
      unknown.nodes.map(({ name }) => name),
      ['n1', 'n2', 'n9'],
    );
    assert.deepEqual(unknown.guards[0]?.nodes, []);
  });

  test('a guard that does not work on a node does not guard, where something is asked of it', () => {
    const agents = [
      agentOn('n2', { 'file-access': waiting, 'file-integrity': running }),
      agentOn('n1', { 'file-access': unavailable, 'file-integrity': unavailable, 'of-later': unavailable }),
    ];
    const report = reportOf({ agents });
    assert.deepEqual(
      report.guards.map(({ name, guarded, nodes }) => ({ name, guarded, nodes })),
      [
        {
          name: 'file-access',
          guarded: false,
          nodes: [
            { name: 'n1', ...unavailable },
            { name: 'n2', ...waiting },
          ],
        },
        // No FileIntegrity asks for it.
        { name: 'file-integrity', guarded: true, nodes: [{ name: 'n1', ...unavailable }] },
      ],
    );
    assert.equal(report.guarded, false);
    assert.equal(reportOf({ agents, access: { policies: [] } }).guarded, true);
    const integrities = [intact];
    assert.equal(reportOf({ agents, integrities, access: { policies: [] } }).guarded, false);
  });

  test('where it is not installed all wait, and that is well; starting is no fault', () => {
    const { guards } = foundOf();
    const report = reportOf({
      agents: [
        agentOn('n1', { 'file-integrity': waiting, 'file-access': { state: 'starting', reason: '' } }),
      ],
      guards: guards.map((one, at) => (at === 1 ? { ...one, installed: false } : one)),
    });
    assert.deepEqual([report.guarded, report.guards.map(({ nodes }) => nodes.length)], [true, [0, 0]]);
  });
});
