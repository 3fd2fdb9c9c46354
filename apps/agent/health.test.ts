// The processes' health while their dependencies are away, and the probes of deploy/.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { after, suite, test } from 'node:test';

import { parse } from 'yaml';

import { KubeClient } from '../../lib/kube/client/client.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { guards } from '../guards.ts';
import { installResources } from '../resources.ts';
import { sensorSkip, testMode } from '../../lib/sensor/sensor.fixture.ts';
import { answersFrom, FakeRuntime } from '../../lib/cri/runtime.fixture.ts';
import { Commands } from '../commands.fixture.ts';
import { RampartProcess } from '../apiserver/rampart-process.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { Standalone } from '../standalone/standalone.fixture.ts';
import { deepTest, isDeep } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import type { JsonReport } from '../status/found.fixture.ts';

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}
interface Container {
  readonly args: readonly string[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
}
interface Workload {
  readonly spec: { readonly template: { readonly spec: { readonly containers: readonly [Container] } } };
}

interface Health {
  readonly status: number;
  readonly lines: readonly string[];
}

/** Asks until it answers. */
async function ask(running: { readonly stderr: string }, path: string): Promise<Health> {
  const patience = AbortSignal.timeout(60_000);
  for (;;) {
    const url = /metrics on (\S+)\/metrics/.exec(running.stderr)?.[1];
    if (url !== undefined) {
      // A connection that waited for longer than the server keeps it is reset under the next request.
      const answer = await fetch(`${url}${path}`, { headers: { connection: 'close' } });
      return { status: answer.status, lines: (await answer.text()).trimEnd().split('\n') };
    }
    assert.ok(!patience.aborted, running.stderr);
    await delay(20);
  }
}

async function askUntil(
  running: { readonly stderr: string },
  path: string,
  holds: (health: Health) => boolean,
): Promise<Health> {
  const patience = AbortSignal.timeout(60_000);
  for (;;) {
    const health = await ask(running, path);
    if (holds(health)) return health;
    assert.ok(!patience.aborted, `${health.lines.join('\n')}\n${running.stderr}`);
    await delay(50);
  }
}

/** A kubeconfig of a server that does not exist. */
const nowhere = (port: number): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${port}` } }],
    users: [{ name: 'u', user: {} }],
  });

suite('probes', () => {
  const commands = new Commands();
  after(() => commands[Symbol.asyncDispose]());

  for (const name of ['agent', 'operator']) {
    test(`deploy/base/${name}.yaml asks what the process serves`, () => {
      const text = readFileSync(new URL(`../../deploy/base/${name}.yaml`, import.meta.url), 'utf8');
      const [container] = (parse(text) as Workload).spec.template.spec.containers;
      const { args, ports, livenessProbe, readinessProbe } = container;
      const port = ports.find((one) => one.name === 'metrics')?.containerPort;
      // kubelet asks at the address of the pod, not at its loopback.
      assert.ok(args.includes(`--metrics=0.0.0.0:${port}`));
      assert.deepEqual(livenessProbe.httpGet, { path: '/healthz', port: 'metrics' });
      assert.deepEqual(readinessProbe.httpGet, { path: '/readyz', port: 'metrics' });
    });
  }

  test('an operator without its cluster is alive and not ready; ready once it knows who leads', async () => {
    using directory = new TemporaryDirectory();
    await using server = await RampartProcess.apiServer(
      '--data',
      directory.at('data'),
      '--listen',
      '127.0.0.1:0',
    );
    const kubeconfig = await server.ready;
    server.signal('SIGSTOP');
    const args = ['operator', '--kubeconfig', kubeconfig, '--metrics', '0'];
    await using operator = new RampartProcess(args);
    assert.deepEqual(await ask(operator, '/readyz'), {
      status: 503,
      lines: [
        '[-] file-access: it has not started yet',
        '[-] file-integrity: it has not started yet',
        '[-] policy-audit: it has not started yet',
        '[-] bpf-programs: it has not started yet',
        'not ready',
      ],
    });
    assert.deepEqual(await ask(operator, '/healthz'), { status: 200, lines: ['ok'] });
    server.signal('SIGCONT');
    // Its objects do not exist: no custom resources are installed.
    await askUntil(operator, '/readyz', ({ lines: [first = ''] }) =>
      /^\[-\] file-access: the API does not serve kivepolicies\.\S+: its CustomResourceDefinition is not installed$/.test(
        first,
      ),
    );
    using client = new KubeClient(findClusterAccess({ path: kubeconfig }));
    await installResources(client, guards, AbortSignal.timeout(60_000));
    const { lines } = await askUntil(operator, '/readyz', ({ status }) => status === 200);
    assert.ok(lines.includes('[+] file-access-lease'));
    assert.ok(lines.includes('[+] file-access-kivepolicies'));
    if (!isDeep) return;
    // One that waits for its turn is ready to have it.
    await using other = new RampartProcess(args);
    await askUntil(other, '/readyz', ({ status }) => status === 200);
  });

  test('an agent without API and container runtime says so, and is alive', { skip: sensorSkip }, async () => {
    using directory = new TemporaryDirectory();
    writeFileSync(directory.at('kubeconfig'), nowhere(9));
    await using agent = new RampartProcess([
      ...['agent', '--node-name', 'n1', '--kubeconfig', directory.at('kubeconfig'), '--metrics', '0'],
      ...['--cri-socket', directory.at('none.sock'), '--spool', directory.at('spool'), '--mode', testMode()],
      ...['--alerts-socket', directory.at('alerts.sock')],
    ]);
    const { status, lines } = await askUntil(agent, '/readyz', (now) =>
      ['file-integrity', 'bpf-programs'].every((guard) =>
        now.lines.some((line) => line.includes(`${guard}-node: cannot get`)),
      ),
    );
    assert.equal(status, 503);
    assert.match(lines.find((line) => line.includes('container-runtime')) ?? '', /none\.sock/);
    assert.deepEqual(
      lines.filter((line) => !line.includes('container-runtime')),
      [
        '[-] file-access-node: cannot get /apis/kivebpf.san7o.github.io/v1: no response from 127.0.0.1:9: nothing listens there (connect ECONNREFUSED 127.0.0.1:9)',
        '[-] file-integrity-node: cannot get /apis/fileintegrity.openshift.io/v1alpha1: no response from 127.0.0.1:9: nothing listens there (connect ECONNREFUSED 127.0.0.1:9)',
        '[+] network-policy-node',
        '[-] bpf-programs-node: cannot get /apis/bpfman.io/v1alpha1: no response from 127.0.0.1:9: nothing listens there (connect ECONNREFUSED 127.0.0.1:9)',
        '[-] network-policy-node-networkpolicies: not listed yet',
        '[-] network-policy-node-pods: not listed yet',
        '[-] network-policy-node-namespaces: not listed yet',
        '[-] network-policy-node-node: not listed yet',
        '[-] network-policy-node-rules: not programmed yet',
        'not ready',
      ],
    );
    assert.deepEqual(await ask(agent, '/healthz'), { status: 200, lines: ['ok'] });
  });

  deepTest(
    'rampart standalone tells of all its parts, with and without a container runtime',
    { skip: sensorSkip },
    async () => {
      await using standalone = new Standalone();
      await using runtime = new FakeRuntime();
      await standalone.start('--cri-socket', runtime.socketPath, '--metrics', '127.0.0.1:0');
      const { lines } = await askUntil(standalone, '/readyz', ({ status }) => status === 200);
      assert.ok(
        ['[+] file-access-kivedata', '[+] file-access-node-files'].every((line) => lines.includes(line)),
      );
      assert.match(lines.find((line) => line.includes('container-runtime')) ?? '', /^\[\+\] .*runtime\.sock/);
      assert.match(
        lines.find((line) => line.includes('file-access-node-containers')) ?? '',
        /^\[\+\] .*no container runtime responds/,
      );
      assert.equal((await ask(standalone, '/healthz')).status, 200);
      await runtime.start({
        Version: () => ({ runtimeName: 'late', runtimeVersion: '1' }),
        ...answersFrom(new Map(), new Map()),
      });
      await askUntil(standalone, '/readyz', (now) =>
        ['[+] container-runtime', '[+] file-access-node-containers', '[+] file-access-node-files'].every(
          (line) => now.lines.includes(line),
        ),
      );
      // It is known to have been there.
      await runtime.stop();
      await askUntil(standalone, '/readyz', (now) =>
        now.lines.includes('[-] container-runtime: the container runtime does not respond'),
      );
      await until('rampart status says so', async () => {
        const { stdout } = await commands.run(['status', '--data', standalone.at('data'), '-o', 'json']);
        const { nodes } = JSON.parse(stdout) as JsonReport;
        return nodes[0]?.guards['file-access']?.state === 'unavailable';
      });
    },
  );

  test('file integrity alone waits for no container runtime: ready, and seen by rampart status', async () => {
    await using standalone = new Standalone();
    const args = ['--guards', 'file-integrity', '--metrics', '127.0.0.1:0'];
    await standalone.start('--cri-socket', standalone.at('none.sock'), ...args);
    const { lines } = await askUntil(standalone, '/readyz', ({ status }) => status === 200);
    assert.ok(!lines.some((line) => line.includes('container-runtime')));
    await until('the agent is seen', async () => {
      const { stdout } = await commands.run(['status', '--data', standalone.at('data'), '--format', 'json']);
      const { nodes } = JSON.parse(stdout) as JsonReport;
      return nodes.length === 1 && nodes[0]?.agent === 'running';
    });
  });
});
