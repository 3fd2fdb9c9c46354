// Findings before an agent's end are known to the next one: the author of a change, its first time, whether
// it was reported.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { systemClock } from '../../../lib/time/clock.ts';
import { skewed } from '../../../lib/time/clock.fixture.ts';
import { released } from '../api.ts';
import { setOf } from '../model/attributes.ts';
import { secretKey, temporaryDirectory } from '../database/baseline.fixture.ts';
import type { ChangeAuthor } from '../model/finding.ts';
import type { NodeResult } from '../results/node-result.ts';
import { describeDifference } from '../report/describe.ts';
import { FindingsFile } from './findings-file.ts';
import { CurrentFindings } from '../results/findings.ts';
import { namespace, TestCluster } from './node.fixture.ts';
import type { ReportedChange } from '../model/report.ts';
import type { LiveJob } from '../live/live-job.ts';

const author: ChangeAuthor = {
  ...{ binary: '/usr/bin/sed', arguments: '-i x', cwd: '/', uid: 0, gid: 0, pid: 7, ppid: 1 },
  ...{ parentBinary: '/bin/sh', relation: 'host' },
};
const isFailure = ({ outcome }: NodeResult): boolean => outcome.kind === 'failed';

suite('findings over a restart', { concurrency: 2, timeout: 300_000 }, () => {
  test('an agent that ends at once: keeps author and first time, reports nothing twice, drops what ended', async () => {
    await using cluster = await TestCluster.start();
    const jobs: LiveJob[] = [];
    const agent = await cluster.startAgent('n1', {
      live: (job) => {
        jobs.push(job);
        return new DisposableStack();
      },
    });
    await cluster.createIntegrity('fi', { config: { gracePeriod: 900 } });
    const first = await cluster.resultWhen('fi', ({ outcome }) => outcome.kind === 'succeeded');
    const job = await until('it is watched', () => jobs[0]);
    const content = 'longer than before';
    cluster.write('passwd', content);
    cluster.write('shadow', content);
    const paths = ['/hostroot/etc/passwd', '/hostroot/etc/shadow'];
    const found = await job.baseline.find(paths);
    const sha256 = createHash('sha256').update(content).digest();
    const updates = paths.map((path) => {
      const old = found.get(path);
      assert.ok(old !== undefined);
      const now = { ...old, sizeBytes: content.length, sha256 };
      const difference = { kind: 'changed' as const, path, old, now, changed: setOf('s', 'sha256') };
      return { path, change: describeDifference(difference, job.reportOptions), author };
    });
    job.findings.update(updates, 1234);
    // No result has reported it yet.
    await agent.stop();
    assert.equal(statSync(join(cluster.jobDirectory('fi'), 'findings')).mode & 0o777, 0o600);
    cluster.write('shadow', 'shadow');
    const body = { spec: { config: { gracePeriod: 10 } } };
    await cluster.client.patch(released.integrities, { namespace, name: 'fi' }, { type: 'merge', body });
    // The scan that follows a start comes after ten seconds, here two.
    const again = await cluster.startAgent('n1', { clock: skewed(systemClock, { rate: 5 }) });
    const second = await cluster.resultWhen('fi', isFailure, first.sequence);
    assert.deepEqual(
      second.findings.map(({ path, seenMs, seenBy, author: by }) => ({ path, seenMs, seenBy, author: by })),
      [{ path: '/etc/passwd', seenMs: 1234, seenBy: 'event', author }],
    );
    assert.deepEqual(
      again.lines
        .map((line) => JSON.parse(line) as { state: string; path: string })
        .map(({ state, path }) => `${state} ${path}`),
      ['gone /etc/shadow'],
    );
  });

  deepTest('an agent that is killed: keeps the first time, and reports nothing twice', async () => {
    await using cluster = await TestCluster.start();
    const options = {
      kubeconfig: cluster.kubeconfig,
      hostRoot: cluster.host,
      directory: join(cluster.directory, 'n1'),
      lines: join(cluster.directory, 'lines'),
    };
    const script = join(import.meta.dirname, 'agent-process.fixture.ts');
    const untilKilled = async (work: () => Promise<NodeResult>): Promise<NodeResult> => {
      const child = spawn(process.execPath, [script, JSON.stringify(options)], { stdio: 'inherit' });
      const exited = once(child, 'exit');
      try {
        return await work();
      } finally {
        child.kill('SIGKILL');
        await exited;
      }
    };
    await cluster.createIntegrity('fi', { config: { initialDelay: 1 } });
    const first = await untilKilled(async () => {
      const { sequence } = await cluster.resultWhen('fi', ({ outcome }) => outcome.kind === 'succeeded');
      cluster.write('passwd', 'other');
      return cluster.resultWhen('fi', isFailure, sequence);
    });
    const second = await untilKilled(() => cluster.resultWhen('fi', isFailure, first.sequence));
    assert.deepEqual(second.findings, first.findings);
    assert.match(readFileSync(options.lines, 'utf8'), /^[^\n]*"state":"found"[^\n]*\n$/);
  });
});

