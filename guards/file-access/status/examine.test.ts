import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { movedTo, policyOf, trapOn } from '../policy/policy.fixture.ts';
import { examine } from './examine.ts';
import type { Snapshot } from './snapshot.ts';
import { fileAccess } from '../guard.ts';
import type { Processes } from '../../../guard/guarded.ts';
import { processesOn, processWith, running } from '../../../guard/processes.fixture.ts';
import { type Verdict, verdictOn } from '../../../guard/verdict.ts';
import { readRefused, refusedFacts } from './refused-files.ts';
import { fileAccessSection } from './section.ts';
import {
  bootIdOf,
  leaseOf,
  nodePart,
  nowMs,
  podOn,
  ready,
  secrets,
  well,
  withStatus,
} from './snapshot.fixture.ts';

function verdictOf(change: Partial<Snapshot>, processes: Partial<Processes> = {}): Verdict {
  const { objects = [] } = fileAccessSection({ ...well, ...change }, nowMs);
  return verdictOn(fileAccess, objects, { ...processesOn(['n1', 'n2'], 'file-access'), ...processes });
}

function problemsOf(change: Partial<Snapshot>): string[] {
  return verdictOf(change).problems.map(({ kind, node, field }) =>
    [kind, node, field?.replace(/\].*/, ']')].filter(Boolean).join(' '),
  );
}

/** As the agent of the node says it in its lease. */
function refusedBy(node: string, policies: readonly string[]): Snapshot['refused'] {
  const error = new Error('the map of files is full');
  const facts = refusedFacts(
    policies.map((planned) => ({ planned, error })),
    (policy) => policy,
  );
  const found = readRefused(facts);
  return new Map(found && [[node, found]]);
}

const policiesOnly = {
  parts: undefined,
  data: undefined,
  leases: undefined,
  nodes: undefined,
  pods: undefined,
};
const web = { matchLabels: { app: 'web' } };

suite('callbacks', () => {
  test('one that takes no alerts of a node is a problem of the policy', () => {
    const callbackProblems = [{ callback: 'https://sink#1', message: 'HTTP 404' }];
    const parts = [nodePart('n1', { callbackProblems }), nodePart('n2')];
    assert.deepEqual(problemsOf({ parts }), ['callback-failing n1']);
    const [problem] = verdictOf({ parts }).problems;
    assert.equal(problem?.why, 'alerts for https://sink#1 are not delivered: HTTP 404');
  });
});

