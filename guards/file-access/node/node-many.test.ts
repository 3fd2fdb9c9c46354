// Many containers: that it holds, and that nothing waits for a pace meant for few.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { scaled } from '../../../lib/testing/depth.fixture.ts';
import { createMetrics } from '../../../lib/telemetry/metrics.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { shareMetrics } from '../../../lib/kube/controller/shared-metrics.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { alertOf, TestCluster } from './node.fixture.ts';

const PODS = scaled(40);
const names = ['c0', 'c1', 'c2', 'c3', 'c4'];
const paths = ['/secret.txt', '/etc/shadow', '/etc/late'];
const CONTAINERS = PODS * names.length;
const FILES = CONTAINERS * paths.length;

suite('many containers', { skip: sensorSkip }, () => {
  test(`${CONTAINERS} containers and three traps: each file has its KiveData, and its alert`, async (t) => {
    await using cluster = await TestCluster.start();
    cluster.startOperator();
    const metrics = await createMetrics();
    const node = await cluster.startNode('n1', { metrics: shareMetrics(metrics) });
    await until('a loader', () => node.state()?.isLoader);
    const files = { 'secret.txt': 'secret', 'etc/shadow': 'root' };
    const pods = await Promise.all(
      Array.from({ length: PODS }, (_, number) =>
        cluster.createPod(node, { name: `pod-${number}`, ip: `10.0.0.${number}`, containers: names, files }),
      ),
    );
    const containers = pods.flat();
    const beganMs = performance.now();
    await cluster.createPolicy(
      'p',
      ...paths.map((path) => ({ path, create: path === '/etc/late', matchAny: [{ containerName: 'c.*' }] })),
    );
    const scrape = (): string => metrics.registry.metrics();
    await until('all to be watched', () => scrape().includes(`\nrampart_file_access_watched ${FILES}\n`));
    const watchedMs = performance.now() - beganMs;
    await cluster.dataCount(containers.length * paths.length);
    const inApiMs = performance.now() - beganMs;
    t.diagnostic(`watched after ${Math.round(watchedMs)} ms, in the API after ${Math.round(inApiMs)} ms`);
    const some = [containers[0], containers[CONTAINERS / 2 - 1], containers.at(-1)];
    for (const container of some) {
      assert.ok(container);
      for (const path of paths) {
        await alertOf(
          node,
          join(container.root, path),
          ({ pod, metadata }) => pod.container.id === container.id && metadata.path === path,
        );
      }
    }
    const text = scrape();
    const alerts = Number(/^rampart_file_access_alerts_total (\d+)$/m.exec(text)?.[1]);
    assert.equal(alerts, node.lines.length);
    assert.match(
      text,
      new RegExp(`^rampart_file_access_latency_seconds_bucket\\{le="\\+Inf"\\} ${alerts}$`, 'm'),
    );
    assert.match(text, /^rampart_file_access_lost_total\{reason="ring_full"\} 0$/m);
    assert.match(text, /^rampart_file_access_loader 1$/m);
    assert.match(text, new RegExp(`^rampart_file_access_containers ${CONTAINERS}$`, 'm'));
    assert.match(
      text,
      /^rampart_reconciles_total\{controller="file-access-discover",outcome="done"\} [1-9]/m,
    );
    await until('the status', async () => (await cluster.getPolicy('p'))?.status?.watchedFiles === FILES);
    await cluster.deletePolicy('p');
    await cluster.dataCount(0);
    assert.match(scrape(), /^rampart_file_access_targets 0$/m);
  });
});
