import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { policyOf, trapOn } from '../../systems/file-access/policy.fixture.ts';
import { examine } from './examine.ts';
import type { Snapshot } from './snapshot.ts';
import { leaseOf, nodePart, nowMs, podOn, ready, secrets, well, withStatus } from './snapshot.fixture.ts';

function problemsOf(change: Partial<Snapshot>): string[] {
  const report = examine({ ...well, ...change });
  const problems = report.policies.flatMap((policy) => policy.problems);
  assert.equal(report.guarded, problems.length === 0);
  return problems.map(({ kind, node, container, path }) =>
    [kind, node, container, path].filter(Boolean).join(' '),
  );
}

const web = { matchLabels: { app: 'web' } };

suite('callbacks', () => {
  test('one that takes no alerts of a node is a problem of the policy', () => {
    const callbackProblems = [{ callback: 'https://sink#1', message: 'HTTP 404' }];
    const policy = withStatus(secrets, {
      conditions: [ready],
      nodes: [nodePart('n1', { callbackProblems }), nodePart('n2')],
    });
    assert.deepEqual(problemsOf({ policies: [policy] }), ['callback-failing n1']);
    const [report] = examine({ ...well, policies: [policy] }).policies;
    assert.equal(report?.problems[0]?.message, 'alerts for https://sink#1 are not delivered: HTTP 404');
  });
});

