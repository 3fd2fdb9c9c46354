// `rampart standalone` looks after the files of its machine: a directory of the test stands for them.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { runRampart } from '../../apps/apiserver/rampart-process.fixture.ts';
import { Standalone } from '../../apps/standalone/standalone.fixture.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
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

suite('rampart standalone', { skip: sensorSkip }, () => {
  test('guards the files of its machine, also after a kill', async () => {
    await using standalone = new Standalone();
    const root = standalone.at('host');
    mkdirSync(join(root, 'etc'), { recursive: true });
    mkdirSync(join(root, 'usr/bin'), { recursive: true });
    const passwd = join(root, 'etc/passwd');
    writeFileSync(passwd, 'root\n');
    writeFileSync(join(root, 'etc/hosts'), 'localhost\n');
    standalone.write('integrity.yaml', manifest);
    const args = [
      ...['--host-root', root, '-f', standalone.at('integrity.yaml'), '--node-name', 'n1'],
      ...['--cri-socket', standalone.at('none.sock'), '--guards', 'file-integrity'],
    ];
    await standalone.start(...args);
    const condition = ['get', 'fileintegritynodestatuses', '-n', 'integrity'];
    const untilIs = async (wanted: string): Promise<void> => {
      const output = ['-o', 'jsonpath={.items[*].lastResult.condition}'];
      await standalone.kubectlUntil([...condition, ...output], ({ stdout }) => stdout === wanted);
    };
    await untilIs('Succeeded');

    writeFileSync(passwd, 'root\neve\n');
    await untilIs('Failed');
    const lines = (): readonly FindingLine[] => standalone.alerts() as unknown as FindingLine[];
    await standalone.until(() => lines().length > 0);
    for (const { kind, fileIntegrity, node, state, path } of lines()) {
      assert.deepEqual(
        [kind, fileIntegrity, node, state, path],
        ['IntegrityFinding', 'integrity/machine', 'n1', 'found', '/etc/passwd'],
      );
    }
    const data = ['--data', standalone.at('data')];
    const status = await runRampart('status', ...data);
    assert.match(status.stdout, /integrity\/machine +Active +n1 +Failed .*1 changed/);

    await standalone.stop('SIGKILL');
    rmSync(join(root, 'etc/hosts'));
    await standalone.start(...args);
    const removed = ['-o', 'jsonpath={.items[*].lastResult.filesRemoved}'];
    await standalone.kubectlUntil([...condition, ...removed], ({ stdout }) => stdout === '1');
    const accepted = await runRampart('integrity', 'accept', 'machine', ...data, '--reason', 'meant');
    assert.equal(accepted.code, 0, accepted.stdout + accepted.stderr);
    await untilIs('Succeeded');
    assert.equal(await standalone.stop(), 0);
  });
});
