import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { operatorLease } from '../../guard/operator-lease.ts';
import { processWith, running } from '../../guard/processes.fixture.ts';
import { bootIdOf, leaseOf, nowMs } from '../../guards/file-access/status/snapshot.fixture.ts';
import { integritySection } from '../../guards/file-integrity/status/section.ts';
import { examine } from './examine.ts';
import { agentOn, type Change, foundOf, intact, type JsonReport } from './found.fixture.ts';

function reportOf(change: Change = {}): JsonReport {
  return examine(foundOf(change)).report as JsonReport;
}

const operator = {
  state: 'held',
  holder: 'operator-1_0e8e63a6-51a7-4b04-9f1c-3c0a4f7d9a10',
  renewedSecondsAgo: 1,
};
const unavailable = { state: 'unavailable', reason: 'no BPF' } as const;
const waiting = { state: 'waiting', reason: 'no CRD' } as const;
const works = { state: 'running', reason: '' } as const;
const sees = { ...works, mode: null, blindSpots: [] };

suite('the report', () => {
  test('all is well', () => {
    const { policies, nodes, ...rest } = reportOf();
    assert.deepEqual(rest, {
      schema: 'rampart.dev/status/v2',
      server: 'https://10.0.0.1:6443',
      time: '2026-11-21T12:00:00.000Z',
      namespace: null,
      guarded: true,
      guards: [
        { name: 'file-access', objects: 1 },
        { name: 'file-integrity', objects: 0 },
      ].map((guard) => ({
        ...guard,
        ...{ state: 'on', notGuarded: 0, guarded: true, on: ['n1', 'n2'], notOn: [] },
        operator: works,
      })),
      problems: [],
      filteredAccesses: 0,
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
        agentRenewed: '2026-11-21T11:59:59.000Z',
        guards: { 'file-access': sees, 'file-integrity': sees },
        losses: [],
        agentPod: { name: `rampart-agent-${name}`, ready: true },
        kernel: bootIdOf(name),
        containers: 1,
        files: 1,
        loader: 'held',
      })),
    );
  });

  test('forbidden resources are unknown', () => {
    const unread = { data: undefined, leases: undefined, nodes: undefined, pods: undefined };
    const report = reportOf({
      ...{ access: unread, agents: undefined, operator: undefined, agentPods: undefined },
      integrities: [intact],
    });
    assert.deepEqual([report.operator.state, report.guards[0]?.state], ['unknown', 'unknown']);
    assert.deepEqual(
      report.problems.map(({ guard, kind }) => [guard, kind]),
      [
        ['file-access', 'unknown'],
        ['file-integrity', 'unknown'],
      ],
    );
    assert.deepEqual(
      report.nodes.map(({ name, agent, kernel }) => [name, agent, kernel]),
      [
        ['n1', 'not-seen', null],
        ['n2', 'not-seen', null],
      ],
    );
  });

  test('objects that may not be read are not guarded', () => {
    const { guards } = foundOf();
    const unread = guards.map((one) =>
      one.guard.name === 'file-integrity' ? { ...one, section: integritySection(undefined, nowMs) } : one,
    );
    const report = reportOf({ guards: unread });
    assert.deepEqual(
      [report.guarded, report.problems, ...report.guards.map(({ guarded, objects }) => [guarded, objects])],
      [false, [], [true, 1], [false, null]],
    );
  });

  test('one object that is not guarded is enough', () => {
    const report = reportOf({ integrities: [intact], operator: null });
    assert.deepEqual(
      [report.guarded, ...report.guards.map(({ guarded, notGuarded }) => [guarded, notGuarded])],
      [false, [true, 0], [false, 1]],
    );
    assert.deepEqual(
      report.problems.map(({ guard, kind, object }) => [guard, kind, object]),
      [
        [
          'file-integrity',
          'operator-missing',
          { kind: 'FileIntegrity', namespace: 'guard', name: 'machine' },
        ],
      ],
    );
  });
});

