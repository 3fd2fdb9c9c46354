import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { before, suite, test } from 'node:test';

import { scaled } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { countObject } from '../image.fixture.ts';
import { cable, ip, Lab, obstacle, ownNetwork, send } from '../kernel/lab.fixture.ts';
import { BpfCluster } from './node.fixture.ts';
import { FixtureKernel } from '../program-host.fixture.ts';

/** How often the agent looks without a notification. */
const LOOK_MS = 5_000;

suite('interfaces of the node while the agent runs', { skip: obstacle() ?? false }, () => {
  before(ownNetwork);

  test("a removed attachment is restored at the kernel's notice, and counted", async (t) => {
    await using stack = new AsyncDisposableStack();
    const lab = stack.use(new Lab());
    const cluster = stack.use(await BpfCluster.start());
    await cluster.addNode('n1');
    const host = await lab.host();
    let passes = 0;
    const counting = {
      ...{ verify: host.verify.bind(host), list: host.list.bind(host), remove: host.remove.bind(host) },
      apply: (...args: Parameters<typeof host.apply>) => {
        passes++;
        return host.apply(...args);
      },
      [Symbol.asyncDispose]: async () => undefined,
    };
    stack.use(cluster.agent('n1', new FixtureKernel(), async () => counting));
    cable('edge0', 'edge1');
    const spec = {
      ...{ nodeselector: {}, bytecode: { path: countObject }, priority: 50 },
      interfaceselector: { interfaces: ['edge0'] },
    };
    await cluster.create('XdpProgram', 'x', { ...spec, bpffunctionname: 'xdp_count' });
    await cluster.create('TcProgram', 't', { ...spec, bpffunctionname: 'tc_count', direction: 'ingress' });
    const ids = (
      await cluster.untilObjects(
        (objects) =>
          objects.length === 2 && objects.every(({ status }) => status?.conditions?.[0]?.type === 'Loaded'),
      )
    ).map(({ metadata }) => metadata.name ?? '');
    const count = (): number => Math.min(...ids.map((id) => lab.counted(id)));
    const taken: Readonly<Record<string, () => void>> = {
      'the interface': () => {
        ip('link del edge0');
        cable('edge0', 'edge1');
      },
      'its qdisc': () => void execFileSync('tc', ['qdisc', 'del', 'dev', 'edge0', 'clsact']),
      'its filters': () => void execFileSync('tc', ['filter', 'del', 'dev', 'edge0', 'ingress']),
    };
    const [passesBefore, beganMs] = [passes, performance.now()];
    let rounds = 0;
    for (const [what, take] of Object.entries(taken)) {
      const times: number[] = [];
      for (let round = scaled(30, 4); round > 0; round--) {
        take();
        const [had, takenMs] = [count(), performance.now()];
        await until(`${what} is back`, () => {
          send('edge1', 1);
          return count() > had;
        });
        times.push(performance.now() - takenMs);
        rounds++;
      }
      const slowest = Math.max(...times).toFixed(0);
      t.diagnostic(`${what}: back and counting within ${slowest} ms, ${times.length} times`);
    }
    // More often than time alone would have made it look.
    const byTime = 1 + (performance.now() - beganMs) / LOOK_MS;
    assert.ok(
      passes - passesBefore >= Math.min(rounds, byTime + rounds / 2),
      `${passes} in ${rounds} rounds`,
    );
  });
});
