import assert from 'node:assert/strict';
import { mkdirSync, rmSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';

import { configMaps, namespaces, nodes, type Pod, pods } from '../../lib/kube/object/object.ts';
import { deepTest, sampled } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { kiveDataType, kivePolicyType } from '../../guards/file-access/api.ts';
import { issueAuthority, issueServerCertificate } from '../../lib/x509/certificate.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { Receiver } from '../../guards/file-access/delivery/receiver.fixture.ts';
import { ServiceManager } from '../../lib/service/manager.fixture.ts';
import { labObstacle } from '../../test/lab/obstacle.ts';
import { type Lab, startLab } from '../../test/lab/lab.ts';
import { Commands } from '../commands.fixture.ts';
import type { StatusReport } from '../status/report.ts';
import { Standalone } from './standalone.fixture.ts';

const policy = (name: string, path: string): string => `apiVersion: kivebpf.san7o.github.io/v1
kind: KivePolicy
metadata:
  name: ${name}
spec:
  traps:
    - path: ${path}
      matchAny:
        - matchLabels:
            security-level: high
`;

/** The machine's own runtime must not be used. */
const noRuntime = ['--cri-socket', '/nonexistent/rampart-test.sock'];

suite('rampart standalone', { skip: sensorSkip }, () => {
  const commands = new Commands();
  after(() => commands[Symbol.asyncDispose]());
  let one: Standalone;
  let manager: ServiceManager;
  const policies = (): string[] => [...noRuntime, '-f', one.at('policies')];
  const untilPolicies = (wanted: string): Promise<true> =>
    until(`the policies ${wanted}`, async () => {
      const { items } = await one.client.list(kivePolicyType);
      return (
        items.map(({ metadata, spec }) => `${metadata.name}=${spec.traps[0]?.path}`).join(' ') === wanted
      );
    });
  before(() => {
    one = new Standalone();
    manager = new ServiceManager();
    one.env = { NOTIFY_SOCKET: manager.path, WATCHDOG_USEC: '1000000' };
  });
  after(async () => {
    await one[Symbol.asyncDispose]();
    manager[Symbol.dispose]();
  });

  test('serves its API without a container runtime, and applies manifests', async () => {
    mkdirSync(one.at('policies'));
    one.write('policies/a.yaml', `${policy('first', '/secret')}---\n${policy('second', '/other')}`);
    await one.start(...policies(), '--node-name', 'here');
    assert.match(one.stderr, /"msg":"kubeconfig \S+\/data\/kubeconfig"\}$/m);
    // Without --ui.
    assert.match(one.kubectl('get', '--raw', '/ui/').stderr, /could not find the requested resource/);
    await one.untilSaid(/no pods of this machine are known yet/);
    await untilPolicies('first=/secret second=/other');
    const crds = one.kubectl('get', 'crd', '-o', 'name').stdout;
    assert.match(crds, /kivedata\.kivebpf\.san7o\.github\.io[^]*kivepolicies\.kivebpf\.san7o\.github\.io/);
    await one.kubectlUntil(['get', 'node', 'here'], ({ stdout }) => /here\s+NotReady/.test(stdout));
    assert.equal(one.kubectl('create', 'configmap', 'kept').code, 0);
  });

  test('tells the service manager when all guards are up, that it is alive, and what it still waits for', async () => {
    await manager.reported('READY=1');
    await manager.reported('WATCHDOG=1');
    await manager.reported('STATUS=All parts are ready; container-runtime: ...');
  });

  test('without a container runtime file-access runs, and says that it sees no containers', async () => {
    await until('it runs', async () => {
      const { stdout } = await commands.run(['status', '--data', one.at('data'), '-o', 'json']);
      const { nodes: reported } = JSON.parse(stdout) as StatusReport;
      const { state, blindSpots } = reported[0]?.guards['file-access'] ?? {};
      return state === 'running' && blindSpots?.some((spot) => /no container runtime responds/.test(spot));
    });
  });

  test('follows the edits of manifests, and tells what is wrong with them', async () => {
    one.write('policies/a.yaml', policy('first', '/edited'));
    await untilPolicies('first=/edited');
    one.write('policies/bad.yaml', `${policy('third', 'relative')}---\nspec: [\n`);
    await one.untilSaid(
      /bad\.yaml:7: document 1, KivePolicy default\/third, spec\.traps\[0\]\.path: Invalid value/,
    );
    await one.untilSaid(/bad\.yaml:\d+: document 2: invalid YAML/);
    one.write('policies/bad.yaml', policy('third', '/absolute'));
    await untilPolicies('first=/edited third=/absolute');
    rmSync(one.at('policies/a.yaml'));
    await untilPolicies('third=/absolute');
    assert.equal(one.stderr.match(/invalid YAML/g)?.length, 1);
  });

  test('writes only alerts to stdout, and at the next start keeps its objects except those deleted meanwhile', async () => {
    const stopped = one.stop();
    // Read while it ends: the socket holds few of the messages that came before.
    await manager.reported('STOPPING=1');
    assert.equal(await stopped, 0);
    assert.equal(one.stdout, '');
    assert.match(one.stderr, /"msg":"stopped"\}\n$/);
    rmSync(one.at('policies/bad.yaml'));
    await one.start(...policies(), '--node-name', 'elsewhere', '--guards', 'file-access');
    await one.client.get(configMaps, { namespace: 'default', name: 'kept' });
    await untilPolicies('');
    // The machine has one name.
    await until('the node alone', async () => {
      const { items } = await one.client.list(nodes);
      return items.map(({ metadata }) => metadata.name).join() === 'elsewhere';
    });
    assert.equal(await one.stop('SIGINT'), 0);
  });

  const refusals = [
    [
      'a manifest that is not there',
      ['-f', '/no/such/file.yaml'],
      /cannot apply \/no\/such\/file\.yaml: it does not exist/,
    ],
    ['an empty path', ['-f', ''], /--file is empty/],
    ['an empty directory', ['--data', ''], /--data is empty/],
    ['a bad address', ['--listen', 'here'], /"here" is not an address/],
    [
      'a Secret for callbacks without a name',
      ['--callback-secret', 'shop'],
      /"shop" is not the name of a Secret/,
    ],
  ] as const;
  for (const [what, args, pattern] of sampled(refusals, 1)) {
    test(`refuses ${what}`, async () => {
      const { code, stdout, stderr } = await commands.run(['standalone', ...noRuntime, ...args]);
      assert.deepEqual({ code, stdout }, { code: 2, stdout: '' }, stderr);
      assert.match(stderr, pattern);
    });
  }
});

