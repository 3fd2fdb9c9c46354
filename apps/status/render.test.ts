import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { displayWidth } from '../../shared/observe/table.ts';
import { policyOf, trapOn } from '../../systems/file-access/policy.fixture.ts';
import { agoText } from './ago.ts';
import { examine } from './examine.ts';
import { renderStatus } from './render.ts';
import { leaseOf, nodePart, podOn, secrets, well, withStatus } from './snapshot.fixture.ts';

const broken = {
  ...well,
  policies: [
    secrets,
    withStatus(
      policyOf('tokens', trapOn('/run/token', { namespace: 'shop' }), trapOn('/x', { ip: '300.1.1.1' })),
      {
        nodes: [
          nodePart('n1', {
            problemCount: 1,
            problems: [
              {
                trap: 0,
                path: '/run/token',
                container: 'shop/a/web',
                message: '/run does not exist\u001b[2J',
              },
            ],
          }),
        ],
      },
    ),
  ],
  leases: [leaseOf('kive', 'operator-1', 200_000, false), leaseOf('kernel-n1', 'n1', 47_000, false)],
  agentPods: [{ name: 'rampart-agent-n1', nodeName: 'n1', ready: false }],
  pods: [podOn('n1', 'a'), podOn('n2', 'b')],
  notRead: [{ resource: 'nodes', why: 'cannot list nodes: nodes is forbidden (403 Forbidden)' }],
};

suite('the report for people', () => {
  test('all is well', () => {
    assert.equal(
      renderStatus(examine(well), { widthColumns: 80, colour: false }),
      `\
The policy guards all that it asks for.  https://10.0.0.1:6443

POLICY                  TRAPS  CONTAINERS  FILES  LAST ALERT  GUARDED
kivebpf-system/secrets  1      2           2      12 s ago    yes
    node n1: 1 file in 1 container, last alert 12 s ago
    node n2: 1 file in 1 container

NODE  AGENT    ALERTED BY       KERNEL    CONTAINERS  FILES
n1    running  itself, 1 s ago  kernel-n  1           1
n2    running  itself, 1 s ago  kernel-n  1           1

Operator: operator-1, 1 s ago
KiveData: 2
`,
    );
  });

  test('much is not: in 80 columns', () => {
    const text = renderStatus(examine(broken), { widthColumns: 80, colour: false });
    assert.equal(
      text,
      `\
2 of 2 policies do not guard all that is asked for.  https://10.0.0.1:6443

POLICY                  TRAPS  CONTAINERS  FILES  LAST ALERT  GUARDED
kivebpf-system/secrets  1      2           2      12 s ago    no
    node n1: 1 file in 1 container, last alert 12 s ago
    node n2: 1 file in 1 container
    node n1: No agent alerts on its kernel, as it seems: the one of n1 has not
    renewed the lease for 47 s.
    node n2: No agent alerts on its kernel: nobody holds the lease.
kivebpf-system/tokens   2      1           1      -           no
    spec.traps[1].matchAny[0].ip: the address "300.1.1.1" cannot work: it is not
    an IP address. Write one address, as in the status of the pod; networks are
    not matched.
    node n1: /run/token in shop/a/web: /run does not exist\\x1b[2J
    node n2: 1 container matches there, and no agent has said a word of it.
    node n1: No agent alerts on its kernel, as it seems: the one of n1 has not
    renewed the lease for 47 s.
    node n2: No agent alerts on its kernel: nobody holds the lease.

NODE  AGENT      ALERTED BY                KERNEL    CONTAINERS  FILES
n1    not ready  nobody? itself, 47 s ago  kernel-n  1           1
n2    not seen   nobody                    kernel-n  1           1

Operator: none, as it seems: operator-1 has not renewed its lease for 3 min.
    What is guarded stays so; conditions and the clean-up after pods stand
    still.
KiveData: 2
Not read: nodes. cannot list nodes: nodes is forbidden (403 Forbidden)
`,
    );
  });

  test('colour changes no column, and nothing is wider than the terminal where it need not be', () => {
    for (const widthColumns of [80, 120]) {
      const plain = renderStatus(examine(broken), { widthColumns, colour: false });
      const coloured = renderStatus(examine(broken), { widthColumns, colour: true });
      assert.notEqual(coloured, plain);
      // oxlint-disable-next-line no-control-regex -- the escapes of colours
      assert.equal(coloured.replace(/\u001b\[\d+m/g, ''), plain);
      for (const line of plain.split('\n')) assert.ok(displayWidth(line) <= widthColumns, line);
    }
  });

  test('of many nodes only those that something is the matter with', () => {
    const names = Array.from({ length: 100 }, (_, index) => `node-${String(index).padStart(3, '0')}`);
    const many = {
      ...well,
      policies: [withStatus(secrets, { nodes: names.map((name) => nodePart(name)) })],
      data: [],
      nodes: names.map((name) => ({ name, kernel: `k-${name}` })),
      leases: names.map((name) => leaseOf(`k-${name}`, name, 1000, name !== 'node-042')),
      agentPods: [],
      pods: names.map((name) => podOn(name, 'a')),
    };
    const text = renderStatus(examine(many), { widthColumns: 80, colour: false });
    assert.match(text, /\n {4}and 80 more nodes\n/);
    assert.match(text, /\nnode-042 +not seen +nobody\? itself, 1 s ago/);
    assert.doesNotMatch(text, /\nnode-041/);
    assert.match(text, /\n99 more nodes: nothing is the matter with them\n/);
  });

  test('no policy, in all and in one namespace', () => {
    const empty = { ...well, policies: [] };
    const options = { widthColumns: 80, colour: false };
    assert.match(renderStatus(examine(empty), options), /^There is no policy: nothing is asked for\. /);
    assert.match(
      renderStatus(examine({ ...empty, namespace: 'shop' }), options),
      /^There is no policy in namespace shop: /,
    );
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
