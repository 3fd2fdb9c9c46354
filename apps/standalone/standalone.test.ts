import assert from 'node:assert/strict';
import { mkdirSync, rmSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';

import { issueAuthority, issueServerCertificate } from '../../lib/x509/certificate.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { Receiver } from '../../guards/file-access/delivery/receiver.fixture.ts';
import { labObstacle } from '../../test/lab/obstacle.ts';
import { startLab } from '../../test/lab/lab.ts';
import { Commands } from '../commands.fixture.ts';
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

/** None of this machine is to be spoken to. */
const noRuntime = ['--cri-socket', '/nonexistent/rampart-test.sock'];

suite('rampart standalone', { skip: sensorSkip }, () => {
  const commands = new Commands();
  after(() => commands[Symbol.asyncDispose]());
  let one: Standalone;
  const policies = (): string[] => [...noRuntime, '-f', one.at('policies')];
  const get = [
    'get',
    'kivepolicies',
    '-o',
    'jsonpath={range .items[*]}{.metadata.name}={.spec.traps[0].path} {end}',
  ];
  before(() => {
    one = new Standalone();
  });
  after(async () => {
    await one[Symbol.asyncDispose]();
  });

  test('serves its API without a container runtime, and applies manifests', async () => {
    mkdirSync(one.at('policies'));
    one.write('policies/a.yaml', `${policy('first', '/secret')}---\n${policy('second', '/other')}`);
    await one.start(...policies(), '--node-name', 'here');
    assert.match(one.stderr, /^rampart: kubeconfig \S+\/data\/kubeconfig$/m);
    await one.untilSaid(/no pods of this machine are known yet/);
    const crds = one.kubectl('get', 'crd', '-o', 'name').stdout;
    assert.match(crds, /kivedata\.kivebpf\.san7o\.github\.io[^]*kivepolicies\.kivebpf\.san7o\.github\.io/);
    await one.kubectlUntil(['get', 'node', 'here'], ({ stdout }) => /here\s+NotReady/.test(stdout));
    await one.kubectlUntil(get, ({ stdout }) => stdout === 'first=/secret second=/other');
    assert.equal(one.kubectl('create', 'configmap', 'kept').code, 0);
  });

  test('follows the edits of manifests, and tells what is wrong with them', async () => {
    one.write('policies/a.yaml', policy('first', '/edited'));
    await one.kubectlUntil(get, ({ stdout }) => stdout === 'first=/edited');
    one.write('policies/bad.yaml', `${policy('third', 'relative')}---\nspec: [\n`);
    await one.untilSaid(
      /bad\.yaml:7: document 1, KivePolicy default\/third, spec\.traps\[0\]\.path: Invalid value/,
    );
    await one.untilSaid(/bad\.yaml:\d+: document 2: invalid YAML/);
    one.write('policies/bad.yaml', policy('third', '/absolute'));
    await one.kubectlUntil(get, ({ stdout }) => stdout === 'first=/edited third=/absolute');
    rmSync(one.at('policies/a.yaml'));
    await one.kubectlUntil(get, ({ stdout }) => stdout === 'third=/absolute');
    assert.equal(one.stderr.match(/invalid YAML/g)?.length, 1);
  });

  test('leaves stdout to alerts; the next start keeps what it has, but not what was deleted meanwhile', async () => {
    assert.equal(await one.stop(), 0);
    assert.equal(one.stdout, '');
    assert.match(one.stderr, /rampart: stopped\n$/);
    rmSync(one.at('policies/bad.yaml'));
    await one.start(...policies(), '--node-name', 'elsewhere');
    assert.equal(one.kubectl('get', 'configmap', 'kept').code, 0);
    await one.kubectlUntil(get, ({ stdout }) => stdout === '');
    // The machine has one name.
    await one.kubectlUntil(['get', 'nodes', '-o', 'name'], ({ stdout }) => stdout === 'node/elsewhere');
    assert.equal(await one.stop('SIGINT'), 0);
  });

  for (const [what, args, pattern] of [
    [
      'a manifest that is not there',
      ['-f', '/no/such/file.yaml'],
      /cannot apply \/no\/such\/file\.yaml: ENOENT/,
    ],
    ['an empty path', ['-f', ''], /--file is empty/],
    ['an empty directory', ['--data', ''], /--data is empty/],
    ['a bad address', ['--listen', 'here'], /"here" is not an address/],
    [
      'a Secret for callbacks without a name',
      ['--callback-secret', 'shop'],
      /"shop" is not the name of a Secret/,
    ],
  ] as const) {
    test(`refuses ${what}`, async () => {
      const { code, stdout, stderr } = await commands.run(['standalone', ...noRuntime, ...args]);
      assert.deepEqual({ code, stdout }, { code: 2, stdout: '' }, stderr);
      assert.match(stderr, pattern);
    });
  }
});

suite('rampart standalone with real pods', { skip: sensorSkip || labObstacle() }, () => {
  test('mirrors them read-only, and alerts what a policy asks for', async () => {
    await using lab = await startLab();
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
      ...['--allow-callback', '127.0.0.1'],
    );
    const pod = await lab.runPod({
      name: 'nginx-pod',
      namespace: 'shop',
      labels: { 'security-level': 'high' },
    });
    const container = pod.containers.get('nginx');
    assert.ok(container);
    const running = await one.kubectlUntil(
      ['get', 'pod', '-n', 'shop', 'nginx-pod', '-o', 'json'],
      ({ code, stdout }) => code === 0 && stdout.includes('"phase": "Running"'),
    );
    const object = JSON.parse(running.stdout) as {
      metadata: { labels: unknown };
      status: { podIP: string; containerStatuses: { containerID: string; ready: boolean }[] };
    };
    assert.deepEqual(object.metadata.labels, { 'security-level': 'high' });
    assert.equal(object.status.podIP, pod.ip);
    assert.equal(object.status.containerStatuses[0]?.containerID, `containerd://${container.id}`);
    for (const args of [
      ['label', 'pod', '-n', 'shop', 'nginx-pod', 'security-level=low', '--overwrite'],
      ['delete', 'pod', '-n', 'shop', 'nginx-pod', '--wait=false'],
      ['delete', 'namespace', 'shop', '--wait=false'],
    ]) {
      const { code, stderr } = one.kubectl(...args);
      assert.notEqual(code, 0);
      assert.match(stderr, /\(?[Ff]orbidden\)?.*(read-only|pods of this machine)/);
    }
    await one.kubectlUntil(
      ['get', 'kivedata', '-n', 'kivebpf-system', '-o', 'name'],
      ({ stdout }) => stdout !== '',
    );
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
    await one.kubectlUntil(['get', 'pods', '-A', '-o', 'name'], ({ stdout }) => stdout === '');
    await one.kubectlUntil(['get', 'kivedata', '-A', '-o', 'name'], ({ stdout }) => stdout === '');
    assert.equal(await one.stop(), 0);
  });

  test('init containers, restarts, containers that come later, pods that end', async () => {
    await using lab = await startLab();
    await using one = new Standalone();
    await one.start('--cri-socket', lab.socketPath);
    const pod = await lab.runPod({
      name: 'many',
      initContainers: [{ name: 'prepare', command: ['true'] }],
      containers: [{ name: 'first' }],
    });
    const get = (path: string): string[] => ['get', 'pod', 'many', '-o', `jsonpath={${path}}`];
    await one.kubectlUntil(
      get('.status.initContainerStatuses[0].state.terminated.reason'),
      ({ stdout }) => stdout === 'Completed',
    );
    assert.equal(one.kubectl(...get('.spec.containers[*].name')).stdout, 'first');
    const uid = one.kubectl(...get('.metadata.uid')).stdout;
    await lab.restartContainer(pod, 'first');
    await one.kubectlUntil(
      get('.status.containerStatuses[0].restartCount}/{.status.containerStatuses[0].ready'),
      ({ stdout }) => stdout === '1/true',
    );
    await lab.addContainer(pod, { name: 'debug' });
    await one.kubectlUntil(
      get('.status.ephemeralContainerStatuses[0].name'),
      ({ stdout }) => stdout === 'debug',
    );
    assert.equal(one.kubectl(...get('.metadata.uid')).stdout, uid);
    // The runtime is away and comes back: pods stay as they were.
    await lab.stopRuntime();
    assert.equal(one.kubectl(...get('.status.phase')).stdout, 'Running');
    await lab.startRuntime();
    await lab.stopPod(pod);
    await one.kubectlUntil(
      get('.status.phase'),
      ({ stdout }) => stdout === 'Failed' || stdout === 'Succeeded',
    );
  });
});
