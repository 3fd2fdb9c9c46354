// The agent's part with the embedded API server, real files and the native provider.
import assert from 'node:assert/strict';
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { design, names, released } from '../api.ts';
import { nodes } from '../../../lib/kube/object/object.ts';
import { machineConfigAnnotations } from '../results/holdoff.ts';
import type { NodeResult } from '../results/node-result.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { systemClock } from '../../../lib/time/clock.ts';
import { skewed } from '../../../lib/time/clock.fixture.ts';
import { conf, namespace, TestCluster } from './node.fixture.ts';

const kindIs =
  (kind: NodeResult['outcome']['kind']) =>
  ({ outcome }: NodeResult): boolean =>
    outcome.kind === kind;
const isSuccess = kindIs('succeeded');
const isFailure = kindIs('failed');

function backupsIn(directory: string): string[] {
  return readdirSync(directory).filter((name) => name.startsWith('baseline.backup-'));
}

/** Ten seconds, which is the shortest time between two scans, take two. */
const hasty = { clock: skewed(systemClock, { rate: 5 }) };

suite('the agent of a node', { concurrency: 4, timeout: 300_000 }, () => {
  test('first a baseline, then changes are reported by counts, log, findings and lines', async () => {
    await using cluster = await TestCluster.start();
    const agent = await cluster.startAgent();
    await cluster.createIntegrity('fi', { config: { initialDelay: 1 } });
    const first = await cluster.resultWhen('fi', isSuccess);
    assert.deepEqual(first.findings, []);
    cluster.write('passwd', 'other');
    cluster.write('new', 'new');
    unlinkSync(cluster.at('shadow'));
    const second = await cluster.resultWhen('fi', isFailure, first.sequence);
    assert.ok(second.outcome.kind === 'failed');
    const { added, changed, removed, log } = second.outcome;
    assert.deepEqual({ added, changed, removed }, { added: 1, changed: 1, removed: 1 });
    assert.match(log.data, /\/hostroot\/etc\/passwd/);
    const found = second.findings.map(({ path, change, attributes, seenBy }) =>
      [change, path, ...attributes, seenBy].join(' '),
    );
    const expected = [
      'added /etc/new scan',
      'changed /etc/passwd size sha256 scan',
      'removed /etc/shadow scan',
    ];
    assert.deepEqual(new Set(found), new Set(expected));
    const lines = agent.lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.deepEqual(lines.map(({ path, state }) => `${String(state)} ${String(path)}`).sort(), [
      'found /etc/new',
      'found /etc/passwd',
      'found /etc/shadow',
    ]);
    const { kind, fileIntegrity, node } = lines[0] ?? {};
    assert.deepEqual(
      { kind, fileIntegrity, node },
      { kind: 'IntegrityFinding', fileIntegrity: `${namespace}/fi`, node: { name: 'n1' } },
    );
    const directory = cluster.jobDirectory('fi');
    assert.equal(readFileSync(join(directory, 'aide.log'), 'utf8'), log.data);
    assert.equal(statSync(directory).mode & 0o077, 0);
  });

  test('re-init as the operator asks: succeeded at once, a backup, done once, also after a restart', async () => {
    await using cluster = await TestCluster.start();
    const agent = await cluster.startAgent();
    await cluster.createIntegrity('fi', { config: { maxBackups: 1 } });
    const first = await cluster.takeResult('fi');
    cluster.write('passwd', 'other');
    await cluster.request('fi', { kind: 're-init', id: 'a1', by: 'annotation' });
    const second = await cluster.resultWhen('fi', isSuccess, first.sequence);
    assert.deepEqual(second.doneRequests, ['a1']);
    await cluster.request('fi', { kind: 're-init', id: 'a2', by: 'failure' });
    const third = await cluster.resultWhen(
      'fi',
      ({ doneRequests }) => doneRequests.includes('a2'),
      second.sequence,
    );
    assert.deepEqual(third.doneRequests, ['a1', 'a2']);
    const directory = cluster.jobDirectory('fi');
    assert.equal(backupsIn(directory).length, 1);
    await agent.stop();
    // Both requests are still there. The file that changed since is not part of them.
    cluster.write('hosts', 'other');
    rmSync(join(directory, 'aide.log'), { force: true });
    await cluster.takeResult('fi');
    await cluster.annotate('fi', { [names.holdoff]: '' });
    const baseline = statSync(join(directory, 'baseline')).ino;
    const again = await cluster.startAgent();
    await until('it has looked', () => again.state()?.jobs === 1);
    await cluster.annotate('fi', { [names.holdoff]: null });
    const fourth = await cluster.resultWhen('fi', isFailure, third.sequence);
    assert.deepEqual(
      fourth.findings.map(({ path }) => path),
      ['/etc/hosts'],
    );
    assert.equal(statSync(join(directory, 'baseline')).ino, baseline);
    assert.deepEqual(fourth.doneRequests, ['a1', 'a2']);
  });

  deepTest('a job restored from before the newest baseline: an error, until a re-init', async () => {
    await using cluster = await TestCluster.start();
    const agent = await cluster.startAgent();
    await cluster.createIntegrity('fi');
    const first = await cluster.takeResult('fi');
    const directory = cluster.jobDirectory('fi');
    await agent.stop();
    cpSync(directory, `${directory}.before`, { recursive: true });
    const other = await cluster.startAgent();
    cluster.write('passwd', 'other');
    await cluster.request('fi', { kind: 're-init', id: 'a1', by: 'annotation' });
    await cluster.resultWhen('fi', isSuccess, first.sequence);
    const second = await cluster.takeResult('fi');
    await other.stop();
    rmSync(directory, { recursive: true });
    renameSync(`${directory}.before`, directory);
    cluster.write('passwd', 'passwd');
    await cluster.startAgent();
    const third = await cluster.resultWhen('fi', kindIs('errored'), second.sequence);
    assert.ok(third.outcome.kind === 'errored');
    assert.equal(third.outcome.reason, 'BaselineOutdated');
    assert.match(third.outcome.message, /the API knows a later one of this node/);
    assert.equal(third.baseline, undefined);
    await cluster.request('fi', { kind: 're-init', id: 'a2', by: 'annotation' });
    const fourth = await cluster.resultWhen('fi', isSuccess, third.sequence);
    assert.ok((fourth.baseline?.madeAtMs ?? 0) > (second.baseline?.madeAtMs ?? 0));
  });

  test('findings are accepted by path, and all of them', async () => {
    await using cluster = await TestCluster.start();
    const agent = await cluster.startAgent('n1', hasty);
    await cluster.createIntegrity('fi', { config: { initialDelay: 5 } });
    const first = await cluster.takeResult('fi');
    for (const name of ['passwd', 'hosts', 'deep/er/file']) cluster.write(name, 'other');
    const second = await cluster.resultWhen('fi', isFailure, first.sequence);
    assert.equal(second.findings.length, 3);
    await cluster.request('fi', {
      kind: 'accept',
      id: 'b1',
      path: '/etc/deep/**',
      author: 'ann',
      reason: 'update',
    });
    const third = await cluster.resultWhen(
      'fi',
      ({ doneRequests }) => doneRequests.includes('b1'),
      second.sequence,
    );
    assert.deepEqual(third.findings.map(({ path }) => path).sort(), ['/etc/hosts', '/etc/passwd']);
    assert.ok(third.outcome.kind === 'failed' && third.outcome.changed === 2);
    assert.doesNotMatch(third.outcome.log.data, /er\/file/);
    // Changes that were not reviewed are not accepted: a file that changes while the user reads the list.
    const seenUntilMs = Math.max(...third.findings.map(({ seenMs }) => seenMs));
    cluster.write('shadow', 'later');
    const later = await cluster.resultWhen('fi', ({ findings }) => findings.length === 3, third.sequence);
    await cluster.request('fi', {
      kind: 'accept',
      id: 'b2',
      path: '/etc/{passwd,shadow}',
      seenUntilMs,
      author: 'ann',
      reason: 'seen',
    });
    const seen = await cluster.resultWhen(
      'fi',
      ({ doneRequests }) => doneRequests.includes('b2'),
      later.sequence,
    );
    assert.deepEqual(seen.findings.map(({ path }) => path).sort(), ['/etc/hosts', '/etc/shadow']);
    await cluster.request('fi', { kind: 'accept', id: 'b3', path: '', author: 'ann', reason: 'all of it' });
    const fourth = await cluster.resultWhen('fi', isSuccess, seen.sequence);
    assert.deepEqual(fourth.doneRequests, ['b1', 'b2', 'b3']);
    assert.equal(agent.lines.filter((line) => line.includes('"state":"accepted"')).length, 4);
    const accepted = readFileSync(join(cluster.jobDirectory('fi'), 'accepted.log'), 'utf8');
    assert.match(accepted, /ann.*update/);
    assert.match(accepted, /all of it/);
  });

  deepTest('holdoff: no scan; when it goes, a scan follows at once', async () => {
    await using cluster = await TestCluster.start();
    await cluster.startAgent();
    await cluster.createIntegrity('fi', { config: { initialDelay: 1 } });
    const first = await cluster.resultWhen('fi', isSuccess);
    await cluster.annotate('fi', { [names.holdoff]: '' });
    cluster.write('passwd', 'other');
    // Longer than the delay of the first scan.
    await new Promise((resolve) => setTimeout(resolve, 1500));
    assert.equal((await cluster.result('fi'))?.sequence, first.sequence);
    await cluster.annotate('fi', { [names.holdoff]: null });
    await cluster.resultWhen('fi', isFailure, first.sequence);
  });

  deepTest('a holdoff that names nodes stops scans on these only', async () => {
    await using cluster = await TestCluster.start();
    await cluster.startAgent();
    await cluster.createIntegrity('fi', {
      config: { initialDelay: 1 },
      annotations: { [names.holdoff]: 'n10, othernode' },
    });
    const first = await cluster.resultWhen('fi', isSuccess);
    cluster.write('passwd', 'other');
    const second = await cluster.resultWhen('fi', isFailure, first.sequence);
    await cluster.annotate('fi', { [names.holdoff]: 'othernode,n1' });
    await cluster.request('fi', { kind: 'accept', id: 'b1', path: '', author: 'ann', reason: 'update' });
    const third = await cluster.resultWhen('fi', isSuccess, second.sequence);
    cluster.write('passwd', 'another');
    await new Promise((resolve) => setTimeout(resolve, 1500));
    assert.equal((await cluster.result('fi'))?.sequence, third.sequence);
    await cluster.annotate('fi', { [names.holdoff]: 'othernode' });
    await cluster.resultWhen('fi', isFailure, third.sequence);
  });

  test('changes by the Machine Config Operator make a new baseline, also over a restart', async () => {
    await using cluster = await TestCluster.start();
    const { current, desired, state } = machineConfigAnnotations;
    const machine = (annotations: Record<string, string>): Promise<unknown> =>
      cluster.client.patch(nodes, { name: 'n1' }, { type: 'merge', body: { metadata: { annotations } } });
    await cluster.createNode('n1');
    await machine({ [current]: 'rendered-1', [desired]: 'rendered-1', [state]: 'Done' });
    const agent = await cluster.startAgent('n1', hasty);
    await cluster.createIntegrity('fi', { config: { initialDelay: 5 } });
    const first = await cluster.resultWhen('fi', isSuccess);
    await machine({ [desired]: 'rendered-2', [state]: 'Working' });
    await until('the agent knows', async () => {
      // Its own watch is not later than another that begins now.
      const { metadata } = await cluster.client.get(nodes, { name: 'n1' });
      return metadata.annotations?.[state] === 'Working';
    });
    await new Promise((resolve) => setTimeout(resolve, 200));
    cluster.write('passwd', 'written by the new configuration');
    await new Promise((resolve) => setTimeout(resolve, 1500));
    assert.equal((await cluster.result('fi'))?.sequence, first.sequence);
    // The machine is rebooted.
    await agent.stop();
    await machine({ [current]: 'rendered-2', [state]: 'Done' });
    await cluster.startAgent('n1', hasty);
    const second = await cluster.resultWhen('fi', isSuccess, first.sequence);
    assert.equal(backupsIn(cluster.jobDirectory('fi')).length, 1);
    cluster.write('hosts', 'written by somebody');
    const third = await cluster.resultWhen('fi', isFailure, second.sequence);
    assert.deepEqual(
      third.findings.map(({ path }) => path),
      ['/etc/hosts'],
    );
  });

  deepTest('initialDelay: the baseline is of what is there when it is over', async () => {
    await using cluster = await TestCluster.start();
    await cluster.startAgent();
    await cluster.createIntegrity('fi', { config: { initialDelay: 3 } });
    await until('the agent has looked', () => existsSync(join(cluster.directory, 'n1')));
    cluster.write('passwd', 'still being set up');
    const first = await cluster.resultWhen('fi', isSuccess);
    const { metadata } = await cluster.client.get(released.integrities, { namespace, name: 'fi' });
    assert.ok(first.atMs - Date.parse(metadata.creationTimestamp ?? '') >= 2500);
    cluster.write('hosts', 'other');
    const second = await cluster.resultWhen('fi', isFailure, first.sequence);
    assert.deepEqual(
      second.findings.map(({ path }) => path),
      ['/etc/hosts'],
    );
  });

  deepTest('a configuration that selects nothing is an error', async () => {
    await using cluster = await TestCluster.start();
    await cluster.startAgent();
    await cluster.createIntegrity('fi', { conf: '/hostroot/nowhere p\n' });
    const first = await cluster.resultWhen('fi', ({ outcome }) => outcome.kind === 'errored');
    assert.ok(first.outcome.kind === 'errored');
    assert.match(
      first.outcome.message,
      /no baseline was created: the configuration selects no file that exists/,
    );
    await cluster.setConf('fi', conf);
    await cluster.resultWhen('fi', isSuccess, first.sequence);
  });

  test('waits without the key; reports an unusable configuration; another one makes a new baseline', async () => {
    await using cluster = await TestCluster.start({ key: false });
    await cluster.startAgent();
    await cluster.createIntegrity('fi', { conf: '/hostroot/etc p+nonsense\n' });
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.equal(await cluster.result('fi'), undefined);
    await cluster.createKey();
    const { outcome, sequence } = await cluster.resultWhen('fi', kindIs('errored'));
    assert.ok(outcome.kind === 'errored');
    assert.match(outcome.message, /nonsense/);
    await cluster.setConf('fi', '/hostroot/etc p\n');
    const first = await cluster.resultWhen('fi', isSuccess, sequence);
    await cluster.setConf('fi', '/hostroot/etc/passwd p\n');
    await cluster.resultWhen('fi', isSuccess, first.sequence);
    // The one before.
    assert.equal(backupsIn(cluster.jobDirectory('fi')).length, 1);
  });

  test('a damaged baseline is an error until another is requested', async () => {
    await using cluster = await TestCluster.start();
    const agent = await cluster.startAgent();
    await cluster.createIntegrity('fi');
    const first = await cluster.takeResult('fi');
    await agent.stop();
    const path = join(cluster.jobDirectory('fi'), 'baseline');
    const good = readFileSync(path);
    writeFileSync(path, good.subarray(0, good.length - 10));
    await cluster.startAgent();
    const second = await cluster.resultWhen('fi', kindIs('errored'), first.sequence);
    assert.ok(second.outcome.kind === 'errored');
    assert.match(second.outcome.message, /ends after/);
    await cluster.request('fi', { kind: 're-init', id: 'c1', by: 'annotation' });
    await cluster.resultWhen('fi', isSuccess, second.sequence);
  });

  deepTest('all state is lost, but the operator has seen a baseline: an error', async () => {
    await using cluster = await TestCluster.start();
    const agent = await cluster.startAgent();
    await cluster.createIntegrity('fi');
    const first = await cluster.takeResult('fi');
    await agent.stop();
    rmSync(cluster.jobDirectory('fi'), { recursive: true });
    await cluster.startAgent();
    const second = await cluster.resultWhen('fi', kindIs('errored'), first.sequence);
    assert.ok(second.outcome.kind === 'errored');
    assert.match(second.outcome.message, /is gone/);
    await cluster.request('fi', { kind: 're-init', id: 'c1', by: 'annotation' });
    await cluster.resultWhen('fi', isSuccess, second.sequence);
  });

  deepTest(
    'a FileIntegrity that was made again, in either group, goes on from the baseline of its name',
    async () => {
      await using cluster = await TestCluster.start();
      const agent = await cluster.startAgent('n1', hasty);
      // Its first result does not wait for that.
      const config = { gracePeriod: 1e6 };
      const { metadata } = await cluster.createIntegrity('fi', { config });
      const first = await cluster.resultWhen('fi', isSuccess);
      assert.equal(first.continuedFromMs, undefined);
      assert.match(first.configuration ?? '', /^native-[0-9a-f]{32}$/);
      await cluster.client.delete(released.integrities, { namespace, name: 'fi' });
      cluster.write('passwd', 'other');
      const again = await until('it is made again', () =>
        cluster.createIntegrity('fi', { types: design, config }),
      );
      assert.notEqual(again.metadata.uid, metadata.uid);
      const second = await cluster.resultWhen('fi', isFailure, first.sequence);
      assert.deepEqual(
        second.findings.map(({ path }) => path),
        ['/etc/passwd'],
      );
      assert.ok(Math.abs((second.continuedFromMs ?? 0) - first.atMs) < 10_000);
      // Nor does a restart make it its own.
      await agent.stop();
      await cluster.startAgent('n1', hasty);
      const third = await cluster.resultWhen('fi', isFailure, second.sequence);
      assert.equal(third.continuedFromMs, second.continuedFromMs);
      await cluster.request('fi', { kind: 're-init', id: 'c1', by: 'annotation' }, 'n1', design);
      const fourth = await cluster.resultWhen('fi', isSuccess, third.sequence);
      assert.equal(fourth.continuedFromMs, undefined);
    },
  );

  deepTest('one that was made again with another configuration gets a baseline of its own', async () => {
    await using cluster = await TestCluster.start();
    await cluster.startAgent();
    await cluster.createIntegrity('fi');
    const first = await cluster.resultWhen('fi', isSuccess);
    await cluster.client.delete(released.integrities, { namespace, name: 'fi' });
    await cluster.setConf('fi', '/hostroot/etc p+u+g\n');
    cluster.write('passwd', 'other');
    await until('it is made again', () => cluster.createIntegrity('fi', { conf: '/hostroot/etc p+u+g\n' }));
    const second = await cluster.resultWhen('fi', isSuccess, first.sequence);
    assert.equal(second.continuedFromMs, undefined);
    assert.notEqual(second.configuration, first.configuration);
    assert.equal(backupsIn(cluster.jobDirectory('fi')).length, 1);
  });

  test('selects nodes by present labels and taints; in both groups', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1', { role: 'worker' });
    await cluster.createNode('n2', { role: 'worker' }, [{ key: 'gpu', effect: 'NoSchedule' }]);
    const one = await cluster.startAgent('n1');
    let two = await cluster.startAgent('n2');
    await cluster.createIntegrity('fi', { spec: { nodeSelector: { role: 'worker' } }, types: design });
    await cluster.createIntegrity('other', { spec: { nodeSelector: { role: 'control' } } });
    await cluster.resultWhen('fi', isSuccess);
    assert.equal(one.state()?.jobs, 1);
    assert.equal(two.state()?.jobs, 0);
    assert.equal(await cluster.result('fi', 'n2'), undefined);
    await cluster.client.patch(nodes, { name: 'n2' }, { type: 'merge', body: { spec: { taints: [] } } });
    const { sequence } = await cluster.resultWhen('fi', isSuccess, 0, 'n2');
    // No new one begins there, also after a restart what runs goes on.
    const taints = [{ key: 'gpu', effect: 'NoSchedule' }];
    await cluster.client.patch(nodes, { name: 'n2' }, { type: 'merge', body: { spec: { taints } } });
    await two.stop();
    two = await cluster.startAgent('n2', hasty);
    cluster.write('passwd', 'other');
    await cluster.resultWhen('fi', ({ outcome }) => outcome.kind !== 'errored', sequence, 'n2');
    const labels = { role: 'control' };
    await cluster.client.patch(
      nodes,
      { name: 'n2' },
      { type: 'merge', body: { metadata: { labels }, spec: { taints: [] } } },
    );
    await cluster.resultWhen('other', isSuccess, 0, 'n2');
    assert.equal(two.state()?.jobs, 1);
  });

  deepTest('one name in both groups: the older counts, also where it is not for this node', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createNode('n1', { role: 'worker' });
    await cluster.createIntegrity('fi', { spec: { nodeSelector: { role: 'control' } }, types: design });
    // Ages are in whole seconds.
    await sleep(1100);
    await cluster.createIntegrity('fi');
    await cluster.createIntegrity('other');
    const agent = await cluster.startAgent('n1');
    await cluster.resultWhen('other', isSuccess);
    assert.equal(agent.state()?.jobs, 1);
    assert.equal(await cluster.result('fi', 'n1'), undefined);
  });

  deepTest('ignores requests to another node whose status has the same name', async () => {
    await using cluster = await TestCluster.start();
    await cluster.createIntegrity('a', { spec: { nodeSelector: { role: 'other' } } });
    await cluster.request('a', { kind: 're-init', id: 'a1', by: 'annotation' }, 'b-c');
    await cluster.startAgent('c');
    await cluster.createIntegrity('a-b');
    const { doneRequests } = await cluster.resultWhen('a-b', isSuccess, 0, 'c');
    assert.deepEqual(doneRequests, []);
  });

  deepTest('the API is away: results wait, the newest wins, also over a restart', async () => {
    await using cluster = await TestCluster.start({ memory: false });
    const agent = await cluster.startAgent();
    await cluster.createIntegrity('fi', { config: { initialDelay: 1 } });
    const first = await cluster.resultWhen('fi', isSuccess);
    await cluster.stopApi();
    cluster.write('passwd', 'other');
    await until('the finding', () => agent.lines.length === 1);
    const waiting = join(cluster.jobDirectory('fi'), 'result.json');
    await until('the result waits', () => existsSync(waiting));
    await agent.stop();
    assert.ok(existsSync(waiting));
    await cluster.startApi();
    await cluster.annotate('fi', { [names.holdoff]: '' });
    await cluster.startAgent();
    const second = await cluster.resultWhen('fi', isFailure, first.sequence);
    assert.deepEqual(
      second.findings.map(({ path }) => path),
      ['/etc/passwd'],
    );
    await until('nothing waits', () => !existsSync(waiting));
  });
});
