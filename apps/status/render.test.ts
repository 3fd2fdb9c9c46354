import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { displayWidth } from '../../lib/output/table.ts';
import { agoText } from '../../lib/output/ago.ts';
import { policyOf, trapOn } from '../../guards/file-access/policy/policy.fixture.ts';
import {
  bootIdOf,
  leaseOf,
  nodePart,
  podOn,
  secrets,
  well,
  withStatus,
} from '../../guards/file-access/status/snapshot.fixture.ts';
import { processWith, running } from '../../guard/processes.fixture.ts';
import { examine } from './examine.ts';
import { agentOn, type Change, foundOf, intact } from './found.fixture.ts';
import { renderStatus } from './render.ts';

function textOf(change: Change = {}, { widthColumns = 80, colour = false, isWide = false } = {}): string {
  const found = foundOf(change);
  return renderStatus(examine(found), found.guards, { widthColumns, colour, isWide });
}

const brokenAccess = {
  policies: [
    secrets,
    withStatus(
      policyOf('tokens', trapOn('/run/token', { namespace: 'shop' }), trapOn('/x', { ip: '300.1.1.1' })),
      {},
    ),
  ],
  parts: [
    ...(well.parts ?? []),
    nodePart('n1', {
      name: 'tokens',
      problemCount: 1,
      problems: [
        { trap: 0, path: '/run/token', container: 'shop/a/web', message: '/run does not exist\u001b[2J' },
      ],
    }),
  ],
  leases: [
    leaseOf('rampart-operator', 'operator-1', 200_000, false),
    leaseOf(bootIdOf('n1'), 'n1', 47_000, false),
  ],
  pods: [podOn('n1', 'a'), podOn('n2', 'b')],
};
const broken: Change = {
  access: brokenAccess,
  agentPods: [{ name: 'rampart-agent-n1', nodeName: 'n1', ready: true }],
  agents: [agentOn('n1', undefined, false)],
  operator: processWith(running('file-access'), { isRenewed: false }),
  notRead: [{ resource: 'nodes', why: 'cannot list nodes: nodes is forbidden (403 Forbidden)' }],
};

