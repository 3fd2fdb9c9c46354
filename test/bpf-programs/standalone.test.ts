import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';

import { until } from '../../shared/observe/until.fixture.ts';
import { cable, ip, obstacle, ownNetwork, send } from '../../systems/bpf-programs/kernel/lab.fixture.ts';
import { countObject } from '../../systems/bpf-programs/image.fixture.ts';
import { BpfStandalone } from './standalone.fixture.ts';

const xdp = (name: string, interfaceName: string, more = ''): string => `
apiVersion: bpfman.io/v1alpha1
kind: XdpProgram
metadata:
  name: ${name}
spec:
  bpffunctionname: xdp_count
  nodeselector: {}
  interfaceselector:
    interfaces: [${interfaceName}]
  priority: 50
  bytecode:
    path: ${countObject}
${more}`;

suite('standalone with eBPF programs on the kernel of this machine', { skip: obstacle() ?? false }, () => {
  before(() => ownNetwork());

  test('an XdpProgram counts each packet, over a kill of the agent too, and nothing is left of it', async () => {
    await using machine = new BpfStandalone();
    cable('count0', 'count1');
    await machine.start();
    const applied = machine.apply(xdp('count', 'count0'));
    assert.equal(applied.code, 0, applied.stderr);
    assert.equal(
      await machine.untilCondition('ReconcileSuccess', 'xdpprogram', 'count'),
      '1 program runs on lab.',
    );
    const id = machine.objectOf('count');
    send('count1', 100);
    assert.equal(machine.counted(id), 100);
    const programId = (): string =>
      machine.process.kubectl(
        'get',
        'bpfprogram',
        id,
        '-o',
        'jsonpath={.metadata.annotations.bpfman\\.io/ProgramId}',
      ).stdout;
    const firstId = programId();

    await machine.process.stop('SIGKILL');
    send('count1', 50);
    assert.equal(machine.counted(id), 150);
    await machine.start();
    await machine.untilCondition('ReconcileSuccess', 'xdpprogram', 'count');
    assert.equal(programId(), firstId);
    send('count1', 50);
    assert.equal(machine.counted(id), 200);

    assert.equal(machine.process.kubectl('delete', 'xdpprogram', 'count', '--timeout=60s').code, 0);
    await until(() => machine.pinned().every((path) => !path.includes('count')));
    assert.equal(machine.process.kubectl('get', 'bpfprograms', '-o', 'name').stdout, '');
    ip('link delete count0');
  });

  test('an interface that comes later gets its program, and one that goes takes none with it', async () => {
    await using machine = new BpfStandalone();
    cable('here0', 'here1');
    await machine.start();
    machine.apply(xdp('late', 'late0'));
    machine.apply(xdp('here', 'here0'));
    await machine.untilCondition('ReconcileSuccess', 'xdpprogram', 'here');
    const text = await machine.untilCondition('ReconcileError', 'xdpprogram', 'late');
    assert.match(
      text,
      /NotLoaded: xdp_count of sha256:[0-9a-f]{64}: There is no interface late0 on this node/,
    );
    cable('late0', 'late1');
    await machine.untilCondition('ReconcileSuccess', 'xdpprogram', 'late');
    send('late1', 10);
    assert.equal(machine.counted(machine.objectOf('late')), 10);
    assert.equal(machine.process.kubectl('delete', 'xdpprogram', 'late', 'here', '--timeout=60s').code, 0);
    for (const name of ['late0', 'here0']) ip(`link delete ${name}`);
  });
});
