// Users' changes of a FileIntegrity while it runs: configurations and holdoff; and the reports about them.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { until } from '../../lib/testing/until.fixture.ts';
import { names } from '../../guards/file-integrity/api.ts';
import {
  fileIntegrity,
  IntegrityCluster,
  type IntegrityNode,
  namespace,
} from './integrity-cluster.fixture.ts';

let cluster: IntegrityCluster;
let node: IntegrityNode;

before(async () => {
  cluster = await IntegrityCluster.start();
  node = await cluster.addNode('n1');
  for (const name of ['bad', 'held'])
    for (const file of ['a', 'b', 'c']) node.write(`/srv/${name}/${file}`, `${file}\n`);
  node.agent.start();
});
after(async () => {
  await cluster[Symbol.asyncDispose]();
});

async function configure(name: string, text: string): Promise<void> {
  const metadata = { name: `${name}-conf`, namespace };
  await cluster.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'aide.conf': text } });
}

async function create(name: string, text: string): Promise<void> {
  await configure(name, text);
  await cluster.apply(fileIntegrity(name, { config: { name: `${name}-conf`, namespace, gracePeriod: 10 } }));
}

suite('a FileIntegrity that its user changes', { concurrency: true }, () => {
  test('a bad configuration is Error with its line; a good one is Active; the next bad one leaves it in use', async () => {
    await create('bad', 'All = p+sha256\n/srv/bad Al\n');
    const { status } = await cluster.phase('bad', 'Error');
    const message = status?.conditions?.find(({ type }) => type === 'Configured')?.message ?? '';
    assert.match(message, /bad-conf.*\b2\b.*Al\b/s);
    await until('the event', async () =>
      (await cluster.notes('FileIntegrityStatus')).some((note) => note.includes('bad-conf')),
    );
    assert.equal(await cluster.configMap('bad'), undefined);
    assert.equal(await cluster.status('bad', 'n1'), undefined);

    await configure('bad', 'All = p+sha256\n/srv/bad All\n');
    await cluster.phase('bad', 'Active');
    await cluster.condition('bad', 'n1', 'Succeeded');

    await configure('bad', 'All = p+sha256\n/srv/bad All\n/srv/[ All\n');
    const again = (await cluster.phase('bad', 'Error')).status;
    const left = again?.conditions?.find(({ type }) => type === 'Configured')?.message ?? '';
    assert.match(left, /\b3\b/);
    node.write('/srv/bad/a', 'changed\n');
    await cluster.failed('bad', 'n1', [0, 1, 0]);

    // Another configuration: a new baseline of what is there now.
    await configure('bad', 'All = p+sha512\n/srv/bad All\n');
    await cluster.condition('bad', 'n1', 'Succeeded');
    await cluster.phase('bad', 'Active');
  });

  test('held off: no scan and no finding; changes in the meantime are reported when it ends', async () => {
    await create('held', 'All = p+sha256\n/srv/held All\n');
    await cluster.condition('held', 'n1', 'Succeeded');
    await cluster.annotate('held', `${names.holdoff}=`);
    await until('it is paused', async () =>
      (await cluster.integrity('held')).status?.conditions?.some(
        ({ type, status }) => type === 'Paused' && status === 'True',
      ),
    );
    // The agent has a watch of its own.
    await delay(1000);
    rmSync(node.at('/srv/held/a'));
    node.write('/srv/held/b', 'changed\n');
    const shown = await cluster.rampart('status', '--format', 'table');
    assert.match(shown.stdout, /openshift-file-integrity\/held +paused/);
    // Longer than its period.
    await delay(12_000);
    assert.equal((await cluster.status('held', 'n1'))?.lastResult?.condition, 'Succeeded');
    assert.deepEqual(
      node.findings().filter(({ path }) => path.startsWith('/srv/held')),
      [],
    );
    await cluster.annotate('held', `${names.holdoff}-`);
    await cluster.failed('held', 'n1', [0, 1, 1]);
  });
});
