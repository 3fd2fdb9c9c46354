// Processes that are killed in the middle, and a disk that is full: everything comes out right in the end.
import assert from 'node:assert/strict';
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { scaled } from '../../lib/testing/depth.fixture.ts';
import { patience, until } from '../../lib/testing/until.fixture.ts';
import { fileSystemSkip, Mounted } from '../../lib/sensor/file-systems.fixture.ts';
import { type FileIntegrity, names, released } from '../../guards/file-integrity/api.ts';
import { openBaseline } from '../../guards/file-integrity/database/read-baseline.ts';
import { requestAnnotation } from '../../guards/file-integrity/results/node-requests.ts';
import { nodeStatusName } from '../../guards/file-integrity/results/object-names.ts';
import { readSigningKey } from '../../guards/file-integrity/node/key-follower.ts';
import {
  fileIntegrity,
  IntegrityCluster,
  type IntegrityNode,
  namespace,
  type NodeOptions,
} from './integrity-cluster.fixture.ts';

const kills = scaled(10, 4);
const files = Array.from({ length: 40 }, (_, at) => `file${String(at).padStart(2, '0')}`);

let cluster: IntegrityCluster;
before(async () => {
  cluster = await IntegrityCluster.start();
});
after(async () => {
  await cluster[Symbol.asyncDispose]();
});

const hostname = 'kubernetes.io/hostname';

/** A node of a test's own. */
async function addNode(name: string, options: NodeOptions = {}): Promise<IntegrityNode> {
  return await cluster.addNode(name, { labels: { [hostname]: name }, ...options });
}

/** For the node of the same name. */
async function createIntegrity(name: string, conf: string): Promise<FileIntegrity> {
  const metadata = { name: `${name}-conf`, namespace };
  await cluster.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'aide.conf': conf } });
  const config = { name: `${name}-conf`, namespace, gracePeriod: 10 };
  await cluster.apply(fileIntegrity(name, { config, nodeSelector: { [hostname]: name } }));
  return await cluster.integrity(name);
}

/** All files have the size of the round that wrote them. */
function writeRound(node: IntegrityNode, round: number): void {
  for (const file of files) node.write(`/etc/${file}`, Buffer.alloc(round));
}

/**
 * The round of the baseline; undefined without one.
 *
 * @throws for one of several rounds, or a damaged one
 */
async function baselineRound(node: IntegrityNode, integrity: FileIntegrity): Promise<number | undefined> {
  const path = join(node.directoryOf(integrity), 'baseline');
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return undefined;
  const key = await readSigningKey(cluster.client, namespace, patience());
  if (typeof key === 'string') throw new Error(key);
  await using baseline = await openBaseline(path, key);
  const sizes: number[] = [];
  for await (const batch of baseline.entries())
    sizes.push(...batch.unpack().map(({ sizeBytes }) => sizeBytes));
  assert.equal(sizes.length, files.length);
  assert.equal(new Set(sizes).size, 1, `a baseline of several rounds: ${sizes.join()}`);
  return sizes[0];
}

/** The request of `rampart integrity accept`, even if no finding is known yet. */
async function askToAccept(fi: string, round: number): Promise<void> {
  const id = `acce9${round.toString(16)}`;
  const request = { kind: 'accept', id, path: '', author: 'test', reason: `round ${round}` } as const;
  const body = { metadata: { annotations: requestAnnotation(request) } };
  const target = { namespace, name: nodeStatusName(fi, fi) };
  await cluster.client.patch(released.nodeStatuses, target, { type: 'merge', body });
}

