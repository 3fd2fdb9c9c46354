import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';

import { type ApiServer, startApiServer } from '../../../lib/apiserver/server.ts';
import { VerbCalls } from '../../../lib/apiserver/upkeep/verb-calls.ts';
import { KubeClient } from '../../../lib/kube/client/client.ts';
import { isForbidden, isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { kubeconfigAccess } from '../../../lib/kube/access/cluster-access.ts';
import { events } from '../../../lib/kube/events/event-object.ts';
import { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import { loadKubeconfig } from '../../../lib/kube/access/kubeconfig.ts';
import { namespaces, type Node, nodes, type Pod, pods } from '../../../lib/kube/object/object.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import type { MachineContainer, MachinePod } from './machine-pod.ts';
import { mirrorAnnotation, mirrorUser } from '../../../guard/mirrored.ts';
import { nodeFacts } from './node-object.ts';
import { PodMirror } from './pod-mirror.ts';
import { mirrorReadOnly } from './read-only.ts';
import { patience } from '../../../lib/testing/until.fixture.ts';

const at = Date.parse('2026-01-01T10:00:00Z');

function container(name: string, change: Partial<MachineContainer> = {}): MachineContainer {
  return {
    id: `containerd://${name.padEnd(8, '0')}`,
    name,
    image: 'docker.io/library/nginx:1',
    imageId: 'sha256:0123',
    state: 'running',
    attempt: 0,
    createdMs: at + 1000,
    startedMs: at + 2000,
    finishedMs: 0,
    exitCode: 0,
    reason: '',
    message: '',
    ...change,
  };
}

function machinePod(change: Partial<MachinePod> = {}): MachinePod {
  return {
    sandboxId: 'sandbox-1',
    uid: 'uid-1',
    name: 'web',
    namespace: 'shop',
    labels: { 'security-level': 'high', 'io.kubernetes.pod.name': 'web', 'not a label': 'x' },
    annotations: { note: 'anything at all', 'not ok': 'x' },
    createdMs: at,
    ready: true,
    ips: ['192.168.0.3', 'fd00::3'],
    hostNetwork: false,
    containers: [container('nginx')],
    isAsked: false,
    ...change,
  };
}

/** An API server with a mirror, and an independent client. */
class Machine implements AsyncDisposable {
  readonly server: ApiServer;
  readonly client: KubeClient;
  readonly mirror: PodMirror;
  readonly #recorder: EventRecorder;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  private constructor(server: ApiServer, client: KubeClient, recorder: EventRecorder, mirror: PodMirror) {
    this.server = server;
    this.mirror = mirror;
    this.client = client;
    this.#recorder = recorder;
    this.#running = mirror.run(this.#stop.signal);
  }

  static async start(): Promise<Machine> {
    const logger = createLogger({ level: 'silent' });
    const made: { mirror?: PodMirror } = {};
    const server = await startApiServer({
      dataDirectory: undefined,
      listen: { host: '127.0.0.1', port: 0 },
      version: '0.0.0',
      logger,
      admission: [mirrorReadOnly((namespace) => made.mirror?.hasPods(namespace) ?? false)],
    });
    const config = loadKubeconfig({ env: { KUBECONFIG: server.kubeconfig } });
    assert.ok(config);
    const client = new KubeClient(kubeconfigAccess(config));
    const recorder = new EventRecorder({
      client,
      controller: 'rampart.dev/standalone',
      instance: 'lab',
      logger,
    });
    const mirror = (made.mirror = new PodMirror({
      recorder,
      calls: new VerbCalls(server.verbs, mirrorUser, 'rampart-mirror'),
      registry: server.registry,
      node: { ...nodeFacts('lab', '0.0.0'), labels: { from: 'options' } },
      logger,
    }));
    return new Machine(server, client, recorder, mirror);
  }

  /** Tells the state and resolves when a watch shows what is expected. */
  async shows<T>(read: () => Promise<T>, holds: (value: T) => boolean): Promise<T> {
    const waiting = patience();
    for (;;) {
      const value = await read();
      if (holds(value)) return value;
      waiting.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  notify(...reported: MachinePod[]): void {
    this.mirror.notify({ pods: reported, runtimeVersion: 'containerd://1.6.20' });
  }

  pod(namespace = 'shop', name = 'web'): Promise<Pod | undefined> {
    return this.client.get(pods, { namespace, name }).catch((error: unknown) => {
      if (isNotFound(error)) return undefined;
      throw error;
    });
  }

  async podWhen(holds: (pod: Pod) => boolean): Promise<Pod> {
    const pod = await this.shows(
      () => this.pod(),
      (found) => found !== undefined && holds(found),
    );
    assert.ok(pod);
    return pod;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#recorder[Symbol.asyncDispose]();
    this.client[Symbol.dispose]();
    await this.server[Symbol.asyncDispose]();
  }
}

suite('pods of the machine in the API', () => {
  test('a pod is there with all that the runtime tells, in a namespace made for it', async () => {
    await using machine = await Machine.start();
    machine.notify(machinePod());
    const pod = await machine.podWhen(({ status }) => status?.phase === 'Running');
    assert.deepEqual(pod.metadata.labels, { 'security-level': 'high' });
    assert.deepEqual(pod.metadata.annotations, {
      note: 'anything at all',
      [mirrorAnnotation]: 'sandbox-1',
      'kubernetes.io/config.hash': 'uid-1',
    });
    assert.equal(pod.spec?.nodeName, 'lab');
    assert.deepEqual(
      pod.spec?.containers.map(({ name, image }) => [name, image]),
      [['nginx', 'docker.io/library/nginx:1']],
    );
    assert.equal(pod.status?.podIP, '192.168.0.3');
    assert.deepEqual(pod.status?.podIPs, [{ ip: '192.168.0.3' }, { ip: 'fd00::3' }]);
    const [status] = pod.status?.containerStatuses ?? [];
    assert.equal(status?.containerID, 'containerd://nginx000');
    assert.equal(status?.ready, true);
    assert.deepEqual(status?.state, { running: { startedAt: '2026-01-01T10:00:02Z' } });
    const ready = pod.status?.conditions?.find(({ type }) => type === 'Ready');
    assert.equal(ready?.status, 'True');
  });

  test('the node tells what the machine is, and whether its runtime answers', async () => {
    await using machine = await Machine.start();
    const node = (): Promise<Node | undefined> =>
      machine.client.get(nodes, { name: 'lab' }).catch(() => undefined);
    const isReady = (one: Node | undefined): string | undefined =>
      one?.status?.conditions?.find(({ type }) => type === 'Ready')?.status;
    const before = await machine.shows(node, (one) => isReady(one) === 'False');
    assert.match(before?.status?.nodeInfo?.bootID ?? '', /^[0-9a-f-]{36}$/);
    machine.notify();
    const after = await machine.shows(node, (one) => isReady(one) === 'True');
    assert.equal(after?.status?.nodeInfo?.containerRuntimeVersion, 'containerd://1.6.20');
    machine.mirror.notify({ unavailable: 'no socket' });
    await machine.shows(node, (one) => isReady(one) === 'False');
  });

  test('what does not change is not written, and what changes keeps the object', async () => {
    await using machine = await Machine.start();
    machine.notify(machinePod());
    const first = await machine.podWhen(({ status }) => status?.phase === 'Running');
    // The second pod shows that the first one was looked at again.
    machine.notify(machinePod(), machinePod({ name: 'other', uid: 'uid-2', sandboxId: 'sandbox-2' }));
    await machine.shows(
      () => machine.pod('shop', 'other'),
      (pod) => pod?.status?.phase === 'Running',
    );
    assert.equal((await machine.pod())?.metadata.resourceVersion, first.metadata.resourceVersion);
    machine.notify(
      machinePod({
        labels: { 'security-level': 'low' },
        containers: [
          container('nginx', {
            state: 'exited',
            exitCode: 137,
            finishedMs: at + 3000,
            id: 'containerd://old',
          }),
          container('nginx', {
            attempt: 1,
            createdMs: at + 4000,
            startedMs: at + 5000,
            id: 'containerd://new',
          }),
        ],
      }),
    );
    const second = await machine.podWhen(({ metadata }) => metadata.labels?.['security-level'] === 'low');
    assert.equal(second.metadata.uid, first.metadata.uid);
    const third = await machine.podWhen(
      ({ status }) => status?.containerStatuses?.[0]?.containerID === 'containerd://new',
    );
    const [status] = third.status?.containerStatuses ?? [];
    assert.equal(status?.restartCount, 1);
    assert.equal(status?.lastState?.terminated?.exitCode, 137);
    const times = (pod: Pod) => pod.status?.conditions?.map(({ lastTransitionTime }) => lastTransitionTime);
    assert.deepEqual(times(third), times(first));
  });

  test('init containers, and one that comes later', async () => {
    await using machine = await Machine.start();
    const init = container('init', { state: 'exited', createdMs: at + 100, finishedMs: at + 500 });
    machine.notify(machinePod({ containers: [init, container('nginx')] }));
    const first = await machine.podWhen(({ status }) => status?.phase === 'Running');
    assert.deepEqual(
      first.spec?.initContainers?.map(({ name }) => name),
      ['init'],
    );
    assert.equal(first.status?.initContainerStatuses?.[0]?.state?.terminated?.reason, 'Completed');
    machine.notify(machinePod({ containers: [init, container('nginx'), container('debug')] }));
    const second = await machine.podWhen(
      ({ status }) => status?.ephemeralContainerStatuses?.[0]?.containerID !== undefined,
    );
    assert.equal(second.metadata.uid, first.metadata.uid);
    assert.equal(second.spec?.ephemeralContainers?.[0]?.name, 'debug');
  });

  test('a pod waits until it is known how its containers have ended: init containers show by it', async () => {
    await using machine = await Machine.start();
    const unknown = container('init', { state: 'exited', createdMs: at + 100, exitCode: undefined });
    machine.notify(
      machinePod({ containers: [unknown, container('nginx')], isAsked: true }),
      machinePod({ name: 'other', uid: 'uid-2', sandboxId: 'sandbox-2' }),
    );
    await machine.shows(() => machine.pod('shop', 'other'), Boolean);
    assert.equal(await machine.pod(), undefined);
    const known = { ...unknown, exitCode: 0, finishedMs: at + 500 };
    machine.notify(machinePod({ containers: [known, container('nginx')] }));
    const pod = await machine.podWhen(({ spec }) => spec?.containers[0]?.name === 'nginx');
    assert.equal(pod.spec?.initContainers?.[0]?.name, 'init');
  });

  test('an init container that is seen before the others', async () => {
    await using machine = await Machine.start();
    const running = container('init', { createdMs: at + 100 });
    machine.notify(machinePod({ containers: [running] }));
    await machine.podWhen(({ status }) => status?.phase === 'Running');
    const ended = { ...running, state: 'exited', finishedMs: at + 500 } as const;
    machine.notify(machinePod({ containers: [ended, container('nginx')] }));
    const pod = await machine.podWhen(({ spec }) => spec?.initContainers?.[0]?.name === 'init');
    assert.deepEqual(
      pod.spec?.containers.map(({ name }) => name),
      ['nginx'],
    );
  });

  test('pods that are gone or have become others', async () => {
    await using machine = await Machine.start();
    machine.notify(machinePod());
    const first = await machine.podWhen(({ status }) => status?.phase === 'Running');
    machine.mirror.notify({ unavailable: 'the socket is gone' });
    machine.notify(machinePod({ uid: 'uid-2', sandboxId: 'sandbox-2' }));
    const second = await machine.podWhen(({ metadata }) => metadata.uid !== first.metadata.uid);
    assert.equal(second.metadata.annotations?.[mirrorAnnotation], 'sandbox-2');
    const ended = container('nginx', { state: 'exited', exitCode: 1, finishedMs: at + 9000 });
    machine.notify(machinePod({ uid: 'uid-2', sandboxId: 'sandbox-2', ready: false, containers: [ended] }));
    await machine.podWhen(({ status }) => status?.phase === 'Failed');
    machine.notify();
    await machine.shows(
      () => machine.pod(),
      (pod) => pod === undefined,
    );
  });

  test('a pod that the API does not take stands in no other one’s way', async () => {
    await using machine = await Machine.start();
    machine.notify(
      machinePod({ name: 'Not_A_Name', uid: 'uid-9' }),
      machinePod({ containers: [] }),
      machinePod(),
    );
    await machine.podWhen(({ status }) => status?.phase === 'Running');
  });

  test('a pod written by hand gives way; others are left alone', async () => {
    await using machine = await Machine.start();
    const spec = { containers: [{ name: 'c', image: 'i' }] };
    await machine.client.create(namespaces, { metadata: { name: 'shop' } });
    for (const name of ['web', 'mine']) {
      await machine.client.create(pods, { metadata: { namespace: 'shop', name }, spec });
    }
    machine.notify(machinePod());
    await machine.podWhen(({ metadata }) => metadata.annotations?.[mirrorAnnotation] === 'sandbox-1');
    assert.ok(await machine.pod('shop', 'mine'));
    const reported = await machine.shows(
      async () => (await machine.client.list(events, { namespace: 'shop' })).items,
      (items) => items.some(({ regarding }) => regarding?.name === 'mine'),
    );
    const event = reported.find(({ regarding }) => regarding?.name === 'mine');
    assert.match(event?.note ?? '', /stays Pending: pods on this machine come from its container runtime/);
  });

  test('each pod that nothing runs gets one event', async () => {
    await using machine = await Machine.start();
    const spec = { containers: [{ name: 'c', image: 'i' }] };
    await machine.client.create(namespaces, { metadata: { name: 'shop' } });
    await machine.client.create(pods, { metadata: { namespace: 'shop', name: 'mine' }, spec });
    for (let count = 0; count < 5; count++) {
      machine.notify(machinePod({ name: `web-${String(count)}`, uid: `uid-${String(count)}` }));
      await machine.shows(
        () => machine.pod('shop', `web-${String(count)}`),
        (pod) => pod !== undefined,
      );
    }
    const { items } = await machine.client.list(events, { namespace: 'shop' });
    assert.equal(items.filter(({ regarding }) => regarding?.name === 'mine').length, 1);
    assert.ok(items.every(({ series }) => series === undefined));
  });
});

const kubectl = spawnSync('kubectl', ['version', '--client']).status === 0;

suite('mirrored objects are read-only', () => {
  test('for all but the mirror, by every way to write', async () => {
    await using machine = await Machine.start();
    const { client } = machine;
    machine.notify(machinePod());
    const pod = await machine.podWhen(({ status }) => status?.phase === 'Running');
    const target = { namespace: 'shop', name: 'web' };
    const body = { metadata: { labels: { more: 'x' } } };
    const statusBody = { status: { phase: 'Failed' } };
    const refused: readonly (() => Promise<unknown>)[] = [
      () => client.patch(pods, target, { type: 'merge', body }),
      () => client.patch(pods, { ...target, subresource: 'status' }, { type: 'merge', body: statusBody }),
      () => client.update(pods, { ...pod, metadata: { ...pod.metadata, labels: {} } }),
      () => client.apply(pods, { metadata: { ...target, labels: { a: 'b' } } }, { fieldManager: 'x' }),
      () => client.delete(pods, target),
      () => client.deleteCollection(pods, { namespace: 'shop' }),
      () => client.delete(nodes, { name: 'lab' }),
      () => client.patch(nodes, { name: 'lab' }, { type: 'merge', body: { spec: { unschedulable: true } } }),
      () => client.delete(namespaces, { name: 'shop' }),
      () =>
        client.create(pods, {
          metadata: { namespace: 'shop', name: 'fake', annotations: { [mirrorAnnotation]: 'x' } },
          spec: { containers: [{ name: 'c', image: 'i' }] },
        }),
    ];
    for (const [index, write] of refused.entries()) {
      await assert.rejects(write, (error) => isForbidden(error), `the write with index ${index}`);
    }
    await assert.rejects(client.delete(pods, target), /read-only: change or remove the pod with/);
    assert.equal((await machine.pod())?.metadata.resourceVersion, pod.metadata.resourceVersion);
    // Without pods of the machine in it, the namespace is one like others.
    machine.notify();
    await machine.shows(
      () => machine.pod(),
      (found) => found === undefined,
    );
    await client.delete(namespaces, { name: 'shop' });
  });

  test('labels that users give to the node stay', async () => {
    await using machine = await Machine.start();
    const { client } = machine;
    machine.notify();
    const node = (): Promise<Node | undefined> =>
      client.get(nodes, { name: 'lab' }).catch((error: unknown) => {
        if (isNotFound(error)) return undefined;
        throw error;
      });
    await machine.shows(node, (found) => found?.metadata.labels?.['from'] === 'options');
    const labels = { 'node-role.kubernetes.io/worker': '' };
    await client.patch(nodes, { name: 'lab' }, { type: 'merge', body: { metadata: { labels } } });
    machine.mirror.notify({ pods: [], runtimeVersion: 'containerd://2.0.0' });
    const later = await machine.shows(
      node,
      (found) => found?.status?.nodeInfo?.containerRuntimeVersion === 'containerd://2.0.0',
    );
    assert.equal(later?.metadata.labels?.['node-role.kubernetes.io/worker'], '');
    assert.equal(later.metadata.labels['from'], 'options');
  });

  test(
    'who creates a pod is warned that nothing runs it',
    { skip: !kubectl && 'needs kubectl' },
    async () => {
      await using machine = await Machine.start();
      machine.notify();
      const args = ['--kubeconfig', machine.server.kubeconfig ?? '', '--namespace=default'];
      const { stderr } = await promisify(execFile)('kubectl', [...args, 'run', 'mine', '--image=busybox']);
      assert.match(stderr, /Warning: nothing runs this pod, so it stays Pending/);
    },
  );
});
