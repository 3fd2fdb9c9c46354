// The rules for programs of namespaced kinds, from the object of a user to the kernel of this machine and back to its condition.
import assert from 'node:assert/strict';
import { after, before, beforeEach, suite, test } from 'node:test';

import { pods } from '../../../lib/kube/object/object.ts';
import { bytecode, Lab, obstacle } from '../kernel/lab.fixture.ts';
import { FixtureKernel } from '../program-host.fixture.ts';
import { BpfCluster } from './node.fixture.ts';
import { otherNetwork } from './pods.fixture.ts';

const pull = async () => ({ digest: 'sha256:tenant', bytes: async () => bytecode('tenant') });
const common = { nodeselector: {}, bytecode: { image: { url: 'registry.example/team/tenant:v1' } } };
const containers = { pods: {} };
const uprobe = { bpffunctionname: 'uprobe_kernel', func_name: 'getppid', target: 'libc' };
const xdp = { bpffunctionname: 'xdp_kconfig', interfaceselector: { interfaces: ['lo'] }, priority: 50 };
const refused =
  /NotLoaded: uprobe_kernel of sha256:tenant: The program uses bpf_probe_read_kernel, .*\(helper_not_allowed\)\. .*--bpf-tenant-helpers bpf_probe_read_kernel\./;

suite('the rules for namespaced kinds, in conditions', { skip: obstacle() ?? false }, () => {
  let cluster: BpfCluster;
  before(async () => void (cluster = await BpfCluster.start()));
  beforeEach(() => cluster.clear({ pull }));
  after(() => cluster[Symbol.asyncDispose]());

  /** A node with the kernel of this machine, and a pod in `acme`. */
  async function start(stack: AsyncDisposableStack): Promise<Lab> {
    const lab = stack.use(new Lab());
    const pid = await otherNetwork(stack);
    await cluster.addNode('n1');
    const pod = await cluster.client.create(pods, {
      metadata: { namespace: 'acme', name: 'web' },
      spec: { nodeName: 'n1', containers: [{ name: 'app', image: 'registry.example/x' }] },
    });
    // No process of a test is in a cgroup that names its container.
    const id = 'containerd://';
    const of = { podName: 'web', podNamespace: 'acme', podUid: pod.metadata.uid ?? '', podIp: '10.0.0.1' };
    cluster.containers.set(id, { id, name: 'app', pid, root: `/proc/${pid}/root`, ...of });
    cluster.containers.answer();
    return lab;
  }

  test('a program, and one of an application, say what was refused; others run', async () => {
    await using stack = new AsyncDisposableStack();
    const lab = await start(stack);
    stack.use(cluster.operator());
    stack.use(cluster.agent('n1', new FixtureKernel(), () => lab.host()));
    await cluster.create('UprobeNsProgram', 'reader', { ...common, ...uprobe, containers }, 'acme');
    const programs = [
      { type: 'Uprobe', uprobe: { ...uprobe, containers } },
      { type: 'XDP', xdp: { ...xdp, containers } },
    ];
    await cluster.create('BpfNsApplication', 'reader', { ...common, programs }, 'acme');
    await cluster.create('XdpNsProgram', 'fits', { ...common, ...xdp, containers }, 'acme');
    for (const kind of ['UprobeNsProgram', 'BpfNsApplication'])
      await cluster.untilCondition(kind, 'reader', 'ReconcileError', 'acme', refused);
    await cluster.untilCondition('XdpNsProgram', 'fits', 'ReconcileSuccess', 'acme');
    const conditions = (await cluster.objects('Namespaced')).map(
      ({ status }) => status?.conditions?.[0]?.reason,
    );
    assert.deepEqual(
      conditions.toSorted((one = '', other = '') => (one < other ? -1 : 1)),
      [...['bpfmanLoaded', 'bpfmanLoaded', 'bpfmanNotLoaded', 'bpfmanNotLoaded']],
    );
  });
});
