import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { findInterface } from '../../../../lib/netlink/interface.ts';
import { RouteSocket } from '../../../../lib/netlink/route.ts';
import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { podName, sourceTableName as table } from '../../dataplane/nftables/names.ts';
import type { CheckedPod } from './source-rules.ts';
import { SourceTable } from './source-table.ts';
import { TakenAddresses } from './taken-addresses.ts';

class Scene implements Disposable {
  readonly namespace = new NetworkNamespace();
  readonly taken = new TakenAddresses();
  readonly table: SourceTable;

  constructor() {
    this.namespace.ip('link add one type veth peer name two');
    this.taken.change({ gone: [], come: ['10.1.0.10', '10.1.0.11', 'fd00:1::10'] });
    this.table = new SourceTable((work) => this.namespace.run(work), [100, 5], this.taken);
  }

  checked(name: string, address: string): CheckedPod {
    const index = this.namespace.run(() => {
      using socket = new RouteSocket();
      return findInterface(socket, name)?.index ?? assert.fail(name);
    });
    const mac = `02:00:00:00:00:0${index}`;
    const link = { index, name, isBridged: true, mac, linkLocal: ['fe80::1'] };
    const tunnels = { udpPorts: [4789], protocols: [4] };
    return { link, addresses: { 4: [address], 6: ['fd00:1::10', 'fe80::1'] }, tunnels, isIsolated: true };
  }

  /** Both pods, then another address for the second one. */
  program(): void {
    this.table.program(
      new Map([
        ['x/a', this.checked('one', '10.1.0.10')],
        ['x/b', this.checked('two', '10.1.0.11')],
      ]),
    );
    this.table.program(new Map([['x/b', this.checked('two', '10.1.0.12')]]));
  }

  get listing(): string {
    return this.namespace.nft(`list table ${table}`);
  }

  [Symbol.dispose](): void {
    this.table[Symbol.dispose]();
    this.namespace[Symbol.dispose]();
  }
}

const [a, b] = [podName('egress', 'x/a'), podName('egress', 'x/b')];

suite('the table that checks sources', { skip: namespaceObstacle() ?? false }, () => {
  const damages: Readonly<Record<string, string>> = {
    'a rule is added': `add rule ${table} ${a} accept`,
    'a rule is added to a chain that has changed': `insert rule ${table} ${b} accept`,
    'what refuses is gone': `flush chain ${table} refuse-${a}`,
    'what refuses is gone, of a chain that has changed': `flush chain ${table} refuse-${b}`,
    'a chain is moved': `delete chain ${table} ${b}\nadd chain ${table} ${b} { type filter hook ingress device "two" priority 5; policy accept; }`,
    'an address is added': `add element ${table} taken-4 { 10.1.0.99 }`,
    'an address is gone': `delete element ${table} taken-6 { fd00:1::10 }`,
    'a chain is added': `add chain ${table} mine`,
    'the table is gone': `delete table ${table}`,
  };
  for (const [name, damage] of Object.entries(damages)) {
    test(`is not intact: ${name}`, () => {
      using scene = new Scene();
      scene.program();
      scene.namespace.nft(damage);
      assert.equal(scene.table.isIntact(), false);
      scene.table.forget();
      scene.table.program(new Map());
      assert.ok(scene.table.isIntact());
    });
  }

  test('is intact after each change of our own', () => {
    using scene = new Scene();
    const { taken, table: sources } = scene;
    scene.program();
    assert.ok(sources.isIntact());
    assert.match(scene.listing, /10\.1\.0\.12/);
    // Addresses alone.
    taken.change({ gone: ['10.1.0.11', 'fd00:1::10'], come: ['10.1.0.13', 'fd00:1::13', 'fd00:1::14'] });
    sources.program(new Map());
    assert.match(scene.listing, /elements = \{ 10\.1\.0\.1[03], 10\.1\.0\.1[03] \}/);
    assert.match(scene.listing, /elements = \{ fd00:1::1[34],\s+fd00:1::1[34] \}/);
    assert.ok(sources.isIntact());
    taken.change({ gone: ['fd00:1::13'], come: [] });
    sources.program(new Map([['x/a', undefined]]));
    assert.ok(sources.isIntact());
    assert.doesNotMatch(scene.listing, new RegExp(a));
    assert.ok(sources.isIntact());
  });

  test('takes a pod with many and long link-local addresses', () => {
    using scene = new Scene();
    const linkLocal = [1, 2, 3, 4].map((last) => `febf:1111:2222:3333:4444:5555:6666:777${last}`);
    const pod = scene.checked('one', '10.1.0.10');
    const addresses = { ...pod.addresses, 6: [...pod.addresses[6], ...linkLocal] };
    scene.table.program(new Map([['x/a', { ...pod, addresses, link: { ...pod.link, linkLocal } }]]));
    assert.ok(scene.table.isIntact());
    const known = scene.table.adopted(['x/a']).get('x/a');
    assert.deepEqual([known?.mac, known?.linkLocal], [pod.link.mac, linkLocal.slice(0, 2)]);
  });

  test('is programmed again if another program has removed an address', () => {
    using scene = new Scene();
    const { taken, table: sources } = scene;
    scene.program();
    scene.namespace.nft(`delete element ${table} taken-4 { 10.1.0.11 }`);
    taken.change({ gone: ['10.1.0.11'], come: ['10.1.0.14'] });
    sources.program(new Map());
    assert.match(scene.listing, /elements = \{ 10\.1\.0\.1[04], 10\.1\.0\.1[04] \}/);
    assert.ok(sources.isIntact());
  });
});
