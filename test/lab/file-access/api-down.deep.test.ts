// The API server is away for a minute, or does not answer: alerts go on, and afterwards all is as it should be.
import assert from 'node:assert/strict';
import { renameSync, statSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { scaled } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import type { LabContainer } from '../lab.ts';
import { labObstacle } from '../obstacle.ts';
import { accessOf, LabCluster, type LabNode, pathIn, readNumbered } from './lab-cluster.fixture.ts';
import { statusOf } from '../../../guards/file-access/policy-status-schema.ts';

/** At least longer than the lease. */
const AWAY_MS = scaled(60_000, 20_000);
const SILENT_MS = scaled(20_000, 6000);
const secret = '/secret.txt';
const labels = { app: 'web' };
const match = [{ matchLabels: labels }];

/** Accesses with numbers, and what became of them. */
class Accesses {
  readonly #node: LabNode;
  #made = 0;

  constructor(node: LabNode) {
    this.#node = node;
  }

  /** Reads a file of a container; returns the number of the access. */
  read(container: LabContainer, path = secret): number {
    readNumbered(pathIn(container, path), ++this.#made);
    return this.#made;
  }

  /** The policies with an alert for this access, sorted. */
  reported(number: number): string[] {
    return this.#node.agent.reported
      .filter(({ alert }) => accessOf(alert) === String(number))
      .map(({ alert }) => alert['kive-policy-name'])
      .sort();
  }

  /** Reads between two markers: then the set of its alerts is complete. */
  async raises(container: LabContainer, path?: string): Promise<string[]> {
    await this.#node.mark();
    const number = this.read(container, path);
    await this.#node.mark();
    return this.reported(number);
  }

  /** Reads until the alerts are as expected. */
  async untilRaises(container: LabContainer, policies: readonly string[], path?: string): Promise<void> {
    await until(`alerts of ${policies.join() || 'nobody'}`, async () => {
      const reported = await this.raises(container, path);
      return reported.join() === policies.join();
    });
  }
}

/** Lines of a log, each a JSON object. */
function logLines(text: string): string[] {
  const lines = text.split('\n').filter((line) => line !== '');
  for (const line of lines)
    assert.equal(typeof (JSON.parse(line) as { level?: unknown }).level, 'string', line);
  return lines;
}

/** As editors save: another file takes the place of the one before. */
function replace(container: LabContainer): number {
  const path = pathIn(container, secret);
  writeFileSync(`${path}.new`, 'saved');
  renameSync(`${path}.new`, path);
  return statSync(path).ino;
}

suite('without the API', { skip: sensorSkip || labObstacle() }, () => {
  test('killed for a minute, then halted: alerts go on from what is known, then all is put in order', async () => {
    await using cluster = await LabCluster.start();
    const node = await cluster.addNode('n1');
    const { agent, lab } = node;
    const accesses = new Accesses(node);
    const spec = { name: 'web', labels };
    const { pod, container } = await node.run(spec);
    const other = await node.run({ name: 'other', labels });
    await cluster.setPolicy('kept', [{ path: secret, create: true, matchAny: match }]);
    await cluster.setPolicy('edited', [{ path: secret, matchAny: match }]);
    await cluster.setPolicy('deleted', [{ path: secret, matchAny: match }]);
    const all = ['deleted', 'edited', 'kept'];
    for (const name of all) await cluster.dataCount(name, 2);
    await agent.untilLoader();
    await accesses.untilRaises(container, all);

    const logs = (): string[] => [agent.stderr, cluster.operator.stderr].flatMap(logLines);
    assert.deepEqual(
      logs().filter((line) => /"level":"(warn|error)"/.test(line)),
      [],
      'something to complain of at the start',
    );
    const linesBefore = logs().length;
    await cluster.killApi();
    const awayUntilMs = performance.now() + AWAY_MS;
    assert.deepEqual(await accesses.raises(container), all);
    // A file that is replaced is watched in place of the one before.
    const inode = replace(container);
    await accesses.untilRaises(container, all);
    // A container that kubelet restarts, which it does without the API: its pod is known.
    const restarted = await lab.restartContainer(pod, 'nginx');
    writeFileSync(pathIn(restarted, secret), 'after the restart');
    await accesses.untilRaises(restarted, all);
    // This needs the API: a pod that it does not have, whose labels are unknown.
    const unknown = await lab.runPod({ name: 'new', labels });
    const fresh = unknown.containers.get('nginx');
    assert.ok(fresh);
    writeFileSync(pathIn(fresh, secret), 'of a pod that the API does not have');
    // A pod that ends.
    await lab.removePod(other.pod);
    // Longer than the lease, the patience of the reflectors and of every call.
    let reads = 0;
    while (performance.now() < awayUntilMs) {
      assert.deepEqual(await accesses.raises(restarted), all, `after ${reads} reads`);
      assert.deepEqual(await accesses.raises(fresh), []);
      reads++;
      await delay(500);
    }
    assert.equal((await agent.http('/healthz')).status, 200);
    const linesAway = logs().length - linesBefore;
    assert.ok(linesAway < 40, `${linesAway} lines in the log because of one API that is away`);
    assert.equal(await agent.isLoader(), true);

    await cluster.startApi();
    await cluster.setPolicy('edited', [
      { path: secret, matchAny: match },
      { path: '/another.txt', create: true, matchAny: match },
    ]);
    await cluster.deletePolicy('deleted');
    await node.createObject(unknown, spec);
    // For the restarted container and the new pod; those of the ended pod go.
    const kept = await cluster.dataCount('kept', 2);
    assert.deepEqual(
      new Set(kept.map(({ metadata }) => metadata.annotations?.['container-id'])),
      new Set([restarted, fresh].map(({ id }) => `containerd://${id}`)),
    );
    assert.ok(!kept.some(({ spec: { inodeNo } }) => inodeNo === inode));
    await cluster.dataCount('edited', 4);
    await accesses.untilRaises(fresh, ['edited', 'kept']);
    assert.deepEqual(await accesses.raises(restarted), ['edited', 'kept']);
    await accesses.untilRaises(restarted, ['edited'], '/another.txt');
    await until('the status', async () => {
      const policy = await cluster.policy('edited');
      const { watchedFiles, matchedContainers, conditions } = policy ? statusOf(policy) : {};
      const ready = conditions?.find(({ type }) => type === 'Ready');
      return (
        watchedFiles === 4 &&
        matchedContainers === 2 &&
        ready?.status === 'True' &&
        ready.observedGeneration === policy?.metadata.generation
      );
    });
    await until('the lease', async () => (await cluster.holder()).startsWith('n1_'));

    // Connections stay open, without answers.
    cluster.signalApi('SIGSTOP');
    const silentUntilMs = performance.now() + SILENT_MS;
    const second = replace(restarted);
    await accesses.untilRaises(restarted, ['edited', 'kept']);
    while (performance.now() < silentUntilMs) {
      assert.deepEqual(await accesses.raises(restarted), ['edited', 'kept']);
      await delay(500);
    }
    assert.equal(await agent.isLoader(), true);
    cluster.signalApi('SIGCONT');
    await until('the new file in the API', async () =>
      (await cluster.data('kept')).some(({ spec: { inodeNo } }) => inodeNo === second),
    );
    await cluster.setPolicy('kept', [{ path: '/another.txt', matchAny: match }]);
    await accesses.untilRaises(restarted, ['edited']);
    for (const name of ['kept', 'edited']) await cluster.deletePolicy(name);
    assert.deepEqual(await accesses.raises(restarted), []);
    assert.equal(agent.run, 1);
    assert.equal(await agent.stop(), 0);
  });
});
