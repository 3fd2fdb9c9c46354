/**
 * `rampart operator`, killed while it audits: what the next one leaves is what a fresh look at everything finds. The moments are those of
 * its writes, as reports come and go.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';

import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { leases } from '../../../lib/kube/object/object.ts';
import { isDeep, Random, scaled, seed } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { MemoryReports } from '../reports/memory-store.ts';
import { reportTypes } from '../reports/report.ts';
import { lineOf, ScanCluster } from './scan.fixture.ts';

const rampart = join(import.meta.dirname, '../../../bin/rampart');
const system = 'rampart-system';
const spaces = ['one', 'two', 'three'];
const OBJECTS = 20;

class Operator implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #said: string[] = [];
  readonly #ended: Promise<unknown>;

  constructor(kubeconfig: string, form: string) {
    const options = ['--kubeconfig', kubeconfig, '--guards', 'policy-audit', '--reports-by', form];
    const child = spawn(rampart, ['operator', ...options], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, RAMPART_LOG: 'info' },
    });
    this.#child = child;
    this.#ended = once(child, 'exit');
    createInterface({ input: child.stderr }).on('line', (line) => this.#said.push(line));
  }

  get hasPassed(): boolean {
    assert.equal(this.#child.exitCode, null, this.#said.join('\n'));
    return this.#said.some((line) => line.includes('audit of all objects finished'));
  }

  /** By SIGKILL. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}

/** Changes of a few objects, of a namespace and of a policy. */
async function change(cluster: ScanCluster, random: Random): Promise<void> {
  const chance = (of: number): boolean => random.chance(1 / of);
  const labels = (): Record<string, string> => (chance(2) ? { team: 'x' } : {});
  for (const space of spaces) {
    if (chance(3)) await cluster.setNamespace(space, labels());
    for (let index = 0; index < OBJECTS; index++) {
      if (chance(6)) await cluster.deleteObject('configmaps', space, `o${index}`);
      else if (chance(3)) await cluster.setObject('configmaps', space, `o${index}`, labels());
    }
  }
  const expression = chance(2) ? 'true' : "has(object.metadata.labels) && 'team' in object.metadata.labels";
  if (chance(4)) await cluster.deletePolicy('team');
  else await cluster.setPolicy('team', { expression });
  const namespaceSelector = { matchLabels: { team: 'x' } };
  await cluster.setPolicy('some', chance(2) ? { more: { namespaceSelector } } : { expression: 'false' });
}

async function fresh(cluster: ScanCluster): Promise<string[]> {
  const store = new MemoryReports();
  const { passes, stop } = await cluster.startScanner({ store, writesStatus: false });
  await until(() => passes.length > 0);
  await stop();
  return store.list(reportTypes.policyreport, 'object').map(lineOf).toSorted();
}

test(`an operator that is killed while it audits leaves what the next one puts right (seed ${seed})`, async () => {
  const random = new Random(seed);
  await using cluster = await ScanCluster.start();
  await cluster.createNamespace(system);
  for (const space of spaces) {
    await cluster.setNamespace(space, {});
    for (let index = 0; index < OBJECTS; index++)
      await cluster.setObject('configmaps', space, `o${index}`, {});
  }
  const rounds = isDeep ? scaled(6) : 1;
  for (let round = 0; round < rounds; round++) {
    const form = random.chance(0.7) ? 'object' : 'namespace';
    for (const isLast of [false, true]) {
      await change(cluster, random);
      // A killed process does not give its lease back; the test does not wait until it expires.
      for (const { metadata } of (await cluster.client.list(leases, { namespace: system })).items) {
        const target = { namespace: system, name: metadata.name ?? '' };
        await cluster.client.delete(leases, target).catch((error: unknown) => {
          if (!isNotFound(error)) throw error;
        });
      }
      const before = versionsOf(await cluster.reportObjects());
      await using operator = new Operator(cluster.kubeconfig, form);
      const max = form === 'object' ? spaces.length * OBJECTS : spaces.length;
      const writes = random.below(max);
      await until(`round ${round}`, async () => {
        if (operator.hasPassed) return true;
        if (isLast) return false;
        const now = versionsOf(await cluster.reportObjects());
        return before.symmetricDifference(now).size > writes;
      });
      if (isLast) assert.deepEqual(await cluster.lines(), await fresh(cluster), `round ${round}, ${form}`);
    }
  }
});

function versionsOf(reports: Awaited<ReturnType<ScanCluster['reportObjects']>>): Set<string> {
  return new Set(reports.map(({ metadata }) => `${metadata.uid} ${metadata.resourceVersion}`));
}