suite('rampart standalone with real pods', { skip: sensorSkip || labObstacle() }, () => {
  let lab: Lab;
  before(async () => {
    lab = await startLab();
  });
  after(async () => await lab?.[Symbol.asyncDispose]());

  test('mirrors them read-only, and alerts what a policy asks for', async () => {
    await using one = new Standalone();
    const validity = { now: new Date(), days: 2 };
    const authority = issueAuthority('receivers', validity);
    await using receiver = await Receiver.start({
      tls: issueServerCertificate(authority, ['127.0.0.1'], validity),
    });
    const trap = `/etc/shadow\n      callback: ${receiver.url().replace('http:', 'https:')}\n      callbackSecret: receiver`;
    const stringData = { token: 'of-a-manifest', 'ca.crt': authority.cert };
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'receiver' }, stringData };
    one.write('policy.yaml', `${policy('secrets', trap)}---\n${JSON.stringify(secret)}\n`);
    await one.start(
      ...['--cri-socket', lab.socketPath, '-f', one.at('policy.yaml')],
      ...['--allow-callback', '127.0.0.1', '--guards', 'file-access'],
      // The policy is in `default`, the pod in `shop`.
      ...['--kive-policy-namespaces', 'default'],
    );
    const pod = await lab.runPod({
      name: 'nginx-pod',
      namespace: 'shop',
      labels: { 'security-level': 'high' },
    });
    const container = pod.containers.get('nginx');
    assert.ok(container);
    const mirrored = { namespace: 'shop', name: 'nginx-pod' };
    const object = await until('the pod to run', async () => {
      const now = await one.client.get(pods, mirrored);
      return now.status?.phase === 'Running' && now;
    });
    assert.deepEqual(object.metadata.labels, { 'security-level': 'high' });
    assert.equal(object.status?.podIP, pod.ip);
    assert.equal(object.status?.containerStatuses?.[0]?.containerID, `containerd://${container.id}`);
    const refusal =
      /[Ff]orbidden.*(read-only|pods of this machine)|(read-only|pods of this machine).*Forbidden/;
    const labelled = one.kubectl(
      'label',
      'pod',
      '-n',
      'shop',
      'nginx-pod',
      'security-level=low',
      '--overwrite',
    );
    assert.notEqual(labelled.code, 0);
    assert.match(labelled.stderr, refusal);
    await assert.rejects(one.client.delete(pods, mirrored), { message: refusal });
    await assert.rejects(one.client.delete(namespaces, { name: 'shop' }), { message: refusal });
    await until('KiveData', async () => (await one.client.list(kiveDataType)).items.length > 0);
    await one.untilSaid(/guarding this machine with sensor mode/);
    // Until the loader has it: what is read before is not alerted.
    for (let tries = 0; one.alerts().length === 0 && tries < 100; tries++) {
      await lab.exec(container, ['cat', '/etc/shadow']);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const [alert] = one.alerts();
    assert.equal(alert?.['kive-policy-name'], 'secrets');
    assert.equal(alert?.pod.name, 'nginx-pod');
    assert.equal(alert?.pod.ip, pod.ip);
    assert.equal(alert?.pod.container.id, `containerd://${container.id}`);
    for (let tries = 0; receiver.taken.length === 0 && tries < 500; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert.equal(receiver.received[0]?.headers.authorization, 'Bearer of-a-manifest');
    assert.deepEqual(JSON.parse(receiver.received[0]?.line ?? ''), alert);
    assert.ok(!one.stderr.includes('of-a-manifest'));
    await lab.removePod(pod);
    await until('no pods', async () => (await one.client.list(pods)).items.length === 0);
    await until('no KiveData', async () => (await one.client.list(kiveDataType)).items.length === 0);
    assert.equal(await one.stop(), 0);
  });

  deepTest('init containers, restarts, containers that come later, pods that end', async () => {
    await using one = new Standalone();
    await one.start('--cri-socket', lab.socketPath);
    const pod = await lab.runPod({
      name: 'many',
      initContainers: [{ name: 'prepare', command: ['true'] }],
      containers: [{ name: 'first' }],
    });
    const now = async (): Promise<Pod> => one.client.get(pods, { namespace: 'default', name: 'many' });
    await until('the init container to have ended', async () => {
      const [first] = (await now()).status?.initContainerStatuses ?? [];
      return first?.state?.terminated?.reason === 'Completed';
    });
    const { metadata, spec } = await now();
    assert.deepEqual(
      spec?.containers.map(({ name }) => name),
      ['first'],
    );
    await lab.restartContainer(pod, 'first');
    await until('the restart', async () => {
      const [first] = (await now()).status?.containerStatuses ?? [];
      return first?.restartCount === 1 && first.ready;
    });
    await lab.addContainer(pod, { name: 'debug' });
    await until('the container that comes later', async () => {
      const [debug] = (await now()).status?.ephemeralContainerStatuses ?? [];
      return debug?.name === 'debug';
    });
    assert.equal((await now()).metadata.uid, metadata.uid);
    // The runtime is away and comes back: pods are unchanged.
    await lab.stopRuntime();
    assert.equal((await now()).status?.phase, 'Running');
    await lab.startRuntime();
    await lab.stopPod(pod);
    await until('the pod to have ended', async () =>
      ['Failed', 'Succeeded'].includes((await now()).status?.phase ?? ''),
    );
  });
});