suite('operators', () => {
  test('one that is dead runs nothing; one with other guards does not run this one', () => {
    const kernels = ['n1', 'n2'].map((name) => leaseOf(bootIdOf(name), name));
    const own = leaseOf(operatorLease, 'operator-2', 60_000, false);
    const operatorOf = ({ operator: held, guards }: JsonReport): unknown[] => [
      held.state,
      ...guards.map((guard) => guard.operator?.state ?? null),
    ];
    const dead = processWith(running('file-access'), { isRenewed: false });
    const stale = reportOf({ access: { leases: [own, ...kernels] }, operator: dead });
    assert.deepEqual(operatorOf(stale), ['stale', null, null]);
    assert.equal(stale.guarded, true);
    const other = processWith({ 'file-access': waiting });
    assert.deepEqual(operatorOf(reportOf({ operator: other })), ['held', 'waiting', 'off']);
  });

  test('a lock of a guard is not a kernel, and its holder is not a node', () => {
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
  const none = { leases: [], data: [], pods: [], policies: [] };

  test('one that renews its lease runs there; a pod that is ready says nothing', () => {
    const agents = [agentOn('n1'), agentOn('n2', {}, false), { ...agentOn('n3', {}, false), holder: '' }];
    const report = reportOf({ access: { ...none, nodes: [] }, agents });
    assert.deepEqual(
      report.nodes.map(({ name, agent, agentPod }) => [name, agent, agentPod?.ready]),
      [
        ['n1', 'running', true],
        ['n2', 'dead', true],
        ['n3', 'stopped', undefined],
      ],
    );
    assert.deepEqual(
      report.nodes.map(({ guards }) => Object.keys(guards).length),
      [2, 0, 0],
    );
  });

  test('a lease that one left behind on a node that is gone makes no node', () => {
    const agents = [agentOn('n1'), agentOn('n2'), agentOn('n9', { 'file-access': unavailable }, false)];
    const names = (change: Change): string[] => reportOf({ agents, ...change }).nodes.map(({ name }) => name);
    assert.deepEqual(names({}), ['n1', 'n2']);
    assert.deepEqual(names({ access: { nodes: undefined } }), ['n1', 'n2', 'n9']);
  });

  test('where a guard runs, and why not', () => {
    const agents = [
      agentOn('n2', { 'file-access': waiting, 'file-integrity': works }),
      agentOn('n1', { 'file-access': unavailable, 'of-later': unavailable }),
    ];
    const report = reportOf({ agents });
    assert.deepEqual(
      report.guards.map(({ state, on, notOn }) => ({ state, on, notOn })),
      [
        {
          state: 'not-running',
          on: [],
          notOn: [
            { name: 'n1', ...unavailable },
            { name: 'n2', ...waiting },
          ],
        },
        { state: 'on', on: ['n2'], notOn: [{ name: 'n1', state: 'off', reason: '' }] },
      ],
    );
    assert.deepEqual(
      report.problems.map(({ kind, node }) => `${kind} ${node}`),
      ['agent-unavailable n1', 'agent-waiting n2'],
    );
    // It has no objects.
    assert.equal(reportOf({ agents, access: { policies: [] } }).guarded, true);
  });

  test('a guard that is off in all processes is off; without any that is alive, nothing runs', () => {
    const [off, without] = [running('file-access'), processWith(running('file-access'))];
    const agents = ['n1', 'n2'].map((name) => agentOn(name, off));
    const states = (change: Change): string[] => reportOf(change).guards.map(({ state }) => state);
    assert.deepEqual(states({ agents, operator: without }), ['on', 'off']);
    assert.deepEqual(states({ agents: [], operator: null }), ['not-running', 'not-running']);
    // The users' objects are not guarded then.
    const { problems } = reportOf({ agents, operator: without, integrities: [intact] });
    assert.deepEqual(
      problems.map(({ kind }) => kind),
      ['operator-switched-off', 'runs-nowhere'],
    );
  });

  test('by which means a guard works, what it cannot see, and what was lost; nothing of one that is dead', () => {
    const coverage = { mode: 'kprobe', blindSpots: ['rename'], losses: { accesses: 3, files: 0 } };
    const states = { 'file-access': { ...works, coverage } };
    const agents = [
      { ...agentOn('n1', states), losses: { lines: 2 } },
      { ...agentOn('n2', states, false), losses: { lines: 2 } },
    ];
    const [n1, n2] = reportOf({ agents }).nodes;
    assert.deepEqual(n1?.guards['file-access'], { ...sees, mode: 'kprobe', blindSpots: ['rename'] });
    assert.deepEqual(n1.losses, [
      { guard: null, what: 'lines', count: 2 },
      { guard: 'file-access', what: 'accesses', count: 3 },
    ]);
    assert.deepEqual([n2?.guards, n2?.losses], [{}, []]);
  });

  test('where it is not installed all wait, and that is well', () => {
    const { guards } = foundOf();
    const report = reportOf({
      agents: ['n1', 'n2'].map((name) => agentOn(name, { 'file-integrity': waiting, 'file-access': works })),
      guards: guards.map((one, at) => (at === 1 ? { ...one, installed: false } : one)),
    });
    assert.deepEqual(
      [report.guarded, report.guards.map(({ state, notOn }) => [state, notOn.length])],
      [
        true,
        [
          ['on', 0],
          ['not-installed', 0],
        ],
      ],
    );
  });
});
