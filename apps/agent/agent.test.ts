import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';

import { kiveDataType, kivePolicyType } from '../../guards/file-access/api.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { pods } from '../../lib/kube/object/object.ts';
import { issueAuthority, issueServerCertificate } from '../../lib/x509/certificate.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { sensorSkip, testMode } from '../../lib/sensor/sensor.fixture.ts';
import type { KiveAlert } from '../../guards/file-access/alert/alert.ts';
import { startLab } from '../../test/lab/lab.ts';
import { labObstacle } from '../../test/lab/obstacle.ts';
import { rampart, RampartProcess } from '../apiserver/rampart-process.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { Commands } from '../commands.fixture.ts';
import { guards } from '../guards.ts';
import { applyManifest } from './apply.fixture.ts';
import { kustomize } from '../../scripts/kustomize.ts';
import { statusOf } from '../../guards/file-access/policy-status-schema.ts';

const deploy = join(import.meta.dirname, '../../deploy');

/** TCP ports on which a process listens. */
function portsOf(pid: number): number[] {
  const links = readdirSync(`/proc/${pid}/fd`).map((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`);
    } catch {
      return ''; // closed meanwhile
    }
  });
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      // LISTEN, in include/net/tcp_states.h
      .filter(([, , , state, , , , , , inode]) => state === '0A' && links.includes(`socket:[${inode}]`))
      .map(([, local = '']) => Number.parseInt(local.slice(local.indexOf(':') + 1), 16)),
  );
}

suite('rampart agent and rampart operator', () => {
  const commands = new Commands();
  after(() => commands[Symbol.asyncDispose]());

  for (const [what, args, pattern] of [
    ['an agent without a node', ['agent'], /name of this node is unknown\. Set NODE_NAME/],
    ['an agent without a cluster', ['agent', '--node-name', 'n'], /no Kubernetes API server is configured/],
    [
      'a Secret for callbacks that is none',
      ['agent', '--node-name', 'n', '--callback-secret', 'http://a=b/c'],
      /does not start with an https origin/,
    ],
    ['an operator without a cluster', ['operator'], /no Kubernetes API server is configured/],
    [
      'a kubeconfig that is not there',
      ['operator', '--kubeconfig', '/no/such/file'],
      /no\/such\/file|no Kubernetes API/,
    ],
  ] as const) {
    test(`refused: ${what}`, async () => {
      const env = { HOME: '/nonexistent', KUBECONFIG: undefined };
      const { code, stdout, stderr } = await commands.run(args, env);
      assert.deepEqual({ code, stdout }, { code: 2, stdout: '' }, stderr);
      assert.match(stderr, pattern);
    });
  }
});

suite('a cluster with one node', { skip: sensorSkip || labObstacle() }, () => {
  test('alerts reach stdout and the callback, with what deploy/ installs and nothing else', async () => {
    using directory = new TemporaryDirectory();
    const posted: KiveAlert[] = [];
    const tokens = new Set<string | undefined>();
    const validity = { now: new Date(), days: 2 };
    const authority = issueAuthority('receivers', validity);
    const receiver = createServer(
      issueServerCertificate(authority, ['127.0.0.1'], validity),
      (request, response) => {
        tokens.add(request.headers.authorization);
        let body = '';
        request.setEncoding('utf8').on('data', (part: string) => (body += part));
        request.on('end', () => {
          posted.push(JSON.parse(body) as KiveAlert);
          response.writeHead(202).end();
        });
      },
    ).listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    await using stack = new AsyncDisposableStack();
    stack.defer(() => void receiver.close());
    const { port } = receiver.address() as AddressInfo;
    const server = stack.use(
      await RampartProcess.apiServer('--data', directory.at('data'), '--listen', '127.0.0.1:0'),
    );
    const kubeconfig = await server.ready;
    const client = stack.use(
      new KubeClient(findClusterAccess({ path: kubeconfig }), { perSecond: 1000, burst: 1000 }),
    );
    await applyManifest(client, kustomize(deploy));
    await applyManifest(client, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'receiver', namespace: 'rampart-system' },
      stringData: { token: 'of-the-agent', 'ca.crt': authority.cert },
    });
    const lab = stack.use(await startLab());
    const pod = await lab.runPod({ name: 'nginx-pod', labels: { 'security-level': 'high' } });
    const container = pod.containers.get('nginx');
    assert.ok(container);
    // As a kubelet mirrors what it has not from the API.
    const annotations = { 'kubernetes.io/config.hash': pod.uid };
    const metadata = {
      name: 'nginx-pod',
      namespace: 'default',
      labels: { 'security-level': 'high' },
      annotations,
    };
    const spec = { nodeName: 'n1', containers: [{ name: 'nginx', image: 'lab' }] };
    await client.create(pods, { metadata, spec });
    const body = { status: { phase: 'Running', podIP: pod.ip } };
    await client.patch(
      pods,
      { namespace: 'default', name: 'nginx-pod', subresource: 'status' },
      { type: 'merge', body },
    );

    const operator = stack.use(
      new RampartProcess(['operator', '--kubeconfig', kubeconfig, '--metrics', '0']),
    );
    const agent = spawn(
      rampart,
      [
        ...['agent', '--node-name', 'n1', '--cri-socket', lab.socketPath, '--spool', directory.at('spool')],
        ...['--mode', testMode(), '--metrics', '0', '--allow-callback', '127.0.0.1'],
        ...['--callback-secret', `https://127.0.0.1:${port}=rampart-system/receiver`],
        ...['--alerts-socket', directory.at('alerts.sock')],
      ],
      { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, KUBECONFIG: kubeconfig } },
    );
    const ended = once(agent, 'close');
    stack.defer(async () => {
      agent.kill('SIGKILL');
      await ended;
    });
    let [stdout, stderr] = ['', ''];
    agent.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    agent.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));

    const trap = {
      path: '/etc/shadow',
      callback: `https://127.0.0.1:${port}/`,
      matchAny: [{ matchLabels: { 'security-level': 'high' } }],
    };
    const policy = { metadata: { name: 'p', namespace: 'default' }, spec: { traps: [trap] } };
    await client.create(kivePolicyType, policy);
    await until('the policy to be ready', async () => {
      const { conditions } = statusOf(await client.get(kivePolicyType, policy.metadata));
      return conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
    });
    // Until the agent is the loader of this kernel, what is read is not alerted.
    await until('an alert', async () => {
      await lab.exec(container, ['cat', '/etc/shadow']);
      return posted.length > 0;
    });
    const lines = stdout
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as KiveAlert);
    assert.equal(posted[0]?.node.name, 'n1');
    assert.deepEqual([...tokens], ['Bearer of-the-agent']);
    assert.equal(posted[0]?.pod.container.id, `containerd://${container.id}`);
    assert.deepEqual(lines[0], posted[0]);
    const url = /metrics on (\S+)\/metrics/.exec(stderr)?.[1] ?? '';
    assert.equal(
      await (await fetch(`${url}/healthz`)).text(),
      '[+] file-access-node-sensor\n[+] file-integrity-node-scan\nok\n',
    );
    // Who only looks does not ask the agent.
    assert.deepEqual(portsOf(agent.pid ?? 0), [Number(new URL(url).port)]);
    const readyz = await fetch(`${url}/readyz`);
    assert.equal(readyz.status, 200);
    const guardParts = {
      'file-access-node': ['kivepolicies', 'pods', 'kivedata', 'containers', 'files', 'loader'],
      'file-integrity-node': [
        'fileintegrities.fileintegrity.openshift.io',
        'nodeintegrities.file-integrity.openshift.io',
        'nodes',
        'jobs',
      ],
      'network-policy-node': ['networkpolicies', 'pods', 'namespaces', 'node', 'rules'],
      'bpf-programs-node': [
        ...['programs-listed', 'bpfprograms', 'bpfnsprograms', 'clusterbpfapplicationstates'],
        ...['bpfapplicationstates', 'csi', 'pods', 'node', 'programs'],
      ],
    };
    // Guards begin when what they need is served: in any order.
    const expected = Object.entries(guardParts).flatMap(([guard, parts]) => [
      `[+] ${guard}`,
      ...parts.map((part) => `[+] ${guard}-${part}`),
    ]);
    assert.deepEqual(
      (await readyz.text()).split('\n').toSorted(),
      ['', 'ready', '[+] container-runtime', ...expected].toSorted(),
    );
    const metrics = await (await fetch(`${url}/metrics`)).text();
    assert.match(metrics, /^rampart_agent_ready 1$/m);
    assert.match(metrics, /^rampart_file_access_latency_seconds_bucket\{le="\+Inf"\} [1-9]\d*$/m);
    // Metrics of OTLP are there with --otlp-endpoint.
    const documented = guards
      .map(({ name }) => readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8'))
      .join('');
    assert.deepEqual(
      new Set([...metrics.matchAll(/^# HELP (\S+)/gm)].map(([, name]) => name)),
      new Set(
        [
          ...documented.matchAll(
            /^\| `((?:rampart(?!_otlp)|process|kube_router)_\w+)` (?!.*\| operator +\|$)/gm,
          ),
        ].map(([, name]) => name),
      ),
    );

    await client.delete(kivePolicyType, policy.metadata);
    await until('no KiveData', async () => (await client.list(kiveDataType)).items.length === 0);
    agent.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null], stderr);
    const { code } = await operator.stop();
    assert.equal(code, 0);
  });
});