suite('killed and full', { concurrency: true }, () => {
  test('an operator that is killed and started again, an agent that is killed in the middle of scans', async () => {
    // 3 MB at 1 MB/s: a scan takes its time.
    const node = await addNode('slow', { args: ['--integrity-read-rate', '1M'] });
    for (const name of ['a', 'b', 'c']) node.write(`/srv/${name}`, Buffer.alloc(1_000_000, name));
    const conf = 'All = p+s+sha256\n/srv f All\n';
    node.agent.start();
    const integrity = await createIntegrity('slow', conf);
    const readBytes = async (): Promise<number> =>
      await node.agent.metric('file_integrity_read_bytes_total').catch(() => 0);
    await until('the first baseline is under way', async () => (await readBytes()) > 0);
    await node.agent.kill();
    assert.equal(
      statSync(join(node.directoryOf(integrity), 'baseline'), { throwIfNoEntry: false }),
      undefined,
    );
    assert.equal(await cluster.status('slow', 'slow'), undefined);
    await cluster.killOperator();
    node.agent.start();
    // Its result waits to be taken.
    await until('a result', async () => (await cluster.temporary('slow')).length > 0);
    cluster.startOperator();
    const { sequence: first = 0 } = await cluster.condition('slow', 'slow', 'Succeeded');
    await cluster.phase('slow', 'Active');

    // In the middle of a scan: nothing is lost of what it would have found.
    node.write('/srv/b', Buffer.alloc(1_000_000, 'x'));
    const readBefore = await readBytes();
    await until('a scan is under way', async () => (await readBytes()) > readBefore);
    await node.agent.kill();
    await cluster.stopOperator();
    node.agent.start();
    cluster.startOperator();
    const scanned = (await cluster.status('slow', 'slow'))?.sequence ?? first;
    await cluster.condition('slow', 'slow', 'Failed', undefined, ({ sequence = 0, lastResult }) => {
      return sequence > scanned && lastResult?.filesChanged === 1;
    });

    // Requests made while both are away are executed when both are back.
    await node.agent.kill();
    await cluster.stopOperator();
    await cluster.annotate('slow', `${names.reinit}=`);
    node.agent.start();
    cluster.startOperator();
    await cluster.condition('slow', 'slow', 'Succeeded');
    await cluster.phase('slow', 'Active');
    // The result of the next scan may be on its way.
    await until('no result is left', async () => (await cluster.temporary('slow')).length === 0);
  });

  test(`an agent killed at ${kills} random moments of baselines, scans and acceptances`, async () => {
    const node = await addNode('killed');
    let round = 1;
    writeRound(node, round);
    node.agent.start();
    const integrity = await createIntegrity('killed', '/etc f s+sha256\n');
    await cluster.condition('killed', 'killed', 'Succeeded');
    const seen: number[] = [];
    let last = round;
    for (let kill = 0; kill < kills; kill++) {
      await node.agent.kill();
      writeRound(node, ++round);
      if (kill % 2 === 0) await cluster.annotate('killed', `${names.reinit}=`);
      else await askToAccept('killed', round);
      node.agent.start();
      // It knows its job, and begins.
      await until('its job', async () => (await node.agent.metric('file_integrity_errored')) === 0);
      await delay(Math.random() ** 2 * 1000);
      await node.agent.kill();
      const now = await baselineRound(node, integrity);
      assert.ok(now === last || now === round, `${now} after ${last} in round ${round}`);
      last = now;
      seen.push(now);
    }
    node.agent.start();
    await cluster.annotate('killed', `${names.reinit}=`);
    await until('it is asked', async () => {
      const { annotations = {} } = (await cluster.integrity('killed')).metadata;
      return annotations[names.reinit] === undefined;
    });
    await cluster.condition('killed', 'killed', 'Succeeded', undefined, ({ metadata }) =>
      Object.keys(metadata.annotations ?? {}).every((name) => !name.includes('request')),
    );
    await cluster.phase('killed', 'Active');
    assert.equal(await baselineRound(node, integrity), round);
    process.stdout.write(`# baselines after ${kills} kills: of the rounds ${seen.join(' ')}\n`);
    node.write(`/etc/${files[0]}`, 'something else');
    await cluster.failed('killed', 'killed', [0, 1, 0]);
  });

  test(
    'a full disk is Errored and says so; it goes on when there is room',
    { skip: fileSystemSkip('tmpfs') },
    async () => {
      using disk = new Mounted('-t', 'tmpfs', '-o', 'size=768k', 'rampart-test');
      const node = await addNode('full', { integrityDirectory: join(disk.path, 'integrity') });
      for (let at = 0; at < 2000; at++) node.write(`/srv/${at}`, `${at}\n`);
      const fill = (): void => {
        try {
          writeFileSync(join(disk.path, 'filler'), Buffer.alloc(1024 * 1024));
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
        }
      };
      fill();
      node.agent.start();
      const integrity = await createIntegrity('full', '/srv f p+sha512\n');
      const isFull = /ENOSPC|no space/i;
      const { lastResult } = await cluster.condition('full', 'full', 'Errored');
      assert.match(lastResult.errorMessage ?? '', isFull);
      await cluster.phase('full', 'Error');
      await until('the event', async () =>
        (await cluster.notes('NodeIntegrityStatus')).some((note) => isFull.test(note)),
      );
      assert.match((await cluster.rampart('status')).stdout, isFull);
      rmSync(join(disk.path, 'filler'));
      await cluster.condition('full', 'full', 'Succeeded');
      await cluster.phase('full', 'Active');

      // An interrupted baseline leaves nothing behind, only the previous one.
      fill();
      node.write('/srv/1', 'changed\n');
      await cluster.annotate('full', `${names.reinit}=`);
      const second = await cluster.condition('full', 'full', 'Errored');
      assert.match(second.lastResult.errorMessage ?? '', isFull);
      const left = readdirSync(node.directoryOf(integrity)).filter((name) => name.startsWith('baseline'));
      assert.deepEqual(left, ['baseline']);
      rmSync(join(disk.path, 'filler'));
      await cluster.condition('full', 'full', 'Succeeded');
      await cluster.phase('full', 'Active');
      node.write('/srv/2', 'changed\n');
      await cluster.failed('full', 'full', [0, 1, 0]);
    },
  );
});
