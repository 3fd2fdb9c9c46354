// Known at once: a change is in the status of the node within about a second, with the process that made it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, realpathSync, renameSync, rmSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import type { ReportedFinding } from '../../guards/file-integrity/api.ts';
import { type Lab, type LabPod, startLab } from '../lab/lab.ts';
import { labObstacle } from '../lab/obstacle.ts';
import {
  fileIntegrity,
  IntegrityCluster,
  type IntegrityNode,
  namespace,
} from './integrity-cluster.fixture.ts';

const fi = 'live';
const config = { name: 'conf', namespace };
const uid = 12_345;
/** After that no result waits for its turn. */
const quietMs = 1200;
/** Durations of the comparisons, printed at the end. */
const took: { readonly what: string; readonly ms: number }[] = [];

/** Waits for a finding of the node's status, and how long it takes. Scans are 15 minutes apart. */
async function finding(
  cluster: IntegrityCluster,
  what: string,
  path: string,
  change: ReportedFinding['change'],
): Promise<ReportedFinding> {
  const startedMs = performance.now();
  const found = await until(what, async () => {
    const { findings = [] } = (await cluster.status(fi, 'n1')) ?? {};
    return findings.find((one) => one.path === path && one.change === change);
  });
  took.push({ what, ms: Math.round(performance.now() - startedMs) });
  assert.equal(found.seenBy, 'event');
  return found;
}

