import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { derivedAddress, matchInterfaces, type SeenInterface } from './pod-interfaces.ts';

const mac = (index: number): string => `02:00:00:00:00:0${index}`;
const seen = (index: number, ...addresses: readonly string[]): SeenInterface => ({
  ...{ index, name: `veth${index}`, isBridged: true, mac: mac(index) },
  addresses: new Set(addresses),
  linkLocal: addresses.filter((address) => address.startsWith('fe80')),
});
const pods = new Map([
  ['x/a', ['10.1.0.10', 'fd00:1::10']],
  ['x/b', ['10.1.0.11', 'fd00:1::11']],
]);
const indexes = (found: ReturnType<typeof matchInterfaces>): Record<string, number> =>
  Object.fromEntries([...found].map(([pod, { index }]) => [pod, index]));

suite('the interfaces of pods', () => {
  test('are those whose other end has an address of the pod', () => {
    const found = matchInterfaces(
      pods,
      [seen(1, '10.1.0.10'), seen(2, 'fd00:1::11'), seen(3, '10.9.0.1')],
      new Map(),
    );
    assert.deepEqual(indexes(found), { 'x/a': 1, 'x/b': 2 });
  });

  test('a pod that takes the address of another keeps its own interface, and the other one its own', () => {
    const found = matchInterfaces(pods, [seen(1, '10.1.0.10', '10.1.0.11'), seen(2, '10.1.0.11')], new Map());
    assert.deepEqual(indexes(found), { 'x/a': 1, 'x/b': 2 });
  });

  test('are unknown where two may be it', () => {
    const found = matchInterfaces(pods, [seen(1, '10.1.0.11'), seen(2, '10.1.0.11')], new Map());
    assert.deepEqual(indexes(found), {});
    const both = matchInterfaces(pods, [seen(1, '10.1.0.10', '10.1.0.11')], new Map());
    assert.deepEqual(indexes(both), {});
  });

  test('interfaces stay known while they exist, with their first MAC address, whatever their pod configures', () => {
    const before = matchInterfaces(pods, [seen(1, '10.1.0.10'), seen(2, '10.1.0.11')], new Map());
    const later = matchInterfaces(
      pods,
      [{ ...seen(1, '10.1.0.11'), mac: mac(2) }, seen(2, '10.1.0.10')],
      before,
    );
    assert.deepEqual(indexes(later), { 'x/a': 1, 'x/b': 2 });
    assert.equal(later.get('x/a')?.mac, mac(1));
    assert.deepEqual(indexes(matchInterfaces(pods, [seen(2, '10.1.0.11'), seen(3, '10.1.0.10')], before)), {
      'x/a': 3,
      'x/b': 2,
    });
  });

  test('a link-local address belongs to whose MAC address it has, else to who had it first', () => {
    const [own, other] = [derivedAddress(mac(2)), 'fe80::9'];
    assert.equal(own, 'fe80::ff:fe00:2');
    const linkLocal = (found: ReturnType<typeof matchInterfaces>) =>
      [...found].map(([, each]) => each.linkLocal);
    const first = matchInterfaces(
      pods,
      [seen(1, '10.1.0.10', own), seen(2, '10.1.0.11', own, other)],
      new Map(),
    );
    assert.deepEqual(linkLocal(first), [[derivedAddress(mac(1))], [other, own].toSorted()]);
    const later = matchInterfaces(pods, [seen(1, '10.1.0.10', other), seen(2, '10.1.0.11', other)], first);
    assert.deepEqual(linkLocal(later), [[derivedAddress(mac(1))], [other, own].toSorted()]);
  });

  test('a pod has a few link-local addresses, however many it adds: that of its MAC address and those it had before', () => {
    const added = Array.from({ length: 40 }, (_, at) => `fe80::${at + 1}`);
    const known = { index: 1, mac: mac(1), linkLocal: ['fe80::abc'] };
    const found = matchInterfaces(
      new Map([['x/a', ['10.1.0.10']]]),
      [seen(1, '10.1.0.10', ...added, 'fe80::abc')],
      new Map([['x/a', known]]),
    );
    const linkLocal = found.get('x/a')?.linkLocal ?? [];
    assert.equal(linkLocal.length, 4);
    assert.ok(linkLocal.includes(derivedAddress(mac(1))) && linkLocal.includes('fe80::abc'));
  });
});