suite('the report for people', () => {
  test('all is well', () => {
    assert.equal(
      textOf(),
      `\
All files of the policy are watched.  https://10.0.0.1:6443

POLICY                  TRAPS  CONTAINERS  FILES  LAST ALERT  GUARDED
kivebpf-system/secrets  1      2           2      12 s ago    yes
    node n1: 1 file in 1 container, last alert 12 s ago
    node n2: 1 file in 1 container

NODE  AGENT    WATCHED BY           KERNEL    CONTAINERS  FILES
n1    running  this agent, 1 s ago  6e310000  1           1
n2    running  this agent, 1 s ago  6e320000  1           1

Operator: operator-1, 1 s ago
KiveData: 2
`,
    );
  });

  test('much is not: in 80 columns', () => {
    const text = textOf(broken);
    assert.equal(
      text,
      `\
2 of 2 policies are not fully in effect.  https://10.0.0.1:6443

POLICY                  TRAPS  CONTAINERS  FILES  LAST ALERT  GUARDED
kivebpf-system/secrets  1      2           2      12 s ago    no
    node n1: 1 file in 1 container, last alert 12 s ago
    node n2: 1 file in 1 container
    node n1: the agent no longer renews its lease, although a trap matches 1
    container there (1 s ago). Start the agent: kubectl -n rampart-system get
    pods -o wide shows its pod on n1.
    node n2: the agent has never run, although a trap matches 1 container there.
    Start the agent: kubectl -n rampart-system get pods -o wide shows its pod on
    n2.
kivebpf-system/tokens   2      1           1      -           no
    node n1: the agent no longer renews its lease, although a trap matches 1
    container there (1 s ago). Start the agent: kubectl -n rampart-system get
    pods -o wide shows its pod on n1.
    node n2: the agent has never run, although a trap matches 1 container there.
    Start the agent: kubectl -n rampart-system get pods -o wide shows its pod on
    n2.
    spec.traps[1].matchAny[0].ip: the address "300.1.1.1" is invalid: it is not
    an IP address. Write one address, as in the status of the pod; networks are
    not matched.

NODE  AGENT     WATCHED BY                       KERNEL    CONTAINERS  FILES
n1    dead      no agent (this agent, 47 s ago)  6e310000  1           1
n2    not seen  no agent                         6e320000  1           1

Operator: none appears to be running: operator-1 has not renewed its lease
    for 3 min. No agent runs either: conditions are not updated and nothing is
    cleaned up.
KiveData: 2
Not read: nodes. cannot list nodes: nodes is forbidden (403 Forbidden)
`,
    );
  });

  test('colour changes no column, and nothing is wider than the terminal where it need not be', () => {
    for (const widthColumns of [80, 120]) {
      const plain = textOf(broken, { widthColumns });
      const coloured = textOf(broken, { widthColumns, colour: true });
      assert.notEqual(coloured, plain);
      // oxlint-disable-next-line no-control-regex -- the escapes of colours
      assert.equal(coloured.replace(/\u001b\[\d+m/g, ''), plain);
      for (const line of plain.split('\n')) assert.ok(displayWidth(line) <= widthColumns, line);
    }
  });

  test('of many nodes, only those with a problem are shown', () => {
    const names = Array.from({ length: 100 }, (_, index) => `node-${String(index).padStart(3, '0')}`);
    const access = {
      policies: [withStatus(secrets, {})],
      parts: names.map((name) => nodePart(name)),
      data: [],
      nodes: names.map((name) => ({ name, kernel: bootIdOf(name) })),
      leases: names.map((name) => leaseOf(bootIdOf(name), name, 1000, name !== 'node-042')),
      pods: names.map((name) => podOn(name, 'a')),
    };
    const waiting = { 'file-integrity': { state: 'waiting', reason: '' } } as const;
    const agents = names.map((name) =>
      name === 'node-007' ? agentOn(name, { ...running('file-access'), ...waiting }) : agentOn(name),
    );
    const text = textOf({ access, agents, agentPods: [] });
    assert.match(text, /\n {4}and 80 more nodes\n/);
    assert.match(text, /\nnode-042 +running +no agent \(this agent, 1 s ago\)/);
    assert.doesNotMatch(text, /\nnode-041/);
    assert.match(text, /\nnode-007 .*\n {4}node node-007: file-integrity waits\.\nnode-042/);
    assert.match(text, /\n98 more nodes without problems\n/);
    const wide = textOf({ access, agents, agentPods: [] }, { widthColumns: Infinity, isWide: true });
    assert.match(wide, /\nnode-041/);
    assert.doesNotMatch(wide, /more nodes without problems/);
  });

  test('blind spots and losses of guards with objects', () => {
    const coverage = { mode: 'kprobe', blindSpots: ['rename', 'chmod'], losses: { accesses: 3 } };
    const states = {
      'file-access': { state: 'running', reason: '', coverage },
      'file-integrity': { state: 'running', reason: '', coverage },
    } as const;
    const text = textOf({ agents: ['n1', 'n2'].map((name) => agentOn(name, states)) }, { widthColumns: 200 });
    assert.match(text, /\nfile-access on n1, n2: by kprobe; not covered: rename, chmod\n/);
    assert.doesNotMatch(text, /\nfile-integrity on/);
    assert.match(
      text,
      /\n {4}node n1: lost since its agent started: file-access: 3 accesses, file-integrity: 3 accesses\n/,
    );
  });

  test('an agent that is dead on many nodes: one line', () => {
    const names = ['n1', 'n2', 'n3', 'n4', 'n5'];
    const agents = names.map((name) => agentOn(name, undefined, false));
    const access = {
      parts: names.map((name) => nodePart(name)),
      pods: names.map((name) => podOn(name, 'a')),
    };
    assert.match(
      textOf({ access, agents }, { widthColumns: 200 }),
      /\n {4}nodes n1, n2, n3 and 2 more: the agent no longer renews its lease, although a trap matches 1 container there \(1 s ago\)\. Start/,
    );
  });

  test('no policy, in all and in one namespace', () => {
    assert.match(textOf({ access: { policies: [] } }), /^There are no policies: nothing is guarded\. /);
    assert.match(
      textOf({ access: { policies: [], namespace: 'shop' } }),
      /^There are no policies in namespace shop: /,
    );
  });

  test('several guards: each has its line and its table, in their order', () => {
    const text = textOf({ integrities: [intact] });
    assert.match(text, /^All files of .*6443\nNo file has changed on 0 nodes\.\n\nPOLICY/);
    assert.match(text, /\n\nPOLICY[^]*\n\nFILE INTEGRITY[^]*\n\nNODE[^]*\n\nOperator/);
    const alone = textOf({ access: { policies: [] }, integrities: [intact] });
    assert.match(alone, /^No file has changed on 0 nodes\. {2}https:\S+\n\nFILE INTEGRITY/);
  });

  test('a guard that does not work on a node: in the first lines, and why', () => {
    const reason = 'this kernel refuses BPF\u001b:\n it is locked down.';
    const agents = [
      agentOn('n1', { 'file-access': { state: 'unavailable', reason } }),
      agentOn('n2', { 'file-access': { state: 'running', reason: '' } }),
    ];
    const text = textOf({ agents });
    assert.match(text, /^1 of 1 policies is not fully in effect\. /);
    assert.match(
      text,
      /\n {4}node n1: file-access cannot run in the agent: this kernel refuses BPF\\x1b:\s+it is locked down, although a trap matches 1 container there/,
    );
    assert.match(
      text,
      /\nn1 .*\n {4}node n1: file-access is not available: this kernel refuses BPF\\x1b: it is\n {4}locked down\.\nn2 /,
    );
    // It has no objects: this is only shown.
    const idle = textOf({ agents, access: { policies: [] } });
    assert.doesNotMatch(idle, /does not work/);
    assert.match(idle, /node n1: file-access is not available/);
  });

  test('a guard that is not installed has no columns; guards that the operator cannot run are reported', () => {
    const found = foundOf();
    const guards = found.guards.map((one, at) => (at === 0 ? { ...one, installed: false } : one));
    const text = textOf({ guards, access: { policies: [] } });
    assert.match(text, /\nNODE +AGENT\n/);
    assert.match(text, /\nNot in use here: file-access\. The API does not serve their resources\.\n/);
    assert.doesNotMatch(text, /KiveData/);
    const waiting = { 'file-access': { state: 'waiting', reason: 'no CRD' } } as const;
    assert.match(
      textOf({ operator: processWith(waiting) }),
      /\nIn the operator, file-access is waiting: no CRD\n/,
    );
  });

  test('a guard that is switched off everywhere', () => {
    const agents = ['n1', 'n2'].map((name) => agentOn(name, running('file-access')));
    const operator = processWith(running('file-access'));
    assert.match(textOf({ agents, operator }), /\nSwitched off by --guards: file-integrity\.\n/);
  });

  test('ages', () => {
    for (const [ms, text] of [
      [-5000, '0 s ago'],
      [0, '0 s ago'],
      [119_000, '119 s ago'],
      [120_000, '2 min ago'],
      [7_199_000, '119 min ago'],
      [7_200_000, '2 h ago'],
      [172_800_000, '2 d ago'],
    ] as const) {
      assert.equal(agoText(ms), text);
    }
  });
});