/** A process of the node that runs a shell script, by a user of its own. Returns its pid. */
async function runScript(script: string, ...args: readonly string[]): Promise<number> {
  const child = spawn('/bin/sh', ['-c', script, 'sh', ...args], {
    uid,
    gid: uid,
    cwd: '/',
    stdio: 'inherit',
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  assert.equal(code, 0);
  return child.pid ?? 0;
}

function prepare(node: IntegrityNode): void {
  for (const file of ['a', 'b', 'c', 'd', 'moved', 'pod']) node.write(`/etc/${file}`, `${file}\n`);
  for (const path of ['/etc', '/etc/a', '/etc/b', '/etc/c', '/etc/d', '/etc/moved'])
    chownSync(node.at(path), uid, uid);
  for (const path of [node.root, node.at('/etc')]) chmodSync(path, 0o755);
}

suite('known at once', { skip: sensorSkip || labObstacle() }, () => {
  const used = new AsyncDisposableStack();
  let lab: Lab;
  let cluster: IntegrityCluster;
  let node: IntegrityNode;
  let pod: LabPod;

  before(async () => {
    lab = used.use(await startLab());
    cluster = used.use(await IntegrityCluster.start());
    node = await cluster.addNode('n1', { criSocket: lab.socketPath });
    prepare(node);
    chmodSync(cluster.directory.path, 0o755);
    pod = await lab.runPod({
      name: 'intruder',
      namespace: 'shop',
      containers: [{ name: 'web', mounts: [{ containerPath: '/host-etc', hostPath: node.at('/etc') }] }],
    });
  });
  after(() => used.disposeAsync());

  test('each kind of change, by processes of the node and of a pod', async () => {
    node.agent.start();
    const conf = 'All = p+u+g+s+sha256\n/etc All\n';
    const metadata = { name: 'conf', namespace };
    await cluster.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'aide.conf': conf } });
    await cluster.apply(fileIntegrity(fi, { config }));
    await cluster.condition(
      fi,
      'n1',
      'Succeeded',
      undefined,
      ({ detection }) => detection?.events !== 'none',
    );
    const { detection } = (await cluster.status(fi, 'n1')) ?? {};
    assert.deepEqual(
      [detection?.events, detection?.reason, detection?.unwatchedDirectories],
      ['sensor', '', 0],
    );

    await delay(quietMs);
    const pid = await runScript('echo changed >>"$1"', node.at('/etc/a'));
    const { attributes, author } = await finding(cluster, 'a write', '/etc/a', 'changed');
    assert.ok(attributes.includes('sha256'));
    assert.deepEqual(author, {
      binary: realpathSync('/bin/sh'),
      arguments: `-c echo changed >>"$1" sh ${node.at('/etc/a')}`,
      cwd: '/',
      ...{ uid, gid: uid, pid, ppid: process.pid, parentBinary: realpathSync(process.execPath) },
      relation: 'host',
    });
    const status = await cluster.rampart('status');
    assert.match(status.stdout, /with author/);
    // The operator's lease is that of no kernel.
    assert.doesNotMatch(status.stdout, /^(?!n1 )\S+ +running/m);
    assert.match(status.stdout, new RegExp(`/etc/a changed [^]* by /[^]*sh [^]*uid ${uid}\\)`));
    const line = node.findings().find(({ path }) => path === '/etc/a');
    assert.deepEqual(line?.author, author);
    const properties = (await cluster.report(fi, 'n1'))?.results?.find(
      (result) => result.properties?.['path'] === '/etc/a',
    )?.properties;
    assert.equal(properties?.['process-binary'], author?.binary);

    // One right after the other: results have a pace.
    await runScript('echo new >"$1"', node.at('/etc/new'));
    assert.equal((await finding(cluster, 'a new file', '/etc/new', 'added')).author?.uid, uid);
    await runScript('rm "$1"', node.at('/etc/b'));
    assert.match(
      (await finding(cluster, 'a removal', '/etc/b', 'removed')).author?.binary ?? '',
      /rm$|busybox$/,
    );
    await runScript('chmod 0600 "$1"', node.at('/etc/c'));
    assert.match(
      (await finding(cluster, 'a mode', '/etc/c', 'changed')).author?.binary ?? '',
      /chmod$|busybox$/,
    );
    await runScript('mv "$1" "$2"', node.at('/etc/moved'), node.at('/etc/gone-there'));
    assert.equal(
      (await finding(cluster, 'a rename, the old name', '/etc/moved', 'removed')).author?.uid,
      uid,
    );
    assert.equal(
      (await finding(cluster, 'a rename, the new name', '/etc/gone-there', 'added')).author?.uid,
      uid,
    );
    await runScript('mkdir "$1" && echo x >"$1/file"', node.at('/etc/dir'));
    // Creations in a directory before it is watched have no known author.
    const early = await finding(cluster, 'in a new directory', '/etc/dir/file', 'added');
    assert.equal(early.author?.uid ?? uid, uid);
    assert.equal((await finding(cluster, 'a new directory', '/etc/dir', 'added')).author?.uid, uid);

    // A process of a pod, by a directory of the host that is mounted there.
    const [container] = pod.containers.values();
    assert.ok(container);
    await delay(quietMs);
    await lab.exec(container, ['sh', '-c', 'echo eve >> /host-etc/pod']);
    const byPod = await finding(cluster, 'a write in a pod', '/etc/pod', 'changed');
    assert.equal(byPod.author?.relation, 'container');
    assert.deepEqual(byPod.author?.pod, { namespace: 'shop', name: 'intruder' });
    assert.equal(byPod.author?.container?.name, 'web');
    assert.ok(byPod.author?.container?.id.endsWith(container.id), byPod.author?.container?.id);
    assert.match(byPod.author?.arguments ?? '', /host-etc\/pod/);

    // One that is gone as soon as it has begun.
    node.write('/etc/job', 'job\n');
    await finding(cluster, 'a file for a short pod', '/etc/job', 'added');
    rmSync(node.at('/etc/job'));
    await until('it is gone', async () => {
      const { findings = [] } = (await cluster.status(fi, 'n1')) ?? {};
      return findings.every(({ path }) => path !== '/etc/job');
    });
    const short = {
      ...{ name: 'once', command: ['cp', '/etc/group', '/host-etc/job'] },
      mounts: [{ containerPath: '/host-etc', hostPath: node.at('/etc') }],
    };
    await lab.runPod({ name: 'job', namespace: 'shop', containers: [short] });
    const byJob = await finding(cluster, 'a pod that does nothing else', '/etc/job', 'added');
    assert.deepEqual(
      [byJob.author?.relation, byJob.author?.pod, byJob.author?.container?.name],
      ['container', { namespace: 'shop', name: 'job' }, 'once'],
    );

    // A pod that enters the mounts of the host is still that pod.
    const entering = await lab.runPod({
      ...{ name: 'entering', namespace: 'shop', hostPid: true },
      containers: [{ name: 'root', privileged: true }],
    });
    const [root] = entering.containers.values();
    assert.ok(root);
    const script = `echo x >> '${node.at('/etc/d')}'`;
    await lab.exec(root, ['nsenter', '-t', `${process.pid}`, '-m', 'sh', '-c', script]);
    const entered = await finding(cluster, 'a pod in the mounts of the host', '/etc/d', 'changed');
    assert.deepEqual([entered.author?.relation, entered.author?.pod?.name], ['container', 'entering']);

    // Everything is put back: nothing is left, without a scan.
    for (const name of ['/etc/new', '/etc/dir', '/etc/job']) rmSync(node.at(name), { recursive: true });
    renameSync(node.at('/etc/gone-there'), node.at('/etc/moved'));
    node.write('/etc/a', 'a\n');
    node.write('/etc/pod', 'pod\n');
    node.write('/etc/d', 'd\n');
    node.write('/etc/b', 'b\n');
    chownSync(node.at('/etc/b'), uid, uid);
    chmodSync(node.at('/etc/c'), 0o644);
    await cluster.condition(fi, 'n1', 'Succeeded');
    await cluster.phase(fi, 'Active');
    process.stdout.write(
      `# change to status: ${took.map(({ what, ms }) => `${what} ${ms} ms`).join(', ')}\n`,
    );
  });

  deepTest('after a restart: earlier findings, and a change that was not seen', async () => {
    await delay(quietMs);
    await runScript('echo before >>"$1"', node.at('/etc/c'));
    const earlier = await finding(cluster, 'a write before a restart', '/etc/c', 'changed');
    const { run } = node.agent;
    await cluster.apply(fileIntegrity(fi, { config: { ...config, gracePeriod: 10 } }));
    await node.agent.kill();
    node.write('/etc/d', 'while no agent ran\n');
    mkdirSync(node.at('/etc/empty'));
    node.agent.start();
    const { findings = [] } = await cluster.failed(fi, 'n1', [1, 2, 0]);
    const fresh = findings.filter(({ path }) => path !== '/etc/c');
    assert.deepEqual(new Set(fresh.map(({ path }) => path)), new Set(['/etc/d', '/etc/empty']));
    assert.ok(fresh.every(({ author: by }) => by === undefined));
    assert.equal(earlier.author?.uid, uid);
    assert.deepEqual(
      findings.find(({ path }) => path === '/etc/c'),
      earlier,
    );
    const reportedSince = node.agent.reported.filter((one) => one.run > run).map((reported) => reported.line);
    assert.ok(
      reportedSince.every((text) => !text.includes('/etc/c"')),
      reportedSince.join('\n'),
    );
    await cluster.apply(fileIntegrity(fi, { config: { ...config, gracePeriod: 900 } }));
    await runScript('echo changed again >>"$1"', node.at('/etc/a'));
    assert.equal((await finding(cluster, 'a write after a restart', '/etc/a', 'changed')).author?.uid, uid);
  });
});
