import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';

import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { sensorSkip, testMode } from '../../lib/sensor/sensor.fixture.ts';
import { startLab } from '../../test/lab/lab.ts';
import { labObstacle } from '../../test/lab/obstacle.ts';
import { applyManifest } from '../agent/apply.fixture.ts';
import { kustomizedText } from '../../scripts/kustomize.ts';
import { RampartProcess } from '../apiserver/rampart-process.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { Commands } from '../commands.fixture.ts';
import { rampart, Standalone } from '../standalone/standalone.fixture.ts';
import type { JsonReport } from './found.fixture.ts';

interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const commands = new Commands();
const environment = { HOME: '/nonexistent', KUBECONFIG: undefined };
const status = (...args: readonly string[]): Promise<Ran> => commands.run(['status', ...args], environment);

/** In a process of its own, which has to end. */
function statusProcess(...args: readonly string[]): Ran {
  const {
    status: code,
    stdout,
    stderr,
  } = spawnSync(rampart, ['status', ...args], {
    encoding: 'utf8',
    timeout: 60_000,
    env: { PATH: process.env['PATH'], HOME: '/nonexistent' },
  });
  return { code, stdout, stderr };
}

/** Asks until it is so: what the agent and the operator say takes a moment. */
async function until(args: readonly string[], holds: (report: JsonReport) => boolean): Promise<JsonReport> {
  const patience = AbortSignal.timeout(60_000);
  for (;;) {
    const { code, stdout, stderr } = await status(...args, '--format', 'json');
    assert.notEqual(code, 2, stderr);
    const report = JSON.parse(stdout) as JsonReport;
    assert.equal(code, report.guarded ? 0 : 1);
    if (holds(report)) return report;
    assert.ok(!patience.aborted, stdout);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const kinds = ({ problems }: JsonReport): string[] =>
  problems.map(({ object, kind }) => `${object.name} ${kind}`);

const policy = (name: string, ...traps: readonly object[]): string =>
  JSON.stringify({
    apiVersion: 'kivebpf.san7o.github.io/v1',
    kind: 'KivePolicy',
    metadata: { name, namespace: 'kivebpf-system' },
    spec: { traps },
  });
const high = [{ matchLabels: { 'security-level': 'high' } }];

suite('rampart status', () => {
  after(() => commands[Symbol.asyncDispose]());

  for (const [what, args, pattern] of [
    [
      'a kubeconfig that is not there',
      ['--kubeconfig', '/no/such'],
      /cannot read kubeconfig \/no\/such: ENOENT/,
    ],
    [
      'a directory that is none',
      ['--data', '/no/such'],
      /cannot read kubeconfig \/no\/such\/kubeconfig: ENOENT/,
    ],
    ['two places to ask', ['--data', '/d', '--kubeconfig', '/k'], /together/],
    ['nothing to ask', [], /no Kubernetes API server is configured/],
    ['an empty namespace', ['-n', ''], /--namespace is empty/],
    ['a format that is none', ['--format', 'xml'], /Allowed choices are table, wide, json, yaml/],
  ] as const) {
    test(`unknown: ${what}`, async () => {
      const { code, stdout, stderr } = await status(...args);
      assert.deepEqual({ code, stdout }, { code: 2, stdout: '' }, stderr);
      assert.match(stderr, pattern);
    });
  }
});

suite('rampart status with real pods', { skip: sensorSkip || labObstacle(), concurrency: true }, () => {
  after(() => commands[Symbol.asyncDispose]());

  deepTest('status of rampart standalone: all guarded, and what is not', async () => {
    await using lab = await startLab();
    await using one = new Standalone();
    const data = ['--data', one.at('data')];
    await one.start('--cri-socket', lab.socketPath);
    assert.match((await status(...data)).stdout, /^There are no policies: nothing is guarded\./);
    const typo = statusProcess(...data, '-n', 'typo');
    assert.deepEqual([typo.code, typo.stdout], [2, ''], typo.stderr);
    assert.match(typo.stderr, /there is no namespace typo/);
    await lab.runPod({ name: 'nginx-pod', namespace: 'shop', labels: { 'security-level': 'high' } });
    using client = new KubeClient(findClusterAccess({ path: one.at('data/kubeconfig') }));
    const apply = (name: string, ...traps: readonly object[]): Promise<void> =>
      applyManifest(client, policy(name, ...traps));
    await apply('secrets', { path: '/etc/shadow', matchAny: high });
    const well = await until(
      data,
      ({ policies, guarded, operator }) =>
        guarded && policies[0]?.ready?.status === 'True' && operator.state === 'held',
    );
    assert.equal(well.schema, 'rampart.dev/status/v2');
    assert.deepEqual(
      well.policies.map(({ name, containers, files, kiveData }) => [name, containers, files, kiveData]),
      [['secrets', 1, 1, 1]],
    );
    assert.deepEqual(
      well.nodes.map(({ agent, agentPod, loader, containers, files }) => [
        agent,
        agentPod,
        loader.state,
        containers,
        files,
      ]),
      [['running', null, 'held', 1, 1]],
    );
    const { code, stdout, stderr } = statusProcess(...data);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    assert.match(stdout, /^All files of the policy are watched\./);
    assert.match(stdout, /^kivebpf-system\/secrets {2}1 {6}1 {11}1 {6}- {11}yes$/m);
    assert.match(stdout, /^\S+ +running +this agent, \d+ s ago +[0-9a-f]{8} +1 +1$/m);

    await apply('missing', { path: '/etc/shadow', matchAny: high }, { path: '/no/such', matchAny: high });
    await apply('nobody', { path: '/etc/shadow', matchAny: [{ pod: 'vault-0' }] });
    await apply(
      'refused',
      { path: '/etc/passwd', matchAny: high },
      { path: '/x', matchAny: [{ ip: '300.1.1.1' }] },
    );
    const broken = await until(
      data,
      (report) =>
        kinds(report).join() === 'missing file-missing,nobody no-match,refused trap-refused' &&
        // The operator comes after the agents.
        report.policies.map(({ ready }) => ready?.reason).join() ===
          'FilesMissing,NoMatch,TrapsRefused,Watching',
    );
    assert.ok(broken.policies.every(({ ready }) => ready?.isCurrent === true));
    const text = await status(...data);
    assert.equal(text.code, 1);
    assert.match(text.stdout, /^3 of 4 policies are not fully in effect\./);
    assert.match(
      text.stdout,
      /^ {4}node \S+, spec\.traps\[1\]: \/no\/such in shop\/nginx-pod\/nginx is not watched:\s+\/no\s+does\s+not\s+exist/m,
    );
    assert.equal((await status(...data, '-n', 'shop')).code, 0);

    await one.stop('SIGKILL');
    const away = await status(...data);
    assert.equal(away.code, 1);
    assert.match(away.stdout, /^4 of 4 policies are not fully in effect\./);
    assert.match(
      away.stdout,
      /the agent no longer renews its lease, although .*\s.*Start\s+rampart\s+standalone\s+with\s+--data/,
    );
    assert.match(away.stderr, /^rampart: cannot list \w+: no response from 127\.0\.0\.1:\d+: .*\n$/);
  });

  deepTest(
    'status of a cluster: a node without an agent, one that is guarded, one whose agent was killed',
    async () => {
      using directory = new TemporaryDirectory();
      await using stack = new AsyncDisposableStack();
      const server = stack.use(
        await RampartProcess.apiServer('--data', directory.at('data'), '--listen', '127.0.0.1:0'),
      );
      const kubeconfig = await server.ready;
      const kubectl = (args: readonly string[], input = ''): void => {
        const ran = spawnSync('kubectl', ['--kubeconfig', kubeconfig, ...args], {
          input,
          encoding: 'utf8',
          env: { PATH: process.env['PATH'], HOME: directory.path },
        });
        assert.equal(ran.status, 0, ran.stderr);
      };
      const notThere = await status('--kubeconfig', kubeconfig);
      assert.equal(notThere.code, 2);
      assert.match(
        notThere.stderr,
        /does not serve KivePolicy or FileIntegrity or .*: Rampart is not installed there/,
      );

      kubectl(['apply', '-f', '-'], kustomizedText(join(import.meta.dirname, '../../deploy')));
      // As the operator does, which does not run here.
      kubectl(['create', 'namespace', 'kivebpf-system']);
      const lab = stack.use(await startLab());
      const pod = await lab.runPod({ name: 'nginx-pod', labels: { 'security-level': 'high' } });
      const metadata = {
        name: 'nginx-pod',
        namespace: 'default',
        labels: { 'security-level': 'high' },
        // As a kubelet mirrors what it has not from the API.
        annotations: { 'kubernetes.io/config.hash': pod.uid },
      };
      const spec = { nodeName: 'n1', containers: [{ name: 'nginx', image: 'lab' }] };
      kubectl(['create', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata, spec }));
      const running = JSON.stringify({ status: { phase: 'Running', podIP: pod.ip } });
      kubectl(['patch', 'pod', 'nginx-pod', '--subresource=status', '--type=merge', '-p', running]);
      kubectl(['apply', '-f', '-'], policy('secrets', { path: '/etc/shadow', matchAny: high }));
      const cluster = ['--kubeconfig', kubeconfig];
      const silent = await until(cluster, () => true);
      assert.deepEqual(kinds(silent), ['secrets agent-missing']);
      assert.deepEqual(silent.operator, { state: 'free', holder: null, renewedSecondsAgo: null });
      assert.match(
        (await status(...cluster)).stdout,
        /node n1: the agent has never run, although a trap matches 1 container there\.\s+Start/,
      );

      const agent = spawn(
        rampart,
        [
          ...['agent', '--node-name', 'n1', '--cri-socket', lab.socketPath, '--spool', directory.at('spool')],
          ...[
            '--mode',
            testMode(),
            '--alerts-socket',
            directory.at('alerts.sock'),
            '--kubeconfig',
            kubeconfig,
          ],
        ],
        { stdio: 'ignore' },
      );
      const ended = once(agent, 'close');
      stack.defer(async () => {
        agent.kill('SIGKILL');
        await ended;
      });
      const guarded = await until(cluster, (report) => report.guarded);
      assert.equal(guarded.policies[0]?.ready, null);
      // The sums are missing; the agent's part is enough.
      assert.match((await status(...cluster)).stdout, /^kivebpf-system\/secrets .* yes, unconfirmed$/m);

      agent.kill('SIGKILL');
      await ended;
      const killed = await until(cluster, (report) => !report.guarded && report.nodes[0]?.agent === 'dead');
      assert.deepEqual(kinds(killed), ['secrets agent-dead']);
      assert.equal(killed.nodes[0]?.loader.state, 'stale');
    },
  );
});
