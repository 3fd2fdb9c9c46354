import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes } from '../../../lib/errors/errors.ts';
import type { PodObject, PolicyObject } from '../engine/objects.ts';
import { judge } from './judge.ts';

const pods: readonly PodObject[] = [
  {
    metadata: { namespace: 'x', name: 'web', labels: { app: 'web' } },
    status: { podIP: '10.0.0.1', podIPs: [{ ip: 'fd00::1' }] },
  },
  {
    metadata: { namespace: 'x', name: 'db', labels: { app: 'db' } },
    status: { podIP: '10.0.0.2', podIPs: [{ ip: 'fd00::2' }] },
  },
  { metadata: { namespace: 'x', name: 'six' }, status: { podIPs: [{ ip: 'fd00::3' }] } },
  { metadata: { namespace: 'x', name: 'host' }, spec: { hostNetwork: true }, status: { podIP: '192.0.2.7' } },
  { metadata: { namespace: 'x', name: 'done' }, status: { phase: 'Succeeded', podIP: '10.0.0.9' } },
];
const policies: readonly PolicyObject[] = [
  {
    metadata: { namespace: 'x', name: 'db' },
    spec: {
      podSelector: { matchLabels: { app: 'db' } },
      ingress: [
        { from: [{ podSelector: { matchLabels: { app: 'old' } } }], ports: [{ port: 5432 }] },
        {
          from: [{ ipBlock: { cidr: '192.0.2.0/29' } }, { podSelector: { matchLabels: { app: 'web' } } }],
          ports: [{ port: 1 }, { port: 5433 }],
        },
      ],
    },
  },
  { metadata: { namespace: 'x', name: 'all' }, spec: { podSelector: {} } },
];
const annotations = { 'kube-router.io/network-policy.monitor': 'true' };
const say = (from: string, to: string, port: number, fromNode = false) =>
  judge(policies, pods, [], { from, to, port, protocol: 'TCP' }, { fromNode });

suite('the judge', () => {
  test('names the policy, the rule, the peer and the port that allow a packet', () => {
    assert.deepEqual(say('x/web', 'x/db', 5433), {
      allowed: true,
      ingress: { verdict: 'allowed', policy: 'x/db', rule: 1, peer: 1, port: 1 },
      egress: { verdict: 'not isolated' },
    });
  });

  test('names all that isolate, and the rule whose peer fits before one whose port fits', () => {
    assert.deepEqual(say('x/web', 'x/db', 5432), {
      allowed: false,
      ingress: {
        verdict: 'refused',
        policies: ['x/all', 'x/db'],
        nearest: { policy: 'x/db', rule: 1, peer: 1, port: undefined, fits: 'peer' },
      },
      egress: { verdict: 'not isolated' },
    });
    const { ingress } = say('x/six', 'x/db', 5432);
    assert.deepEqual(ingress.verdict === 'refused' && ingress.nearest, {
      policy: 'x/db',
      rule: 0,
      peer: undefined,
      port: 0,
      fits: 'port',
    });
  });

  test('has no closest rule if no part of any rule matches', () => {
    assert.deepEqual(say('x/db', 'x/web', 80).ingress, {
      verdict: 'refused',
      policies: ['x/all'],
      nearest: undefined,
    });
  });

  test('lets pass what only policies in monitor mode do not allow: by their annotation, their Namespace or the node', () => {
    const packet = { from: 'x/web', to: 'x/db', port: 5432, protocol: 'TCP' };
    const annotated = policies.map((one) => ({ ...one, metadata: { ...one.metadata, annotations } }));
    const namespace = { metadata: { name: 'x', annotations } };
    const onNode = pods.map((one) => ({ ...one, spec: { ...one.spec, nodeName: 'n' } }));
    const asEnforced = say('x/web', 'x/db', 5432).ingress;
    for (const [{ allowed, ingress }, more] of [
      [judge(annotated, pods, [], packet), {}],
      [judge(policies, pods, [namespace], packet), {}],
      [judge(policies, onNode, [], packet, { monitoringNodes: new Set(['n']) }), { monitoringNode: 'n' }],
    ] as const) {
      assert.equal(allowed, true);
      assert.deepEqual(ingress, { ...asEnforced, verdict: 'would-refuse', ...more });
    }
    // One of the two is enforced, or the mode is that of another namespace or node.
    for (const { allowed } of [
      judge([annotated[0]!, policies[1]!], pods, [], packet),
      judge([policies[0]!, annotated[1]!], pods, [], packet),
      judge(policies, pods, [{ metadata: { name: 'y', annotations } }], packet),
      judge(policies, onNode, [], packet, { monitoringNodes: new Set(['m']) }),
    ])
      assert.equal(allowed, false);
  });

  test('takes the family that both sides have, and a pod of the network of its node as an address', () => {
    assert.equal(say('x/six', 'x/db', 5433).allowed, false);
    assert.equal(say('x/host', 'x/db', 5433).ingress.verdict, 'allowed');
    assert.deepEqual(say('x/db', 'x/host', 22).ingress, { verdict: 'not isolated' });
  });

  test('a node reaches its own pods', () => {
    assert.deepEqual(say('192.0.2.99', 'x/db', 9, true).ingress, { verdict: 'own node' });
    assert.equal(say('192.0.2.99', 'x/db', 9).allowed, false);
  });

  for (const [from, why] of [
    ['x/none', 'no pod has that name'],
    ['x/done', 'the pod is finished'],
    ['10.0.0.300', 'no pod has that name'],
    ['192.0.2.1', 'no address family in common'],
  ] as const) {
    test(`refuses to judge what is from ${from}: ${why}`, () => {
      assert.throws(() => say(from, 'x/six', 80), { code: errorCodes.INPUT, message: new RegExp(why) });
    });
  }
});
