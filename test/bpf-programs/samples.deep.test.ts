// bpfman-operator's own samples, as kubectl applies them: images of their names in a mirror, pods of their labels, this kernel.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { before, suite, test } from 'node:test';

import { stringify } from 'yaml';

import { probeFeatures } from '../../lib/ebpf/features/features.ts';
import { RegistryFixture } from '../../lib/oci/registry.fixture.ts';
import { bytecodeImage, countObject } from '../../guards/bpf-programs/image.fixture.ts';
import { cable, ip, ownNetwork } from '../../guards/bpf-programs/kernel/lab.fixture.ts';
import { samples } from '../../guards/bpf-programs/samples.fixture.ts';
import type { ContainerSpec } from '../lab/pod-config.ts';
import { startLab } from '../lab/lab.ts';
import { labObstacle } from '../lab/obstacle.ts';
import { BpfStandalone } from './standalone.fixture.ts';

const LIBRARIES = ['/lib/x86_64-linux-gnu', '/lib/aarch64-linux-gnu'].filter((path) => existsSync(path));

/** Programs by image, with their types. */
const images: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'go-app-counter': {
    kprobe_counter: 'kprobe',
    tracepoint_kill_recorder: 'tracepoint',
    stats: 'tc',
    tcx_stats: 'tcx',
    uprobe_counter: 'uprobe',
    xdp_stats: 'xdp',
  },
  fentry: { test_fentry: 'fentry' },
  fexit: { test_fexit: 'fexit' },
  kprobe: { my_kprobe: 'kprobe' },
  kprobe_globals: { kprobe_globals: 'kprobe' },
  tracepoint: { enter_openat: 'tracepoint' },
  tc_pass: { pass: 'tc' },
  tcx_test: { tcx_next: 'tcx', tcx_pass: 'tcx' },
  uprobe: { my_uprobe: 'uprobe' },
  xdp_pass: { pass: 'xdp' },
  'go-xdp-counter': { stats: 'xdp' },
};
/** Images with the XDP programs whose names others have for TC. */
const xdpImages = new Set(['xdp_pass', 'go-xdp-counter']);

/** Condition of the parent, and what it says; of what this kernel may refuse, what else. */
interface Expected {
  readonly type: string;
  readonly says: RegExp;
}

const runs = (count: number): Expected => ({
  type: 'ReconcileSuccess',
  says: new RegExp(`^${count} programs? runs? on lab\\.$`),
});

/** Keyed by kind and name. */
function expectations(): ReadonlyMap<string, Expected> {
  const { attach } = probeFeatures(['fentry', 'fexit', 'kprobe', 'tcx']);
  const unless = (available: boolean, of: Expected, says: RegExp): Expected =>
    available ? of : { type: 'ReconcileError', says };
  const noTcx = /TCX/;
  const tcx = (count: number): Expected => unless(attach.tcx.available, runs(count), noTcx);
  const kprobe = unless(attach.kprobe.available, runs(1), /NotLoaded.*kprobe/is);
  return new Map(
    Object.entries({
      'BpfApplication/bpfapplication-sample': unless(
        attach.kprobe.available && attach.tcx.available,
        runs(7),
        /NotLoaded.*kprobe/is,
      ),
      'BpfApplication/bpfapp-containers': tcx(6),
      'BpfNsApplication/bpfapplication-sample': tcx(4),
      'FentryProgram/fentry-example': unless(attach.fentry.available, runs(1), /NotLoaded.*fentry/is),
      'FexitProgram/fexit-example': unless(attach.fexit.available, runs(1), /NotLoaded.*fexit/is),
      'KprobeProgram/kprobe-example': kprobe,
      'KprobeProgram/kprobe-globals-test': kprobe,
      'TracepointProgram/tracepoint-example': runs(1),
      'TcProgram/tc-pass-all-nodes': runs(1),
      'TcProgram/tc-containers': runs(2),
      'TcNsProgram/tc-containers': runs(1),
      'TcxProgram/tcx-pass-all-nodes': tcx(1),
      'TcxProgram/tcx-containers': tcx(2),
      'TcxNsProgram/tcx-containers': tcx(1),
      'UprobeProgram/uprobe-example': runs(1),
      'UprobeProgram/uprobe-example-containers': runs(2),
      'UprobeProgram/uprobe-example-containers-all': runs(4),
      'UprobeProgram/uprobe-example-nginx': runs(1),
      'UprobeNsProgram/uprobe-example': runs(1),
      'XdpProgram/xdp-pass-all-nodes': runs(1),
      'XdpProgram/go-counter-example': runs(1),
      'XdpProgram/xdp-containers': runs(2),
      'XdpProgram/xdp-pass-private-all-nodes': {
        type: 'ReconcileError',
        says: /imagepullsecret: there is no Secret bpfman\/regcred\. Create it:/,
      },
      'XdpNsProgram/xdp-ns-pass-all-nodes': runs(1),
    }),
  );
}