suite('what is guarded', () => {
  test('all is well', () => {
    const { policies, kiveData, nodeOf } = examine(well);
    assert.deepEqual(kiveData, { total: 2, orphans: 0 });
    assert.deepEqual(policies, [
      {
        namespace: 'kivebpf-system',
        name: 'secrets',
        deleting: false,
        ready: { status: 'True', reason: 'Watching', message: ready.message, isCurrent: true },
        traps: 1,
        containers: 2,
        files: 2,
        kiveData: 2,
        lastAlertTime: '2026-11-21T11:59:48Z',
        nodes: [
          {
            name: 'n1',
            containers: 1,
            host: false,
            files: 1,
            problemCount: 0,
            isCurrent: true,
            lastAlertTime: '2026-11-21T11:59:48Z',
          },
          {
            ...{ name: 'n2', containers: 1, host: false, files: 1 },
            ...{ problemCount: 0, isCurrent: true, lastAlertTime: null },
          },
        ],
      },
    ]);
    assert.deepEqual(
      ['n1', 'n2'].map((name) => ({ ...nodeOf(name), loader: nodeOf(name).loader.state })),
      ['n1', 'n2'].map((name) => ({ kernel: bootIdOf(name), loader: 'held', containers: 1, files: 1 })),
    );
  });

  for (const [what, change, problems] of [
    ['no policies', { policies: [] }, []],
    [
      'a file that is missing, and more than are named',
      {
        parts: [
          nodePart('n1', {
            problemCount: 3,
            problems: [
              { trap: 0, path: '/etc/shadow', container: 'shop/a/web', message: '/etc does not exist' },
            ],
          }),
          nodePart('n2'),
        ],
      },
      ['file-missing n1 spec.traps[0]', 'file-missing n1'],
    ],
    [
      'a trap that is refused, of two',
      {
        policies: [
          withStatus(policyOf('secrets', trapOn('/etc/shadow', web), trapOn('/x', { ip: '300.1.1.1' })), {
            conditions: [{ ...ready, status: 'False', reason: 'TrapsRefused' }],
          }),
        ],
      },
      ['trap-refused spec.traps[1]'],
    ],
    [
      'all traps refused: not also that nothing matches',
      { policies: [withStatus(policyOf('secrets', trapOn('etc/shadow', web)), {})], parts: [], pods: [] },
      ['trap-refused spec.traps[0]'],
    ],
    [
      'a trap for another namespace, of a policy that the operator says is confined',
      {
        policies: [withStatus(movedTo('shop', policyOf('p', trapOn('/x', { namespace: 'other' }))), {})],
        ...{ parts: [], pods: [] },
      },
      ['trap-refused spec.traps[0]'],
    ],
    [
      'the same of a policy that the operator says matches pods of all namespaces',
      {
        policies: [
          withStatus(movedTo('shop', policyOf('p', trapOn('/x', { namespace: 'other' }))), {
            scope: 'Cluster',
          }),
        ],
        ...{ parts: [], pods: [] },
      },
      ['no-match'],
    ],
    [
      'nothing that matches',
      { policies: [withStatus(secrets, {})], parts: [], pods: [podOn('n1', 'a', [])] },
      ['no-match'],
    ],
    [
      'a node whose agent says nothing, although containers match there',
      {
        pods: [...(well.pods ?? []), podOn('n3', 'c')],
        nodes: [...(well.nodes ?? []), { name: 'n3', kernel: bootIdOf('n3') }],
      },
      ['agent-missing n3'],
    ],
    [
      'a kernel whose lease is not renewed, although the agent of its node is alive',
      {
        leases: [
          leaseOf('rampart-operator', 'o'),
          leaseOf(bootIdOf('n1'), 'n1', 60_000, false),
          leaseOf(bootIdOf('n2'), 'n2'),
        ],
      },
      ['no-loader n1'],
    ],
    [
      'a kernel that no agent raises alerts for',
      {
        leases: [
          leaseOf('rampart-operator', 'o'),
          leaseOf(bootIdOf('n1'), ''),
          leaseOf(bootIdOf('n2'), 'n2'),
        ],
      },
      ['no-loader n1'],
    ],
    [
      'a container that runs for a while, of which the agent knows nothing',
      { pods: [...(well.pods ?? []), podOn('n1', 'c')] },
      ['outdated n1'],
    ],
    [
      'a container that has just started',
      { pods: [...(well.pods ?? []), { ...podOn('n1', 'c'), settled: [] }] },
      [],
    ],
    [
      'files that the sensor of a kernel has no room for, of this policy',
      { refused: refusedBy('n1', ['kivebpf-system/secrets', 'shop/other']) },
      ['file-refused n1'],
    ],
    ['the same, of another policy', { refused: refusedBy('n1', ['shop/other']) }, []],
    [
      'the same of too many policies to be named',
      { refused: refusedBy('n1', ['kivebpf-system/secrets', `x/${'y'.repeat(200)}`]) },
      ['file-refused n1'],
    ],
    [
      'clocks that differ by an hour: the lease is seen to be renewed',
      {
        leases: [
          leaseOf('rampart-operator', 'o', 3_600_000),
          leaseOf(bootIdOf('n1'), 'n1', -3_600_000),
          leaseOf(bootIdOf('n2'), 'n2'),
        ],
      },
      [],
    ],
    [
      'two nodes on one kernel, one of which alerts',
      {
        nodes: ['n1', 'n2'].map((name) => ({ name, kernel: bootIdOf('one') })),
        leases: [leaseOf('rampart-operator', 'o'), leaseOf(bootIdOf('one'), 'n2')],
      },
      [],
    ],
    [
      'a policy that was edited just now',
      { policies: [{ ...secrets, metadata: { ...secrets.metadata, generation: 3 } }] },
      ['outdated n1', 'outdated n2'],
    ],
    [
      'what only the operator knows',
      {
        policies: [
          withStatus(secrets, {
            conditions: [{ ...ready, status: 'False', reason: 'Other', message: 'why' }],
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
      'what was said of another policy of that name',
      { parts: [nodePart('n1', { uid: 'uid-0' }), nodePart('n2')] },
      ['not-reported n1'],
    ],
    ['a user who may read policies only', policiesOnly, []],
    [
      'a user who may read policies only, and files are missing: what the operator has gathered',
      {
        ...policiesOnly,
        policies: [
          withStatus(secrets, {
            ...secrets.status,
            conditions: [{ ...ready, status: 'False', reason: 'FilesMissing' }],
            problemCount: 2,
            problems: [{ node: 'n1', trap: 0, path: '/x', container: 'shop/a/web', message: 'why' }],
            callbackProblems: [{ node: 'n2', callback: 'https://sink#1', message: 'HTTP 404' }],
          }),
        ],
      },
      ['file-missing n1 spec.traps[0]', 'file-missing', 'callback-failing n2'],
    ],
    [
      'a user who may read policies only, of one that was edited just now',
      { ...policiesOnly, policies: [{ ...secrets, metadata: { ...secrets.metadata, generation: 3 } }] },
      ['outdated'],
    ],
    [
      'a user who may read policies only, while nodes are behind',
      {
        ...policiesOnly,
        policies: [
          withStatus(secrets, {
            ...secrets.status,
            conditions: [{ ...ready, status: 'Unknown', reason: 'NodesBehind' }],
          }),
        ],
      },
      ['not-ready'],
    ],
    [
      'pods may be read, and what nodes say may not: only whether their agents are alive',
      { ...policiesOnly, pods: [podOn('n1', 'a'), podOn('n3', 'c')] },
      ['agent-missing n3'],
    ],
  ] as const satisfies readonly (readonly [string, Partial<Snapshot>, readonly string[]])[]) {
    test(what, () => assert.deepEqual(problemsOf(change), problems));
  }

  test('data without read rights are unknown, not absent', () => {
    const { kiveData, nodeNames, nodeOf } = examine({
      ...well,
      ...policiesOnly,
      parts: well.parts,
    });
    assert.deepEqual(kiveData, { total: null, orphans: null });
    const loader = { state: 'unknown', holder: null, renewedSecondsAgo: null };
    for (const name of ['n1', 'n2']) {
      assert.ok(nodeNames.includes(name));
      assert.deepEqual(nodeOf(name), { kernel: null, loader, containers: null, files: null });
    }
  });

  test('agents that were killed: each node is named, and nothing that they reported counts', () => {
    const problems = [{ trap: 0, path: '/x', container: 'shop/a/web', message: 'it does not exist' }];
    const parts = [nodePart('n1', { problemCount: 1, problems }), nodePart('n2')];
    const dead = processWith(running('file-access'), { isRenewed: false });
    const agents = new Map(['n1', 'n2'].map((node) => [node, dead]));
    assert.deepEqual(
      verdictOf({ parts }, { agents }).problems.map(({ kind, node }) => `${kind} ${node}`),
      ['agent-dead n1', 'agent-dead n2'],
    );
    // The operator writes conditions, and guards nothing here.
    assert.equal(verdictOf({}, { operator: null }).failing, 0);
    assert.equal(verdictOf(policiesOnly, { operator: null }).failing, 1);
  });

  test('an agent that was started again: what the one before it reported does not count', () => {
    const { problems } = verdictOf({ reported: new Set(['n2']) });
    assert.deepEqual(
      problems.map(({ kind, node }) => `${kind} ${node}`),
      ['not-reported n1'],
    );
  });

  test('KiveData of policies that are gone; not where other namespaces were not asked for', () => {
    const data = [
      ...(well.data ?? []),
      { policy: 'shop/gone', nodeName: 'n1', kernel: bootIdOf('n1'), container: 'x' },
    ];
    assert.deepEqual(examine({ ...well, data }).kiveData, { total: 3, orphans: 1 });
    assert.deepEqual(examine({ ...well, data, namespace: 'shop' }).kiveData, { total: 3, orphans: null });
  });

  test('a machine without Node objects: its kernel is that of the lease that it holds', () => {
    const { nodes } = fileAccessSection({ ...well, nodes: [], data: [] }, nowMs);
    assert.ok(nodes);
    for (const name of ['n1', 'n2']) {
      assert.ok(nodes.names.includes(name));
      assert.equal(nodes.of(name).fields['kernel'], bootIdOf(name));
    }
  });

  test('a lock not named by a boot ID is not a kernel, nor its holder a node', () => {
    const others = ['rampart-network-policy', 'someone-elses', 'rampart-agent-n9'];
    const leases = [...(well.leases ?? []), ...others.map((name) => leaseOf(name, `holder-of-${name}`))];
    const { nodeNames } = examine({ ...well, leases });
    assert.deepEqual([...new Set(nodeNames)].toSorted(), ['n1', 'n2']);
  });
});

suite('files of nodes themselves', () => {
  const ofHost = withStatus(policyOf('secrets', trapOn('/etc/shadow', { host: true })), {
    conditions: [ready],
  });
  const hostPart = { matchedContainers: 0, host: true };
  const change = {
    policies: [ofHost],
    pods: [],
    parts: [nodePart('n1', hostPart), nodePart('n2', hostPart)],
  };

  test('are watched without a container', () => {
    assert.deepEqual(problemsOf(change), []);
    const [policy] = examine({ ...well, ...change }).policies;
    assert.deepEqual([policy?.containers, policy?.files], [0, 2]);
    assert.deepEqual(
      policy?.nodes.map(({ host }) => host),
      [true, true],
    );
  });

  test('need the agent of every node', () => {
    const parts = [nodePart('n1', hostPart)];
    assert.deepEqual(problemsOf({ ...change, parts }), ['not-reported n2']);
    const [problem] = verdictOf({ ...change, parts }).problems;
    assert.match(problem?.why ?? '', /a trap is for the node itself/);
  });

  test('that are missing are said without a container', () => {
    const problems = [{ trap: 0, path: '/etc/shadow', container: '', message: '/etc/shadow does not exist' }];
    const parts = [
      nodePart('n1', { ...hostPart, watchedFiles: 0, problemCount: 1, problems }),
      nodePart('n2', hostPart),
    ];
    const [problem] = verdictOf({ ...change, parts }).problems;
    assert.equal(problem?.why, '/etc/shadow is not watched: /etc/shadow does not exist');
  });
});

test('accesses that raise no alert because of the process are said below the policies', () => {
  const footOf = (filtered: number) => fileAccessSection({ ...well, filtered }, nowMs).foot;
  assert.deepEqual(footOf(0), ['KiveData: 2']);
  assert.deepEqual(footOf(1), ['KiveData: 2', 'Not reported because of `processes`: 1 access']);
});
