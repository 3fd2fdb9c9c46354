// Failures around the agent: a full disk, a kill in the middle of a scan; several FileIntegrities over the
// same files.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { createMetrics } from '../../../lib/telemetry/metrics.ts';
import { shareMetrics } from '../../../lib/kube/controller/shared-metrics.ts';
import { Health } from '../../../lib/telemetry/health.ts';
import type { NodeResult } from '../results/node-result.ts';
import { SmallDisk, smallDiskSkip } from '../../../lib/testing/small-disk.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import type { IntegrityProvider } from '../provider/provider.ts';
import { NativeProvider } from './native-provider.ts';
import { TestCluster } from './node.fixture.ts';

const isSuccess = ({ outcome }: NodeResult): boolean => outcome.kind === 'succeeded';
const isFailure = ({ outcome }: NodeResult): boolean => outcome.kind === 'failed';

/** Bytes that this process has read, whatever from (proc(5), rchar). */
function bytesRead(): number {
  return Number(/rchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
}

suite('faults around the agent', { timeout: 300_000 }, () => {
  test(
    'a full disk: errored with the reason, the baseline stays, and it goes on by itself',
    { skip: smallDiskSkip() },
    async () => {
      using disk = new SmallDisk(512);
      await using cluster = await TestCluster.start();
      for (let at = 0; at < 2000; at++) cluster.write(`many/file${at}`, String(at));
      await cluster.startAgent('n1', { directory: disk.path });
      await cluster.createIntegrity('fi', { config: { maxBackups: 0 } });
      const first = await cluster.resultWhen('fi', isSuccess);
      disk.fill();
      cluster.write('passwd', 'other');
      await cluster.request('fi', { kind: 're-init', id: 'a1', by: 'annotation' });
      const second = await cluster.resultWhen(
        'fi',
        ({ outcome }) => outcome.kind === 'errored',
        first.sequence,
      );
      assert.ok(second.outcome.kind === 'errored');
      assert.match(second.outcome.message, /no space/);
      assert.deepEqual(second.doneRequests, []);
      disk.free();
      const third = await cluster.resultWhen('fi', isSuccess, second.sequence);
      assert.deepEqual(third.doneRequests, ['a1']);
    },
  );

  deepTest(
    'a scan needs no disk space: changes are reported on a full disk',
    { skip: smallDiskSkip() },
    async () => {
      using disk = new SmallDisk(256);
      await using cluster = await TestCluster.start();
      await cluster.startAgent('n1', { directory: disk.path });
      await cluster.createIntegrity('fi', { config: { initialDelay: 1 } });
      const first = await cluster.resultWhen('fi', isSuccess);
      disk.fill();
      cluster.write('passwd', 'other');
      const second = await cluster.resultWhen('fi', isFailure, first.sequence);
      assert.deepEqual(
        second.findings.map(({ path }) => path),
        ['/etc/passwd'],
      );
    },
  );

  deepTest('two FileIntegrities over the same files: read once', async () => {
    await using cluster = await TestCluster.start();
    const sizeBytes = 48 * 1024 * 1024;
    mkdirSync(join(cluster.host, 'etc/large'));
    const file = openSync(cluster.at('large/file'), 'w');
    const part = Buffer.alloc(1024 * 1024, 7);
    for (let written = 0; written < sizeBytes; written += part.length) writeSync(file, part);
    closeSync(file);
    const metrics = await createMetrics();
    const health = new Health();
    const agent = await cluster.startAgent('n1', { metrics: shareMetrics(metrics), health });
    const config = { gracePeriod: 12, initialDelay: 3 };
    await cluster.createIntegrity('one', { conf: '/hostroot/etc f s+sha256\n', config });
    await cluster.createIntegrity('two', { conf: '/hostroot/etc/large f s+sha256\n', config });
    const first = await cluster.resultWhen('one', isSuccess);
    const second = await cluster.resultWhen('two', isSuccess);
    cluster.write('large/new', 'new');
    const before = bytesRead();
    await cluster.resultWhen('one', isFailure, first.sequence);
    await cluster.resultWhen('two', isFailure, second.sequence);
    const read = bytesRead() - before;
    assert.ok(read > sizeBytes && read < 1.7 * sizeBytes, `${read} bytes were read for ${sizeBytes}`);
    const text = metrics.registry.metrics();
    assert.match(text, /^rampart_file_integrity_runs_total\{kind="check"\} 2$/m);
    assert.match(text, /^rampart_file_integrity_scan_seconds_count 3$/m);
    assert.match(
      text,
      /^rampart_file_integrity_findings\{file_integrity="openshift-file-integrity\/two"\} 1$/m,
    );
    assert.match(text, /^rampart_file_integrity_findings_total\{seen_by="scan"\} 2$/m);
    const one = '{file_integrity="openshift-file-integrity/one"}';
    assert.ok(text.includes(`\nrampart_file_integrity_scan_period_seconds${one} 12\n`), text);
    const [, atS] =
      /^rampart_file_integrity_last_scan_timestamp_seconds\{.*\/one"\} (\S+)$/m.exec(text) ?? [];
    assert.ok(Math.abs(Number(atS) - Date.now() / 1000) < 300, text);
    assert.ok(health.readiness().ok, health.readiness().text);
    assert.ok(health.liveness().ok, health.liveness().text);
    assert.equal(agent.lines.length, 2);
  });

  deepTest('a provider that checks one after the other: the files of each are counted', async () => {
    await using cluster = await TestCluster.start();
    const metrics = await createMetrics();
    const native = new NativeProvider({ version: '0', workers: 1 });
    const alone: IntegrityProvider = {
      name: 'native',
      state: (job) => native.state(job),
      init: (job, options) => native.init(job, options),
      check: (job, options) => native.check(job, options),
      accept: (job, paths, about, options) => native.accept(job, paths, about, options),
    };
    const options = { metrics: shareMetrics(metrics), providers: { native: () => alone } };
    const sum = (name: string): number =>
      Number(
        new RegExp(`^rampart_file_integrity_${name} (\\d+)$`, 'm').exec(metrics.registry.metrics())?.[1],
      );
    await cluster.startAgent('n1', options);
    // Steps due within a quarter of the period are done at once.
    const config = { gracePeriod: 600, initialDelay: 1 };
    await cluster.createIntegrity('one', { config });
    await cluster.createIntegrity('two', { config });
    await until('both are checked', () => sum('runs_total\\{kind="check"\\}') === 2);
    assert.equal(sum('scan_seconds_count'), 3);
    // /etc, hosts, passwd, shadow, deep, deep/er, deep/er/file: two baselines, two checks.
    assert.equal(sum('files_total'), 4 * 7);
  });

  deepTest('an agent killed again and again, also during scans, reports the changes', async () => {
    await using cluster = await TestCluster.start();
    for (let at = 0; at < 300; at++) cluster.write(`many/file${at}`, String(at));
    const options = {
      kubeconfig: cluster.kubeconfig,
      hostRoot: cluster.host,
      directory: join(cluster.directory, 'n1'),
    };
    const script = join(import.meta.dirname, 'agent-process.fixture.ts');
    await cluster.createIntegrity('fi', { config: { initialDelay: 0 } });
    const killed = async (waitMs: number): Promise<void> => {
      const child = spawn(process.execPath, [script, JSON.stringify(options)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const exited = once(child, 'exit');
      await Promise.race([once(child.stdout, 'data'), exited]);
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      child.kill('SIGKILL');
      assert.equal((await exited)[1], 'SIGKILL');
    };
    for (const waitMs of [0, 60, 120, 180, 400]) await killed(waitMs);
    const agent = await cluster.startAgent();
    const first = await cluster.resultWhen('fi', isSuccess);
    cluster.write('passwd', 'other');
    await agent.stop();
    for (const waitMs of [30, 150]) await killed(waitMs);
    await cluster.request('fi', { kind: 're-init', id: 'a1', by: 'annotation' });
    for (const waitMs of [20, 90]) await killed(waitMs);
    await cluster.startAgent();
    const second = await cluster.resultWhen(
      'fi',
      ({ doneRequests }) => doneRequests.includes('a1'),
      first.sequence,
    );
    assert.ok(isSuccess(second));
    await until('what waits is sent', async () => (await cluster.result('fi'))?.outcome.kind === 'succeeded');
  });
});
