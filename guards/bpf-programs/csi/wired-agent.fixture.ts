/**
 * The node part of this guard with `--bpf-csi`, as an agent runs it: its driver is registered, a volume has the maps of a program that the
 * part has loaded, and those of the next version once that runs. The first process of namespaces of its own, since volumes are mounted
 * where process 1 is: nothing stays behind.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { runGivenNode } from '../../../guard/part.fixture.ts';
import { Health } from '../../../lib/telemetry/health.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { bpfPrograms } from '../guard.ts';
import { bytecode, cable, ip, Lab, send } from '../kernel/lab.fixture.ts';
import { defaultTenantRules } from '../kernel/tenant/rules.ts';
import { BpfCluster } from '../node/node.fixture.ts';
import { bpfProgramsNode } from '../node/run.ts';
import { FixtureKubelet } from './kubelet.fixture.ts';
import { idOf, read } from './pod.fixture.ts';

assert.equal(process.pid, 1);
ip('link set lo up');
cable('in0', 'out0');
await using lab = new Lab();
await using cluster = await BpfCluster.start();
const kubelet = new FixtureKubelet(join(lab.directory, 'kubelet'));
const [health, stop] = [new Health(), new AbortController()];
const options = {
  ...{ bpffs: lab.bpffs, bpfState: lab.state, bpfInsecureRegistry: [], tenants: defaultTenantRules },
  csi: { kubeletDirectory: kubelet.directory, clusterNamespaces: ['monitoring'] },
};
const running = runGivenNode(bpfPrograms, (context) => bpfProgramsNode(context, options), {
  ...{ client: cluster.client, signal: stop.signal, logger: createLogger({ level: 'silent' }), health },
  ...{ nodeName: 'n1', containers: cluster.containers, directory: join(lab.directory, 'bpf') },
});
await using ending = new AsyncDisposableStack();
ending.defer(async () => {
  stop.abort();
  await running;
});
await cluster.addNode('n1');
using _operator = cluster.operator();
const object = join(lab.directory, 'object.bpf.o');
writeFileSync(object, bytecode('maps'));
await cluster.create('XdpProgram', 'count', {
  ...{ nodeselector: {}, bpffunctionname: 'xdp_write', bytecode: { path: object }, priority: 50 },
  interfaceselector: { interfaces: ['in0'] },
});
await cluster.untilCondition('XdpProgram', 'count', 'ReconcileSuccess');

await kubelet.register(existsSync);
await until('readiness', () => health.notReady(['bpf-programs-node-csi']) === undefined);
await assert.rejects(kubelet.publish({ program: 'count', maps: 'table' }), /--bpf-csi-namespaces/);
const target = await kubelet.publish({ program: 'count', maps: 'table', namespace: 'monitoring' });
send('out0', 7);
const map = join(target, 'table');
assert.equal(read(map), 7);

const first = idOf(map);
writeFileSync(object, bytecode('maps_changed'));
// With the next pass; files alone are looked at every few seconds.
await cluster.change('XdpProgram', 'count', { priority: 51 });
await until('the maps of the next version', () => idOf(map) !== first);
await kubelet.unpublish();
await ending.disposeAsync();
assert.deepEqual(readdirSync(join(kubelet.directory, 'plugins_registry')), []);