suite('what is guarded', () => {
  test('all is well', () => {
    const { policies, nodes, ...rest } = examine(well);
    assert.deepEqual(rest, {
      schema: 'rampart.dev/status/v1',
      server: 'https://10.0.0.1:6443',
      time: '2026-11-21T12:00:00.000Z',
      namespace: null,
      guarded: true,
      fileIntegrities: [],
      operator: {
        state: 'held',
        holder: 'operator-1_0e8e63a6-51a7-4b04-9f1c-3c0a4f7d9a10',
        renewedSecondsAgo: 1,
      },
      kiveData: { total: 2, orphans: 0 },
      notRead: [],
    });
    assert.deepEqual(policies, [
      {
        namespace: 'kivebpf-system',
        name: 'secrets',
        guarded: true,
        deleting: false,
        ready: { status: 'True', reason: 'Watching', message: ready.message, isCurrent: true },
        traps: 1,
        containers: 2,
        files: 2,
        kiveData: 2,
        lastAlertTime: '2026-11-21T11:59:48Z',
        problems: [],
        nodes: [
          {
            name: 'n1',
            containers: 1,
            files: 1,
            problemCount: 0,
            isCurrent: true,
            lastAlertTime: '2026-11-21T11:59:48Z',
          },
          { name: 'n2', containers: 1, files: 1, problemCount: 0, isCurrent: true, lastAlertTime: null },
        ],
      },
    ]);
    assert.deepEqual(
      nodes.map(({ name, kernel, agent, agentPod, loader, containers, files }) => [
        name,
        kernel,
        agent,
        agentPod?.ready,
        loader.state,
        containers,
        files,
      ]),
      [
        ['n1', 'kernel-n1', 'running', true, 'held', 1, 1],
        ['n2', 'kernel-n2', 'running', true, 'held', 1, 1],
      ],
    );
  });

  for (const [what, change, problems] of [
    ['no policies', { policies: [] }, []],
    [
      'a file that is missing, and more than are named',
      {
        policies: [
          withStatus(secrets, {
            ...well.policies[0],
            nodes: [
              nodePart('n1', {
                problemCount: 3,
                problems: [
                  { trap: 0, path: '/etc/shadow', container: 'shop/a/web', message: '/etc does not exist' },
                ],
              }),
              nodePart('n2'),
            ],
          }),
        ],
      },
      ['file-missing n1 shop/a/web /etc/shadow', 'file-missing n1'],
    ],
    [
      'a trap that is refused, of two',
      {
        policies: [
          withStatus(policyOf('secrets', trapOn('/etc/shadow', web), trapOn('/x', { ip: '300.1.1.1' })), {
            conditions: [{ ...ready, status: 'False', reason: 'TrapsRefused' }],
            nodes: [nodePart('n1'), nodePart('n2')],
          }),
        ],
      },
      ['trap-refused /x'],
    ],
    [
      'all traps refused: not also that nothing matches',
      { policies: [withStatus(policyOf('secrets', trapOn('etc/shadow', web)), {})], pods: [] },
      ['trap-refused etc/shadow'],
    ],
    [
      'nothing that matches',
      { policies: [withStatus(secrets, {})], pods: [podOn('n1', 'a', [])] },
      ['no-match'],
    ],
    [
      'a node whose agent says nothing, although containers match there',
      {
        pods: [...(well.pods ?? []), podOn('n3', 'c')],
        nodes: [...(well.nodes ?? []), { name: 'n3', kernel: 'kernel-n3' }],
      },
      ['node-silent n3', 'no-loader n3'],
    ],
    [
      'an agent that was killed',
      {
        leases: [leaseOf('kive', 'o'), leaseOf('kernel-n1', 'n1', 60_000, false), leaseOf('kernel-n2', 'n2')],
      },
      ['no-loader n1'],
    ],
    [
      'an agent that was stopped and gave its lease back',
      { leases: [leaseOf('kive', 'o'), leaseOf('kernel-n1', ''), leaseOf('kernel-n2', 'n2')] },
      ['no-loader n1'],
    ],
    [
      'clocks that differ by an hour: the lease is seen to be renewed',
      {
        leases: [
          leaseOf('kive', 'o', 3_600_000),
          leaseOf('kernel-n1', 'n1', -3_600_000),
          leaseOf('kernel-n2', 'n2'),
        ],
      },
      [],
    ],
    [
      'two nodes on one kernel, one of which alerts',
      {
        nodes: ['n1', 'n2'].map((name) => ({ name, kernel: 'one' })),
        leases: [leaseOf('kive', 'o'), leaseOf('one', 'n2')],
      },
      [],
    ],
    [
      'a policy that was edited just now',
      { policies: [{ ...secrets, metadata: { ...secrets.metadata, generation: 3 } }] },
      ['node-behind n1', 'node-behind n2'],
    ],
    [
      'what only the operator knows',
      {
        policies: [
          withStatus(secrets, {
            conditions: [{ ...ready, status: 'False', reason: 'Other', message: 'why' }],
            nodes: [nodePart('n1'), nodePart('n2')],
          }),
        ],
      },
      ['not-ready'],
    ],
    [
      'what the operator said of an older version',
      {
        policies: [
          withStatus(secrets, {
            conditions: [{ ...ready, status: 'False', reason: 'Other', observedGeneration: 1 }],
            nodes: [nodePart('n1'), nodePart('n2')],
          }),
        ],
      },
      [],
    ],
    [
      'one that is being deleted',
      { policies: [withStatus(secrets, {}, { deletionTimestamp: '2026-11-21T11:59:00Z' })] },
      [],
    ],
    [
      'a user who may read policies only',
      { data: undefined, leases: undefined, nodes: undefined, agentPods: undefined, pods: undefined },
      [],
    ],
  ] as const satisfies readonly (readonly [string, Partial<Snapshot>, readonly string[]])[]) {
    test(what, () => assert.deepEqual(problemsOf(change), problems));
  }

  test('what may not be read is not known, which is another thing than nothing', () => {
    const { operator, kiveData, nodes } = examine({
      ...well,
      data: undefined,
      leases: undefined,
      nodes: undefined,
      agentPods: undefined,
      pods: undefined,
    });
    assert.equal(operator.state, 'unknown');
    assert.deepEqual(kiveData, { total: null, orphans: null });
    assert.deepEqual(
      nodes.map(({ name, agent, kernel, files, loader }) => [name, agent, kernel, files, loader.state]),
      [
        ['n1', 'not-seen', null, null, 'unknown'],
        ['n2', 'not-seen', null, null, 'unknown'],
      ],
    );
  });

  test('KiveData of policies that are gone; not where other namespaces were not asked for', () => {
    const data = [
      ...(well.data ?? []),
      { policy: 'shop/gone', nodeName: 'n1', kernel: 'kernel-n1', container: 'x' },
    ];
    assert.deepEqual(examine({ ...well, data }).kiveData, { total: 3, orphans: 1 });
    assert.deepEqual(examine({ ...well, data, namespace: 'shop' }).kiveData, { total: 3, orphans: null });
  });

  test('a machine without Node objects: its kernel is that of the lease that it holds', () => {
    const report = examine({ ...well, nodes: [], data: [], agentPods: [] });
    assert.deepEqual(
      report.nodes.map(({ name, kernel, agent }) => [name, kernel, agent]),
      [
        ['n1', 'kernel-n1', 'running'],
        ['n2', 'kernel-n2', 'running'],
      ],
    );
    assert.equal(report.guarded, true);
    assert.equal(report.time, new Date(nowMs).toISOString());
  });
});
