// Programs of tenants in real pods: containerd, `rampart standalone`, kubectl, images in a registry.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { RegistryFixture } from '../../lib/oci/registry.fixture.ts';
import { bytecodeImage, countObject } from '../../guards/bpf-programs/image.fixture.ts';
import { type LabPod, startLab } from '../lab/lab.ts';
import { labObstacle } from '../lab/obstacle.ts';
import { entryOffset } from './entry-offset.fixture.ts';
import { BpfStandalone } from './standalone.fixture.ts';

const probesObject = countObject.replace('count.bpf.o', 'probes.bpf.o');
const tenantObject = countObject.replace('count.bpf.o', 'tenant.bpf.o');

const uprobe = (
  image: string,
  { name = 'begins', target = '/bin/busybox', app = 'web', calls = 'on_uprobe' } = {},
): string => `
apiVersion: bpfman.io/v1alpha1
kind: UprobeNsProgram
metadata: { name: ${name}, namespace: shop }
spec:
  bpffunctionname: ${calls}
  nodeselector: {}
  target: ${target}
  offset: ${entryOffset('/bin/busybox')}
  containers: { pods: { matchLabels: { app: ${app} } } }
  bytecode: { image: { url: '${image}' } }
`;

const xdp = (image: string): string => `
apiVersion: bpfman.io/v1alpha1
kind: XdpNsProgram
metadata: { name: packets, namespace: shop }
spec:
  bpffunctionname: xdp_count
  nodeselector: {}
  interfaceselector: { interfaces: [eth0] }
  priority: 50
  containers: { pods: { matchLabels: { app: web } } }
  bytecode: { image: { url: '${image}' } }
`;

/** As v0.6 has it: in the network of a pod once, and in each of its containers. */
const application = (name: string, image: string, programs: readonly object[]): string =>
  JSON.stringify({
    ...{ apiVersion: 'bpfman.io/v1alpha1', kind: 'BpfApplication', metadata: { name, namespace: 'shop' } },
    spec: { nodeSelector: {}, byteCode: { image: { url: image } }, programs },
  });
const ofWeb = { pods: { matchLabels: { app: 'web' } } };
const inNetwork = { interfaceSelector: { interfaces: ['eth0'] }, networkNamespaces: ofWeb };

interface Chains {
  readonly chains: readonly {
    readonly interface: string;
    readonly container?: string;
    readonly members: readonly { readonly runs: number }[];
  }[];
}

