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

  test('what runs is shown by rampart bpf, in its order, and cleaned up when no agent holds it', async () => {
    await using machine = new BpfStandalone();
    cable('seen0', 'seen1');
    await machine.start();
    const globaldata = (verdict: number): string => `  globaldata:\n    xdp_verdict: [${verdict}, 0, 0, 0]\n`;
    machine.apply(xdp('second', 'seen0', globaldata(2)));
    machine.apply(xdp('first', 'seen0', '  proceedon: [pass]\n').replace('priority: 50', 'priority: 10'));
    for (const name of ['first', 'second']) {
      await machine.untilCondition('ReconcileSuccess', 'xdpprogram', name);
    }
    send('seen1', 30);
    const chain = machine.bpf('chain', 'seen0');
    assert.equal(chain.code, 0, chain.stderr);
    const [title, head, ...rows] = chain.stdout.split('\n').map((line) => line.replaceAll(/ +/g, ' '));
    assert.match(title ?? '', /^seen0, xdp, program \d+$/);
    assert.equal(head, 'PRIORITY ASKED FOR BY FUNCTION ID PROCEEDS ON RUNS');
    assert.match(rows[0] ?? '', /^10 XdpProgram\/first xdp_count \d+ pass 30$/);
    assert.match(rows[1] ?? '', /^50 XdpProgram\/second xdp_count \d+ pass dispatcher_return 30$/);
    const listed = JSON.parse(machine.bpf('list', '-o', 'json').stdout) as {
      programs: { owner: string; type: string; attachPoint: string; mapIds: number[] }[];
    };
    assert.deepEqual(
      listed.programs
        .map(({ owner, type, attachPoint }) => ({ owner, type, attachPoint }))
        .toSorted((a, b) => (a.owner < b.owner ? -1 : 1)),
      ['first', 'second'].map((name) => ({
        owner: `XdpProgram/${name}`,
        type: 'xdp',
        attachPoint: 'seen0',
      })),
    );
    const dumped = machine.bpf('map', 'dump', 'XdpProgram/first', 'packets', '-o', 'json');
    assert.deepEqual((JSON.parse(dumped.stdout) as { entries: unknown }).entries, [{ key: 0, value: 30 }]);
    assert.match(
      machine.bpf('map', 'dump', 'XdpProgram/first', 'nothing').stderr,
      /has no map nothing\. It has: .*packets/,
    );
    const stats = machine.bpf('stats', '-t', '0.1', '-o', 'json');
    const measured = JSON.parse(stats.stdout) as { programs: unknown[]; chains: unknown[] };
    assert.deepEqual([measured.programs.length, measured.chains.length], [2, 1]);
    const status = machine.rampart('status', '--data', machine.process.at('data'));
    assert.match(status.stdout, /All 2 eBPF programs run where they are asked for\./);

    const refused = machine.bpf('cleanup');
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /holds it/);
    await machine.process.stop('SIGKILL');
    const cleaned = machine.bpf('cleanup');
    assert.equal(cleaned.code, 0, cleaned.stderr);
    assert.match(cleaned.stdout, /removed program \d+ of XdpProgram\/first/);
    assert.deepEqual(machine.pinned(), []);
    assert.equal(machine.bpf('chain', 'seen0').code, 1);
    ip('link delete seen0');
  });

  test('a file is verified without anything being attached', async () => {
    await using machine = new BpfStandalone();
    const ran = machine.rampart('bpf', 'verify', countObject, '-o', 'json');
    assert.equal(ran.code, 0, ran.stderr);
    const { programs } = JSON.parse(ran.stdout) as {
      programs: { functionName: string; loads: boolean; type: string }[];
    };
    assert.deepEqual(
      programs.map(({ functionName, loads, type }) => [functionName, loads, type]),
      [
        ['xdp_count', true, 'xdp'],
        ['tc_count', true, 'tc'],
      ],
    );
    assert.match(machine.rampart('bpf', 'verify', '/etc/hostname').stderr, /hostname/);
  });
});
