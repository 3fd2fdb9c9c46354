import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes } from '../../../lib/errors/errors.ts';
import type { Question } from './explanation.ts';
import { parseServiceName, type Services, serviceTarget } from './service.ts';

const pod = (key: string, ip: string, nodeName: string, six: string) => {
  const [namespace = '', name = ''] = key.split('/');
  return {
    metadata: { namespace, name },
    spec: { nodeName },
    status: {
      podIP: ip,
      podIPs: [{ ip }, { ip: six }],
      hostIP: nodeName === 'one' ? '192.0.2.1' : '192.0.2.2',
    },
  };
};
const pods = [
  pod('shop/web', '10.0.0.1', 'one', 'fd00::1'),
  pod('shop/db-0', '10.0.0.2', 'one', 'fd00::2'),
  pod('shop/db-1', '10.0.1.3', 'two', 'fd00::3'),
];
const slice = (addressType: string, addresses: readonly string[]) => ({
  metadata: { namespace: 'shop', labels: { 'kubernetes.io/service-name': 'db' } },
  addressType,
  ports: [
    { name: 'sql', protocol: 'TCP', port: 15_432 },
    { name: 'metrics', protocol: 'TCP', port: 9090 },
  ],
  endpoints: [
    ...addresses.map((address, at) => ({ addresses: [address], nodeName: at === 0 ? 'one' : 'two' })),
    { addresses: ['10.0.1.99'], conditions: { ready: false } },
  ],
});
const services = (more: object = {}): Services => ({
  services: [
    {
      metadata: { namespace: 'shop', name: 'db' },
      spec: {
        clusterIP: '10.96.0.10',
        clusterIPs: ['10.96.0.10', 'fd96::10'],
        externalIPs: ['198.51.100.7'],
        ports: [
          { name: 'sql', port: 5432, nodePort: 30_432 },
          { name: 'metrics', port: 80, protocol: 'TCP' },
        ],
        ...more,
      },
      status: { loadBalancer: { ingress: [{ ip: '198.51.100.8' }] } },
    },
  ],
  slices: [slice('IPv4', ['10.0.0.2', '10.0.1.3']), slice('IPv6', ['fd00::2', 'fd00::3'])],
});

function ask(to: string, port: number | string, more: Partial<Question> = {}, of = services()) {
  const target = serviceTarget(of, pods, { from: 'shop/web', to, protocol: 'TCP', port, ...more }, 'shop');
  return (
    target && [
      target.service,
      target.port,
      ...target.questions.map((one) => `${one.from} > ${one.to} ${one.port} IPv${one.family}`),
    ]
  );
}

const four = ['shop/web > 10.0.0.2 15432 IPv4', 'shop/web > 10.0.1.3 15432 IPv4'];

suite('the endpoints of a Service', () => {
  test('by each of its names and addresses, and by the number and the name of its port', () => {
    const all = [
      'svc/db',
      'svc/shop/db',
      'service/db',
      'db.shop.svc',
      'db.shop.svc.cluster.local.',
      '10.96.0.10',
    ];
    for (const to of [...all, '198.51.100.7', '198.51.100.8']) {
      assert.deepEqual(ask(to, 5432), ['shop/db', '5432/TCP', ...four], to);
    }
    assert.deepEqual(ask('svc/db', 'sql'), ['shop/db', '5432/TCP', ...four]);
    assert.equal(ask('svc/db', 'metrics')?.[2], 'shop/web > 10.0.0.2 9090 IPv4');
  });

  test('has the family of its address, or one of the source', () => {
    const six = ['shop/web > fd00::2 15432 IPv6', 'shop/web > fd00::3 15432 IPv6'];
    assert.deepEqual(ask('fd96::10', 5432)?.slice(2), six);
    assert.deepEqual(
      ask('svc/db', 5432, { from: '2001:db8::1' })?.slice(2),
      six.map((line) => line.replace('shop/web', '2001:db8::1')),
    );
    // Headless.
    assert.deepEqual(
      ask('svc/db', 5432, {}, services({ clusterIP: 'None', clusterIPs: ['None'] }))?.slice(2),
      four,
    );
  });

  test('by a port of a node: from outside, the node sends to another node in its own name', () => {
    assert.deepEqual(ask('192.0.2.1', 30_432)?.slice(2), four);
    assert.deepEqual(ask('192.0.2.1', 30_432, { from: '203.0.113.1' })?.slice(2), [
      '203.0.113.1 > 10.0.0.2 15432 IPv4',
      '192.0.2.1 > 10.0.1.3 15432 IPv4',
    ]);
    const local = services({ externalTrafficPolicy: 'Local' });
    assert.deepEqual(ask('192.0.2.2', 30_432, { from: '203.0.113.1' }, local)?.slice(2), [
      '203.0.113.1 > 10.0.1.3 15432 IPv4',
    ]);
  });

  test('an address that is not a Service has none', () => {
    for (const to of ['shop/db-0', '10.0.0.2', '203.0.113.1', '192.0.2.1'])
      assert.equal(ask(to, 5432), undefined, to);
  });

  test('fails without such a Service, such a port, or a ready endpoint', () => {
    const wrong: readonly (readonly [string, number | string, Services, RegExp])[] = [
      ['svc/none', 5432, services(), /there is no Service shop\/none/],
      ['10.96.0.10', 81, services(), /has no port 81\/TCP: it has 5432\/TCP \(sql\), 80\/TCP \(metrics\)/],
      [
        'svc/db',
        5432,
        { ...services(), slices: [] },
        /leads nowhere: it has no endpoint for 5432\/TCP that is ready/,
      ],
    ];
    for (const [to, port, of, message] of wrong)
      assert.throws(() => ask(to, port, {}, of), { code: errorCodes.INPUT, message });
  });

  test('names', () => {
    assert.deepEqual(parseServiceName('svc/db', 'x'), { namespace: 'x', name: 'db' });
    for (const other of ['db', 'shop/db', 'db.shop', 'db-0.db.shop.svc', 'svc/', 'svc/a/b/c', '10.0.0.1'])
      assert.equal(parseServiceName(other, 'x'), undefined, other);
  });
});