suite('the samples of bpfman-operator', { skip: labObstacle() ?? false, timeout: 300_000 }, () => {
  before(async () => {
    await RegistryFixture.fetch();
    ownNetwork();
    cable('eth0', 'wire0'); // As on most nodes: the interface has the name of those in pods.
    ip('addr add 192.0.2.1/24 dev eth0', 'route add default via 192.0.2.2 dev eth0');
  });

  test('all run, or say why this kernel does not run them, and nothing is left when they are deleted', async () => {
    await using stack = new AsyncDisposableStack();
    const registry = stack.use(await RegistryFixture.start());
    for (const [name, programs] of Object.entries(images)) {
      const object = countObject.replace(
        'count.bpf',
        xdpImages.has(name) ? 'samples_xdp.bpf' : 'samples.bpf',
      );
      await registry.push(`bpfman-bytecode/${name}`, 'v0.5.5', bytecodeImage(object, programs));
    }
    const lab = stack.use(await startLab());
    // The image of the lab has no library of its own.
    const mounts = LIBRARIES.map((path) => ({ containerPath: path, hostPath: path, readonly: true }));
    const sleeping = (name: string): ContainerSpec => ({ name, command: ['sleep', '1000'], mounts });
    await lab.runPod({
      ...{ name: 'web', namespace: 'acme', labels: { app: 'nginx' } },
      containers: [sleeping('nginx')],
    });
    await lab.runPod({ name: 'nginx', namespace: 'default', containers: [sleeping('nginx')] });
    await lab.runPod({
      ...{ name: 'daemon', namespace: 'bpfman', labels: { name: 'bpfman-daemon' } },
      containers: [sleeping('bpfman'), sleeping('bpfman-agent')],
    });
    const machine = stack.use(new BpfStandalone());
    machine.process.write(
      'registries.conf',
      `[[registry]]\nprefix = "quay.io"\nlocation = "quay.io"\n[[registry.mirror]]\nlocation = "${registry.host}"\ninsecure = true\n`,
    );
    await machine.start(
      ...['--cri-socket', lab.socketPath, '--bpfman-api', 'v0.5'],
      ...['--bpf-registries', machine.process.at('registries.conf')],
    );
    for (const namespace of ['acme', 'bpfman'])
      await machine.process.kubectlUntil(['get', 'namespace', namespace], ({ code }) => code === 0);
    const applied = machine.apply(samples.map((sample) => stringify(sample)).join('---\n'));
    assert.equal(applied.code, 0, applied.stderr);
    const expected = expectations();
    assert.equal(expected.size, samples.length);
    for (const { kind, metadata } of samples) {
      const id = `${kind}/${metadata.name}`;
      const { type, says } = expected.get(id) ?? { type: '', says: /$^/ };
      const namespace = metadata.namespace === undefined ? [] : ['-n', metadata.namespace];
      const text = await machine
        .untilCondition(type, ...namespace, kind.toLowerCase(), metadata.name)
        .catch((error: unknown) => {
          throw new Error(`${id} is not ${type}`, { cause: error });
        });
      assert.match(text, says, id);
    }
    const deleted = machine.process.kubectl(
      'delete',
      '--timeout=60s',
      '-f',
      machine.process.at('applied.yaml'),
    );
    assert.equal(deleted.code, 0, deleted.stderr);
    assert.match((await machine.bpf('list')).stdout, /^No eBPF programs/);
  });
});
