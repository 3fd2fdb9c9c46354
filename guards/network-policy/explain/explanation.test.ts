import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes } from '../../../lib/errors/errors.ts';
import { monitorAnnotation } from '../engine/monitor.ts';
import { explain, type ClusterObjects, type Question } from './explanation.ts';
import { checkEnd, parsePort } from './question.ts';

const pod = (key: string, ip: string, more: object = {}, status: object = {}) => {
  const [namespace = '', name = ''] = key.split('/');
  return {
    metadata: { namespace, name, labels: { app: name } },
    spec: { nodeName: 'one', ...more },
    status: { podIP: ip, hostIP: '192.0.2.10', ...status },
  };
};
const cluster: ClusterObjects = {
  namespaces: ['shop', 'other'].map((name) => ({ metadata: { name, labels: { team: name } } })),
  pods: [
    pod('shop/web', '10.0.0.1'),
    pod('shop/db', '10.0.0.2', {
      containers: [{ ports: [{ name: 'sql', containerPort: 5432 }] }],
    }),
    pod('other/web', '10.0.0.3'),
    pod('shop/host', '192.0.2.10', { hostNetwork: true }),
    pod('other/host', '192.0.2.11', { hostNetwork: true, nodeName: 'two' }, { hostIP: '192.0.2.11' }),
  ],
  policies: [
    {
      metadata: { namespace: 'shop', name: 'db' },
      spec: {
        podSelector: { matchLabels: { app: 'db' } },
        ingress: [
          {
            from: [{ ipBlock: { cidr: '203.0.113.0/24', except: ['203.0.113.8/29'] } }],
            ports: [{ port: 9090, endPort: 9100 }],
          },
          {
            from: [
              { podSelector: { matchLabels: { app: 'web' } } },
              {
                namespaceSelector: { matchExpressions: [{ key: 'team', operator: 'Exists' }] },
                podSelector: {},
              },
            ],
            ports: [{ port: 5432, endPort: 5400 }, { port: 'sql' }],
          },
        ],
      },
    },
    { metadata: { namespace: 'other', name: 'none' }, spec: { podSelector: {}, policyTypes: ['Egress'] } },
  ],
};
const ask = (from: string, to: string, port: string, more: Partial<Question> = {}) =>
  explain(cluster, { from, to, ...parsePort(port), ...more });

