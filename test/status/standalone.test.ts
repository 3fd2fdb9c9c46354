// Green means guarded, for each guard, on one machine: by `rampart standalone`, which is killed and started again.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';

import { applyManifest } from '../../apps/agent/apply.fixture.ts';
import { Standalone } from '../../apps/standalone/standalone.fixture.ts';
import { Commands } from '../../apps/commands.fixture.ts';
import type { JsonReport } from '../../apps/status/found.fixture.ts';
import { cable, obstacle, ownNetwork } from '../../guards/bpf-programs/kernel/lab.fixture.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { isDeep } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { type Lab, startLab } from '../lab/lab.ts';
import { labObstacle } from '../lab/obstacle.ts';
import { node, objects } from './guarded-cluster.fixture.ts';

suite('rampart status of one machine', { skip: sensorSkip || labObstacle() || (obstacle() ?? false) }, () => {
  const commands = new Commands();
  let one: Standalone;
  let lab: Lab;
  before(async () => {
    ownNetwork();
    one = new Standalone();
    for (const name of ['bpffs', 'watched']) mkdirSync(one.at(name));
    execFileSync('mount', ['-t', 'bpf', 'bpf', one.at('bpffs')]);
    cable('status0', 'status1');
    lab = await startLab();
    await lab.runPod({ name: 'nginx-pod', namespace: 'default', labels: { 'security-level': 'high' } });
  });
  after(async () => {
    await one.stop('SIGKILL');
    await lab[Symbol.asyncDispose]();
    execFileSync('umount', [one.at('bpffs')]);
    await one[Symbol.asyncDispose]();
    await commands[Symbol.asyncDispose]();
  });

  const start = (): Promise<void> =>
    one.start(
      ...['--node-name', node, '--cri-socket', lab.socketPath],
      ...['--bpffs', one.at('bpffs'), '--bpf-state', one.at('bpf-state')],
    );

  async function status(): Promise<{ code: number | null; report: JsonReport; stderr: string }> {
    const { code, stdout, stderr } = await commands.run([
      'status',
      '--data',
      one.at('data'),
      '--format',
      'json',
    ]);
    return { code, report: JSON.parse(stdout) as JsonReport, stderr };
  }

  async function green(): Promise<void> {
    let reported = '';
    try {
      await until('all guarded', async () => {
        const { code, report } = await status();
        reported = JSON.stringify(report.problems);
        return (
          code === 0 && report.guards.every(({ state, objects: count }) => state === 'on' && count === 1)
        );
      });
    } catch (error) {
      throw new Error(`${reported}\n${one.stderr.slice(-2000)}`, { cause: error });
    }
  }

  test(`green while it runs; killed, each object is named at once, from the files of its API${isDeep ? '; green again' : ''}`, async () => {
    await start();
    await applyManifest(one.client, [
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kivebpf-system' } },
      {
        ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'conf', namespace: 'kivebpf-system' } },
        data: { 'aide.conf': `${one.at('watched')} p+s+sha256\n` },
      },
      ...Object.values(objects),
    ]);
    await green();
    await one.stop('SIGKILL');
    const { code, report, stderr } = await status();
    assert.equal(code, 1);
    assert.match(stderr, /no response from 127\.0\.0\.1/);
    assert.deepEqual(
      report.problems.map(({ guard, kind, object }) => `${guard} ${kind} ${object.name}`).toSorted(),
      [
        'bpf-programs agent-dead count',
        'file-access agent-dead secrets',
        'file-integrity agent-dead machine',
        'file-integrity operator-dead machine',
        'network-policy agent-dead closed',
        'policy-audit operator-dead no-root',
      ],
    );
    assert.ok(report.problems.every(({ next }) => next.startsWith('Start rampart standalone with --data ')));
    // As after any start; each takes three seconds of CPU time.
    if (!isDeep) return;
    await start();
    await green();
  });
});
