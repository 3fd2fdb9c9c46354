// `rampart standalone` looks after the files of its machine: a directory of the test stands for them.
import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';

import { runRampart } from '../../apps/apiserver/rampart-process.fixture.ts';
import { Standalone } from '../../apps/standalone/standalone.fixture.ts';
import { type ScanResult, released } from '../../guards/file-integrity/api.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import type { FindingLine } from './integrity-cluster.fixture.ts';

const manifest = `
apiVersion: v1
kind: Namespace
metadata: { name: integrity }
---
apiVersion: fileintegrity.openshift.io/v1alpha1
kind: FileIntegrity
metadata: { name: machine, namespace: integrity }
spec:
  config: { gracePeriod: 10 }
`;

/** The directory that stands for a machine, and what guards it. */
class Machine implements AsyncDisposable {
  readonly standalone = new Standalone();
  readonly data: readonly string[] = ['--data', this.standalone.at('data')];

  static async start(): Promise<Machine> {
    const machine = new Machine();
    machine.write('usr/bin/ls', 'a program\n');
    machine.write('etc/passwd', 'root\n');
    machine.write('etc/hosts', 'localhost\n');
    machine.standalone.write('integrity.yaml', manifest);
    await machine.startAgain();
    return machine;
  }

  async startAgain(): Promise<void> {
    await this.standalone.start(
      ...['--host-root', this.at(''), '-f', this.standalone.at('integrity.yaml'), '--node-name', 'n1'],
      ...['--cri-socket', this.standalone.at('none.sock'), '--guards', 'file-integrity'],
    );
  }

  at(path: string): string {
    return join(this.standalone.at('host'), path);
  }

  write(path: string, content: string): void {
    mkdirSync(dirname(this.at(path)), { recursive: true });
    writeFileSync(this.at(path), content);
  }

  /** Waits until the latest result is so. */
  async untilLast(fits: (result: ScanResult) => boolean): Promise<void> {
    using client = new KubeClient(findClusterAccess({ path: this.standalone.at('data/kubeconfig') }));
    await until(`a result: ${fits.toString()}`, async () => {
      const { items } = await client.list(released.nodeStatuses, { namespace: 'integrity' });
      return items.some(({ lastResult }) => lastResult !== undefined && fits(lastResult));
    });
  }

  /** All that was found. */
  async accept(): Promise<void> {
    const accepted = await runRampart(
      'integrity',
      'accept',
      'machine',
      '--all',
      ...this.data,
      '--reason',
      'meant',
    );
    assert.equal(accepted.code, 0, accepted.stdout + accepted.stderr);
    await this.untilLast(({ condition }) => condition === 'Succeeded');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.standalone[Symbol.asyncDispose]();
  }
}

suite('rampart standalone', { skip: sensorSkip }, () => {
  test('guards the files of its machine', async () => {
    await using machine = await Machine.start();
    await machine.untilLast(({ condition }) => condition === 'Succeeded');
    machine.write('etc/passwd', 'root\neve\n');
    await machine.untilLast(({ condition }) => condition === 'Failed');
    const lines = (): readonly FindingLine[] => machine.standalone.alerts() as unknown as FindingLine[];
    await machine.standalone.until(() => lines().length > 0);
    for (const { kind, fileIntegrity, node, state, path } of lines()) {
      assert.deepEqual(
        [kind, fileIntegrity, node.name, state, path],
        ['IntegrityFinding', 'integrity/machine', 'n1', 'found', '/etc/passwd'],
      );
    }
    const status = await runRampart('status', ...machine.data);
    assert.match(status.stdout, /integrity\/machine +Active +n1 +Failed .*1 changed/);
    await machine.accept();
    assert.equal(await machine.standalone.stop(), 0);
  });

  test('also after a kill', async () => {
    await using machine = await Machine.start();
    await machine.untilLast(({ condition }) => condition === 'Succeeded');
    machine.write('etc/passwd', 'root\neve\n');
    await machine.untilLast(({ condition }) => condition === 'Failed');
    await machine.standalone.stop('SIGKILL');
    rmSync(machine.at('etc/hosts'));
    await machine.startAgain();
    await machine.untilLast(({ filesRemoved }) => filesRemoved === 1);
    await machine.accept();
    assert.equal(await machine.standalone.stop(), 0);
  });
});