suite('the file of findings', () => {
  const change = (path: string, value = 'x'): ReportedChange => ({
    ...{ kind: 'added', path: `/hostroot${path}`, type: 'f', summary: 'f++++' },
    details: [{ name: 'sha256', old: [], now: [value] }],
  });
  const warnings: unknown[] = [];
  const logger = { warn: (...args: unknown[]) => void warnings.push(args) } as never;
  const findingsOf = (directory: string): { findings: CurrentFindings; file: FindingsFile } => {
    const findings = new CurrentFindings({ prefix: '/hostroot', onChange: () => undefined });
    return { findings, file: new FindingsFile(directory, findings, logger) };
  };

  test('a state file changed by others, or signed by another key, is reported and not used', async () => {
    using directory = temporaryDirectory();
    const { findings, file } = findingsOf(directory.path);
    findings.update([{ path: '/hostroot/a', change: change('/a'), author }], 1);
    await file.write(secretKey);
    const path = join(directory.path, 'findings');
    const good = readFileSync(path, 'utf8');
    const heldAfter = async (text: string): Promise<number> => {
      writeFileSync(path, text);
      const again = findingsOf(directory.path);
      await again.file.restore(secretKey);
      return [...again.findings.held].length;
    };
    assert.equal(await heldAfter(good), 1);
    assert.equal(warnings.length, 0);
    for (const bad of [good.replace('sed', 'awk'), good.slice(0, -9), '', '{}'])
      assert.equal(await heldAfter(bad), 0);
    assert.equal(warnings.length, 4);
  });

  test('keeps who touched a file later; reads files of earlier versions without it', async () => {
    using directory = temporaryDirectory();
    const { findings, file } = findingsOf(directory.path);
    const content = { ...change('/a'), kind: 'changed' as const };
    const touch = { name: 'change_time', old: ['1'], now: ['2'] };
    findings.update([{ path: content.path, change: content, author }], 1);
    await file.write(secretKey);
    const before = findingsOf(directory.path);
    await before.file.restore(secretKey);
    assert.deepEqual(before.findings.get(content.path)?.author, author);
    const chmod = { ...author, binary: '/usr/bin/chmod' };
    const touched = { ...content, details: [...content.details, touch] };
    for (const one of [findings, before.findings])
      one.update([{ path: content.path, change: touched, touchedBy: chmod, isTouch: true }], 2);
    await file.write(secretKey);
    const after = findingsOf(directory.path);
    await after.file.restore(secretKey);
    for (const one of [before.findings, after.findings]) {
      const finding = one.get(content.path);
      assert.deepEqual([finding?.seenMs, finding?.author], [1, author]);
      assert.deepEqual(finding?.last, { seenMs: 2, seenBy: 'event', author: chmod });
    }
  });

  test('has a size limit, and keeps the findings that were seen last', async () => {
    using directory = temporaryDirectory();
    const { findings, file } = findingsOf(directory.path);
    const large = 'x'.repeat(1024 * 1024);
    for (let at = 0; at < 20; at++)
      findings.update([{ path: `/hostroot/${at}`, change: change(`/${at}`, large) }], at);
    await file.write(secretKey);
    assert.ok(statSync(join(directory.path, 'findings')).size < 17 * 1024 * 1024);
    const again = findingsOf(directory.path);
    await again.file.restore(secretKey);
    const kept = [...again.findings.held].map(({ finding }) => finding.path);
    assert.deepEqual(kept, [
      '/5',
      '/6',
      '/7',
      '/8',
      '/9',
      '/10',
      '/11',
      '/12',
      '/13',
      '/14',
      '/15',
      '/16',
      '/17',
      '/18',
      '/19',
    ]);
  });
});