suite('eBPF programs of a namespace, in pods', { skip: labObstacle() ?? false, timeout: 240_000 }, () => {
  test('a tenant sees its own processes and packets, once, and nothing is left of a pod that goes', async () => {
    await using stack = new AsyncDisposableStack();
    const registry = stack.use(await RegistryFixture.start());
    const push = async (name: string, object: string, programs: Record<string, string>): Promise<string> =>
      (await registry.push(`team/${name}`, 'v1', bytecodeImage(object, programs))).reference;
    const probes = await push('probes', probesObject, { on_uprobe: 'uprobe' });
    const count = await push('count', countObject, { xdp_count: 'xdp' });
    const reading = await push('reader', tenantObject, { uprobe_kernel: 'uprobe' });
    const lab = stack.use(await startLab());
    const run = (namespace: string, containers: readonly string[]): Promise<LabPod> =>
      lab.runPod({
        ...{ name: 'web', namespace, labels: { app: 'web' } },
        containers: containers.map((name) => ({ name, command: ['sleep', '1000'] })),
      });
    const ours = await run('shop', ['app', 'log']);
    const theirs = await run('other', ['app']);
    const machine = stack.use(new BpfStandalone());
    const flags = ['--cri-socket', lab.socketPath, '--bpf-insecure-registry', registry.host];
    await machine.start(...flags);
    await machine.process.kubectlUntil(['get', 'namespace', 'shop'], ({ code }) => code === 0);
    for (const text of [uprobe(probes), xdp(count)]) {
      const applied = machine.apply(text);
      assert.equal(applied.code, 0, applied.stderr);
    }
    await machine.untilCondition('ReconcileSuccess', '-n', 'shop', 'uprobensprogram', 'begins');
    await machine.untilCondition('ReconcileSuccess', '-n', 'shop', 'xdpnsprogram', 'packets');

    const started = (): Record<string, number> => {
      const path =
        '{range .items[*]}{.metadata.name} {.metadata.annotations.bpfman\\.io/bpfProgramAttachPoint}{"\\n"}{end}';
      const selector = 'bpfman.io/ownedByProgram=begins';
      const listed = machine.process.kubectl(
        'get',
        'bpfnsprograms',
        '-n',
        'shop',
        '-l',
        selector,
        '-o',
        `jsonpath=${path}`,
      );
      return Object.fromEntries(
        listed.stdout.split('\n').map((line) => {
          const [name = '', point = ''] = line.split(' ');
          return [point, machine.counted(`shop/${name}`)];
        }),
      );
    };
    const begin = async (pod: LabPod, name: string, times: number): Promise<void> => {
      const container = pod.containers.get(name);
      assert.ok(container);
      const script = `for i in $(seq ${times}); do /bin/busybox true; done`;
      const { exitCode, stderr } = await lab.exec(container, ['/bin/busybox', 'sh', '-c', script]);
      assert.equal(exitCode, 0, stderr);
    };
    const before = started();
    assert.deepEqual(Object.keys(before).toSorted(), ['bin-busybox-web-app', 'bin-busybox-web-log']);
    // One program each time, and the shell; what seq is, the shell decides.
    await begin(ours, 'app', 20);
    const after = started();
    const more = (after['bin-busybox-web-app'] ?? 0) - (before['bin-busybox-web-app'] ?? 0);
    assert.ok(more === 21 || more === 22, `${more} of 21 or 22`);
    assert.equal(after['bin-busybox-web-log'], before['bin-busybox-web-log']);
    await begin(theirs, 'app', 20);
    assert.deepEqual(started(), after);

    const chains = async (): Promise<Chains> =>
      JSON.parse((await machine.bpf('chain', 'eth0', '-o', 'json')).stdout) as Chains;
    const [chain, ...others] = (await chains()).chains;
    assert.deepEqual([chain?.members.length, others.length, typeof chain?.container], [1, 0, 'string']);
    const runs = chain?.members[0]?.runs ?? 0;
    // The port has no listener, but the packets are seen.
    const ask = lab.spawn(['busybox', 'nc', '-w', '1', ours.ip, '9'], { stdio: 'ignore' });
    stack.defer(() => void ask.kill('SIGKILL'));
    await until('packets', async () => ((await chains()).chains[0]?.members[0]?.runs ?? 0) > runs);

    const net = async (pod: string): Promise<[number | null, string[]]> => {
      const ofPod = ['--pod', pod, '--cri-socket', lab.socketPath];
      const { code, stdout } = await machine.bpf('net', 'eth0', ...ofPod, '-o', 'json');
      const { programs } = JSON.parse(stdout) as { programs: { owners: string[] }[] };
      return [code, programs.flatMap(({ owners }) => owners)];
    };
    assert.deepEqual(await net('shop/web'), [0, ['XdpNsProgram/shop/packets']]);
    assert.deepEqual(await net('other/web'), [1, []]);

    for (const list of [['list'], ['map', 'list'], ['stats', '-t', '0.1']] as const)
      assert.match(
        (await machine.bpf(...list)).stdout.replaceAll(/\s+/g, ' '),
        / POD CONTAINER .* shop\/web app .*UprobeNsProgram\/shop\/begins/,
      );
    const packets = { name: 'xdp_count', type: 'XDP', xdp: { links: [{ ...inNetwork, priority: 60 }] } };
    const offset = entryOffset('/bin/busybox');
    const link = { target: '/bin/busybox', offset, containers: { ...ofWeb, containerNames: ['app'] } };
    machine.apply(application('packets', count, [packets]));
    machine.apply(
      application('begins', probes, [{ name: 'on_uprobe', type: 'UProbe', uprobe: { links: [link] } }]),
    );
    for (const name of ['packets', 'begins'])
      await machine.untilCondition('Success', '-n', 'shop', 'bpfapplication', name);
    const [both] = (await chains()).chains;
    assert.equal(both?.members.length, 2);
    assert.deepEqual((await net('shop/web'))[1].toSorted(), [
      'BpfApplication/shop/packets',
      'XdpNsProgram/shop/packets',
    ]);
    const ofApplication = async (name: string, map = 'packets'): Promise<number> => {
      const dumped = await machine.bpf('map', 'dump', `BpfApplication/shop/${name}`, map, '-o', 'json');
      assert.equal(dumped.code, 0, dumped.stderr);
      return (JSON.parse(dumped.stdout) as { entries: { value: number }[] }).entries[0]?.value ?? 0;
    };
    const ofApp = await ofApplication('begins');
    await begin(ours, 'log', 20);
    await begin(theirs, 'app', 20);
    assert.equal(await ofApplication('begins'), ofApp);
    await begin(ours, 'app', 20);
    assert.ok((await ofApplication('begins')) > ofApp + 20);
    // Without a pod they would stay loaded, as in bpfman, and attached to nothing.
    const applications = ['-n', 'shop', 'bpfapplication', 'packets', 'begins', '--timeout=60s'];
    assert.equal(machine.process.kubectl('delete', ...applications).code, 0);

    // A program that reads the kernel runs only while the agent allows it.
    const reader = ['-n', 'shop', 'uprobensprogram', 'reader'] as const;
    machine.apply(uprobe(reading, { name: 'reader', calls: 'uprobe_kernel' }));
    assert.match(await machine.untilCondition('ReconcileError', ...reader), /\(helper_not_allowed\)/);
    await machine.process.stop('SIGKILL');
    await machine.start(...flags, '--bpf-tenant-helpers', 'bpf_probe_read_kernel');
    await machine.untilCondition('ReconcileSuccess', ...reader);
    assert.match((await machine.bpf('list')).stdout, /UprobeNsProgram\/shop\/reader/);
    await machine.process.stop('SIGKILL');
    await machine.start(...flags);
    await machine.untilCondition('ReconcileError', ...reader);
    assert.doesNotMatch((await machine.bpf('list')).stdout, /UprobeNsProgram\/shop\/reader/);
    await machine.untilCondition('ReconcileSuccess', '-n', 'shop', 'uprobensprogram', 'begins');

    await lab.removePod(ours);
    await until(
      'nothing is left',
      async () => (await machine.bpf('list')).stdout.startsWith('No eBPF programs'),
      10_000,
    );
    await until('the condition', async () => {
      const text = await machine.untilCondition('NotYetLoaded', '-n', 'shop', 'uprobensprogram', 'begins');
      return text.startsWith(
        'Nothing to attach to: spec.containers selects no container on lab in a pod of namespace shop',
      );
    });
  });

  deepTest(
    'a pod with the processes of the node is gated by its cgroup or refused, and links lead to files of their container',
    async (t) => {
      await using stack = new AsyncDisposableStack();
      const registry = stack.use(await RegistryFixture.start());
      const image = bytecodeImage(probesObject, { on_uprobe: 'uprobe' });
      const { reference } = await registry.push('team/probes', 'v1', image);
      const lab = stack.use(await startLab());
      const run = (name: string, namespace: string, hostPid: boolean): Promise<LabPod> =>
        lab.runPod({
          ...{ name, namespace, hostPid, labels: { app: name } },
          containers: [{ name: 'app', command: ['sleep', '1000'] }],
        });
      const [node, linked, theirs] = [
        await run('node', 'shop', true),
        await run('linked', 'shop', false),
        await run('node', 'other', true),
      ];
      const shell = async (pod: LabPod, script: string): Promise<void> => {
        const container = pod.containers.get('app');
        assert.ok(container);
        const { exitCode, stderr } = await lab.exec(container, ['/bin/busybox', 'sh', '-c', script]);
        assert.equal(exitCode, 0, stderr);
      };
      // Only the container has what the link leads to; another file of the same path would be the agent's.
      await shell(
        linked,
        'mkdir -p /opt /srv && cp /bin/busybox /opt/busybox && ln -s /opt/busybox /srv/link',
      );
      const machine = stack.use(new BpfStandalone());
      await machine.start('--cri-socket', lab.socketPath, '--bpf-insecure-registry', registry.host);
      await machine.process.kubectlUntil(['get', 'namespace', 'shop'], ({ code }) => code === 0);
      for (const [name, target, app] of [
        ['node', '/bin/busybox', 'node'],
        ['linked', '/srv/link', 'linked'],
      ] as const) {
        const applied = machine.apply(uprobe(reference, { name, target, app }));
        assert.equal(applied.code, 0, applied.stderr);
      }
      const counted = (name: string): number => {
        const selector = `bpfman.io/ownedByProgram=${name}`;
        const of = [
          'get',
          'bpfnsprograms',
          '-n',
          'shop',
          '-l',
          selector,
          '-o',
          'jsonpath={.items[*].metadata.name}',
        ];
        return machine.counted(`shop/${machine.process.kubectl(...of).stdout}`);
      };
      const loop = (program: string): string => `for i in $(/bin/busybox seq 20); do ${program} true; done`;

      await machine.untilCondition('ReconcileSuccess', '-n', 'shop', 'uprobensprogram', 'linked');
      await shell(linked, loop('/opt/busybox'));
      assert.equal(counted('linked'), 20);

      const condition = [
        'get',
        '-n',
        'shop',
        'uprobensprogram',
        'node',
        '-o',
        'jsonpath={.status.conditions[*]}',
      ];
      const { stdout } = await machine.process.kubectlUntil(condition, ({ stdout: text }) =>
        /Reconcile(Success|Error)/.test(text),
      );
      t.diagnostic(`hostPID: ${/ReconcileSuccess/.test(stdout) ? 'gated by its cgroup' : 'refused'}`);
      if (!/ReconcileSuccess/.test(stdout)) {
        assert.match(stdout, /NotLoaded.*shares the node's PID namespace \(hostPID\)/);
        return;
      }
      await shell(theirs, loop('/bin/busybox'));
      assert.equal(counted('node'), 0);
      await shell(node, loop('/bin/busybox'));
      // The shell and seq.
      assert.equal(counted('node'), 22);
    },
  );
});