suite('an explanation', () => {
  test('names the policy, rule, peer and port that allow', () => {
    const { allowed, egress, ingress, from, to, port, problems } = ask('shop/web', 'shop/db', 'sql');
    assert.deepEqual([allowed, from.pod, to.address, port], [true, 'shop/web', '10.0.0.2', 5432]);
    assert.deepEqual(egress, {
      direction: 'egress',
      verdict: 'not isolated',
      words: 'No policy isolates shop/web for egress, so all is allowed.',
    });
    assert.deepEqual(ingress, {
      direction: 'ingress',
      verdict: 'allowed',
      policy: 'shop/db',
      field: 'spec.ingress[1]',
      peer: 0,
      port: 1,
      words:
        'Policy shop/db allows it by spec.ingress[1]: from pods with app=web in shop (from[0]), sql/TCP (ports[1]).',
    });
    // The port beside it is malformed, which is useful to know about this policy.
    assert.deepEqual(
      problems.map(({ policy, field }) => [policy, field]),
      [['shop/db', 'spec.ingress[1].ports[0].endPort']],
    );
  });

  test('names the closest rule, what it allows, and which part of it does not match', () => {
    const { allowed, ingress } = ask('shop/web', 'shop/db', '80/UDP');
    assert.equal(allowed, false);
    assert.equal(
      ingress.words,
      'Policy shop/db isolates shop/db for ingress, and none of its rules allow this. ' +
        'Closest rule: shop/db spec.ingress[1] allows traffic from shop/web, but only 5432-5400/TCP or sql/TCP, not 80/UDP.',
    );
    const block = ask('203.0.113.9', 'shop/db', '9095').ingress;
    assert.deepEqual([block.verdict, block.fits, block.port], ['refused', 'port', 0]);
    assert.match(
      block.words,
      /allows 9095\/TCP, but only from 203\.0\.113\.0\/24 except 203\.0\.113\.8\/29, not from 203\.0\.113\.9\.$/,
    );
    assert.equal(ask('203.0.113.7', 'shop/db', '9095').allowed, true);
  });

  test('asks both sides', () => {
    const { allowed, egress, ingress } = ask('other/web', 'shop/db', '5432');
    assert.deepEqual([allowed, egress.verdict, ingress.verdict], [false, 'refused', 'allowed']);
    assert.match(ingress.words, /from all pods in namespaces with team Exists \(from\[1\]\)/);
    assert.equal(
      egress.words,
      'Policy other/none isolates other/web for egress, and none of its rules allow this.',
    );
  });

  test('says of what passes in monitor mode that it would be refused, by which policies', () => {
    const annotations = { [monitorAnnotation]: 'true' };
    const policies = cluster.policies.map((one) => ({ ...one, metadata: { ...one.metadata, annotations } }));
    const question = { from: 'other/web', to: 'shop/db', protocol: 'UDP', port: 80 };
    const { allowed, wouldRefuse, egress, ingress } = explain({ ...cluster, policies }, question);
    assert.deepEqual(
      [allowed, wouldRefuse, egress.verdict, ingress.verdict, ingress.policies],
      [true, true, 'would-refuse', 'would-refuse', ['shop/db']],
    );
    assert.equal(
      ingress.words,
      'Policy shop/db isolates shop/db for ingress, and none of its rules allow this. The policy is in monitor mode, so this passes. ' +
        'Closest rule: shop/db spec.ingress[1] allows traffic from other/web, but only 5432-5400/TCP or sql/TCP, not 80/UDP.',
    );
    // Refused at the other end: it does not pass.
    const mixed = explain({ ...cluster, policies: [policies[0]!, cluster.policies[1]!] }, question);
    assert.deepEqual(
      [mixed.allowed, mixed.wouldRefuse, mixed.egress.verdict, mixed.ingress.verdict],
      [false, false, 'refused', 'would-refuse'],
    );
    const onNode = explain({ ...cluster, monitoringNodes: new Set(['one']) }, question);
    assert.deepEqual([onNode.allowed, onNode.wouldRefuse], [true, true]);
    assert.match(
      onNode.ingress.words,
      /none of its rules allow this\. Node one is in monitor mode, so this passes\./,
    );
    assert.equal(explain(cluster, { ...question, protocol: 'TCP', port: 5432 }).wouldRefuse, false);
    const [shop, other] = cluster.namespaces;
    const odd = { metadata: { ...shop!.metadata, annotations: { [monitorAnnotation]: 'on' } } };
    assert.deepEqual(
      explain({ ...cluster, namespaces: [odd, other!] }, question).warnings.map(
        ({ policy, field, message }) => `${policy} ${field}: ${message}`,
      ),
      ['shop/db metadata.annotations of Namespace shop: "on" does not count: only "true" is monitor mode.'],
    );
  });

  test('lets a node reach its own pods: by its address and by its pods, and no other node', () => {
    for (const [from, allowed] of [
      ['192.0.2.10', true],
      ['shop/host', true],
      ['192.0.2.11', false],
      ['other/host', false],
    ] as const) {
      const { ingress, fromOwnNode, allowed: found } = ask(from, 'shop/db', '80');
      assert.deepEqual(
        [found, fromOwnNode, ingress.verdict === 'own node'],
        [allowed, allowed, allowed],
        from,
      );
    }
  });

  test('lets a pod reach itself', () => {
    const { allowed, ingress, egress } = ask('shop/db', 'shop/db', '80');
    assert.deepEqual([allowed, egress.verdict, ingress.verdict], [true, 'itself', 'itself']);
  });

  test('says that an address does not belong to a pod', () => {
    assert.equal(
      ask('shop/web', '198.51.100.1', '443').ingress.words,
      '198.51.100.1 does not belong to a pod, so no policy selects it.',
    );
  });

  test('refuses questions that it cannot answer', () => {
    for (const [from, to, port] of [
      ['shop/none', 'shop/db', '80'],
      ['shop/web', 'fd00::1', '80'],
      ['shop/web', 'shop/db', 'http'],
      ['shop/web', '198.51.100.1', 'sql'],
    ] as const) {
      assert.throws(() => ask(from, to, port), { code: errorCodes.INPUT }, `${from} ${to} ${port}`);
    }
  });
});

suite('questions on the command line', () => {
  test('ports', () => {
    assert.deepEqual(parsePort('80'), { protocol: 'TCP', port: 80 });
    assert.deepEqual(parsePort('53/udp'), { protocol: 'UDP', port: 53 });
    assert.deepEqual(parsePort('dns/SCTP'), { protocol: 'SCTP', port: 'dns' });
    assert.deepEqual(parsePort('icmp'), { protocol: 'ICMP', port: undefined });
    for (const bad of ['', '0', '65536', '80/', '80/ICMP', '80/TCP/x', '-1', 'a--', '/TCP']) {
      assert.throws(() => parsePort(bad), { code: errorCodes.INPUT }, bad);
    }
  });

  test('ends', () => {
    for (const good of ['shop/web', '10.0.0.1', 'fd00::1', '::ffff:1.2.3.4'])
      assert.equal(checkEnd('--from', good), good);
    for (const bad of ['', 'web', 'a/b/c', '/web', 'shop/', 'shop/ web']) {
      assert.throws(() => checkEnd('--from', bad), { code: errorCodes.INPUT }, bad);
    }
  });
});
