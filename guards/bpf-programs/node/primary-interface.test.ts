import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { Node } from '../../../lib/kube/object/object.ts';
import { cable, ip, obstacle, ownNetwork } from '../kernel/lab.fixture.ts';
import { primaryInterface } from './primary-interface.ts';

const node = (...addresses: readonly string[]): Node => ({
  metadata: { name: 'n1' },
  status: {
    addresses: [
      { type: 'Hostname', address: 'n1' },
      { type: 'ExternalIP', address: '203.0.113.1' },
      ...addresses.map((address) => ({ type: 'InternalIP', address })),
    ],
  },
});
const addresses = [
  { name: 'eth0', address: '203.0.113.1' },
  { name: 'eth1', address: '10.0.0.5' },
  { name: 'eth1', address: '2001:db8::5' },
  { name: 'eth2', address: '192.0.2.5' },
];

const cases: readonly [string, Node | undefined, string | undefined, string | undefined, RegExp][] = [
  [
    'the InternalIP counts, not the default route',
    node('10.0.0.5'),
    'eth0',
    'eth1',
    /has 10\.0\.0\.5, an InternalIP/,
  ],
  ['of either family', node('2001:db8::5'), 'eth0', 'eth1', /has 2001:db8::5/],
  [
    'the first that an interface has',
    node('10.9.9.9', '192.0.2.5', '10.0.0.5'),
    'eth0',
    'eth2',
    /192\.0\.2\.5/,
  ],
  ['of several, that of the default route', node('192.0.2.5', '10.0.0.5'), 'eth1', 'eth1', /10\.0\.0\.5/],
  [
    'no interface has it',
    node('10.9.9.9'),
    'eth0',
    'eth0',
    /has the default route: no interface .*10\.9\.9\.9/,
  ],
  ['the Node has none', node(), 'eth0', 'eth0', /has the default route: the Node has no InternalIP/],
  ['there is no Node', undefined, 'eth0', 'eth0', /no InternalIP/],
  ['there is neither', node('10.9.9.9'), undefined, undefined, /^/],
];
for (const [what, of, defaultRoute, name, why] of cases) {
  test(`the primary interface: ${what}`, () => {
    const found = primaryInterface(of, { addresses, defaultRoute });
    assert.equal(found?.name, name);
    assert.match(found?.why ?? '', why);
  });
}

suite('the primary interface of this machine', { skip: obstacle() ?? false }, () => {
  test('is found by addresses with a label, and by routes', () => {
    ownNetwork();
    cable('routed', 'far0');
    cable('internal', 'far1');
    ip(
      'address add 192.0.2.1/24 dev routed',
      'address add 198.51.100.1/24 dev internal label internal:1',
      'route add default via 192.0.2.2',
    );
    assert.equal(primaryInterface(node('198.51.100.1'))?.name, 'internal');
    assert.equal(primaryInterface(node('10.9.9.9'))?.name, 'routed');
    ip('link del routed', 'route add unreachable default');
    assert.equal(primaryInterface(node('10.9.9.9')), undefined);
  });
});
