// Applications of bpfman v0.6 on the kernel of this machine: `rampart standalone`, kubectl, packets.
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { cable, ip, obstacle, ownNetwork, send } from '../../guards/bpf-programs/kernel/lab.fixture.ts';
import { countObject } from '../../guards/bpf-programs/image.fixture.ts';
import { BpfStandalone } from './standalone.fixture.ts';

const application = (name: string, programs: string): string => `
apiVersion: bpfman.io/v1alpha1
kind: ClusterBpfApplication
metadata: { name: ${name} }
spec:
  nodeSelector: {}
  byteCode: { path: ${countObject} }
  programs:
${programs}`;

suite('applications of bpfman v0.6 on the kernel of this machine', { skip: obstacle() ?? false }, () => {
  let machine: BpfStandalone;
  before(async () => {
    ownNetwork();
    machine = new BpfStandalone();
    await machine.start();
  });
  after(() => machine[Symbol.asyncDispose]());

  test('an application counts the packets of its link, and nothing is left of it', async () => {
    cable('count0', 'count1');
    const applied = machine.apply(
      application(
        'count',
        `  - { name: xdp_count, type: XDP, xdp: { links: [{ interfaceSelector: { interfaces: [count0] } }] } }`,
      ),
    );
    assert.equal(applied.code, 0, applied.stderr);
    assert.equal(
      await machine.untilCondition('Success', 'clusterbpfapplication', 'count'),
      '1 program is loaded and 1 link is attached on lab.',
    );
    send('count1', 100);
    const dumped = await machine.bpf('map', 'dump', 'ClusterBpfApplication/count', 'packets', '-o', 'json');
    assert.deepEqual((JSON.parse(dumped.stdout) as { entries: unknown }).entries, [{ key: 0, value: 100 }]);
    const deleted = machine.process.kubectl('delete', 'clusterbpfapplication', 'count', '--timeout=60s');
    assert.equal(deleted.code, 0, deleted.stderr);
    assert.equal(machine.process.kubectl('get', 'clusterbpfapplicationstates', '-o', 'name').stdout, '');
    assert.match((await machine.bpf('list')).stdout, /^No eBPF programs/);
    ip('link delete count0');
  });
});
