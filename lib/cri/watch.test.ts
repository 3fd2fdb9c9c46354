import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Code, ConnectError } from '@connectrpc/connect';

import * as fc from '../testing/fast-check.fixture.ts';
import { until } from '../testing/until.fixture.ts';
import { openCri } from './cri.ts';
import type { NodeContainer } from './node-container.ts';
import { type Answers, answersFrom, type FakeContainer, fakeId, FakeRuntime } from './runtime.fixture.ts';
import { type ContainerWatch, watchContainers, type WatchOptions } from './watch.ts';

const HOUR_MS = 3_600_000;
const neverLook: WatchOptions = { pollMs: HOUR_MS, resyncMs: HOUR_MS };
const running = 1;

/** A runtime with containers that a test changes, and events that it sends. */
class Node implements AsyncDisposable {
  readonly runtime = new FakeRuntime();
  readonly containers = new Map<string, FakeContainer>();
  readonly pods = new Map<string, { state: number; readonly ip: string }>();
  readonly answers: Answers = answersFrom(this.containers, this.pods);
  readonly #cri = openCri({ socketPath: this.runtime.socketPath });

  /** A running container in a pod of its own. */
  add(number: number, pid = 1_000 + number): FakeContainer {
    const container = { id: fakeId(number), podId: `p${number}`, name: `c${number}`, state: running, pid };
    this.pods.set(container.podId, { state: 0, ip: `10.0.0.${number}` });
    this.containers.set(container.id, container);
    this.runtime.addProcess(pid, number, `/kubepods/podx/${container.id}`);
    return container;
  }

  watch(options: WatchOptions = neverLook): ContainerWatch {
    return watchContainers(this.#cri, { procPath: this.runtime.procPath, ...options });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#cri[Symbol.dispose]();
    await this.runtime[Symbol.asyncDispose]();
  }
}

function changesOf(watch: ContainerWatch): string[] {
  const seen: string[] = [];
  watch.onChange(({ type, container }) =>
    seen.push(`${type} ${container.name} ${container.state} ${container.process?.pid ?? '-'}`),
  );
  return seen;
}

suite('watch of containers', { timeout: 300_000 }, () => {
  test('an event of the interface is followed by a look', async () => {
    await using node = new Node();
    const events = new EventTarget();
    node.answers.GetContainerEvents = async function* (_input, { signal }) {
      while (!signal.aborted) {
        await new Promise((resolve) => events.addEventListener('event', resolve, { once: true }));
        yield { containerId: fakeId(1), containerEventType: 1 };
      }
    };
    await node.runtime.start(node.answers);
    await using watch = node.watch();
    await watch.synced();
    // After the looks that follow the beginning of the stream only an event brings another.
    await sleep(1_200);
    const { lists } = watch.stats();
    await sleep(200);
    assert.equal(watch.stats().lists, lists);
    node.add(1);
    events.dispatchEvent(new Event('event'));
    await until(() => watch.containers.size === 1);
    assert.equal(watch.stats().source, 'cri');
    assert.equal(watch.stats().events, 1);
    events.dispatchEvent(new Event('event'));
  });

  test('without events it looks from time to time', async () => {
    await using node = new Node();
    await node.runtime.start(node.answers);
    await using watch = node.watch({ pollMs: 20, resyncMs: HOUR_MS });
    await watch.synced();
    await until(() => watch.stats().source === 'none');
    node.add(1);
    await until(() => watch.containers.size === 1);
    node.containers.clear();
    await until(() => watch.containers.size === 0);
  });

  test('containerd: the end of a container is an event, that of an exec is not', async () => {
    await using node = new Node();
    const exit = (containerId: string, id: string) => {
      const field = (number: number, text: string) =>
        Buffer.concat([Buffer.from([(number << 3) | 2, text.length]), Buffer.from(text)]);
      return { topic: '/tasks/exit', event: { value: Buffer.concat([field(1, containerId), field(2, id)]) } };
    };
    node.answers.Subscribe = async function* (_input, { signal }) {
      yield exit(fakeId(1), 'exec-1');
      yield exit(fakeId(1), fakeId(1));
      yield { topic: '/tasks/start', event: { value: Buffer.alloc(0) } };
      while (!signal.aborted) await sleep(10);
    };
    await node.runtime.start(node.answers);
    await using watch = node.watch();
    await until(() => watch.stats().events > 1);
    await sleep(50);
    assert.equal(watch.stats().events, 2);
    assert.equal(watch.stats().source, 'containerd');
  });

  test('one whose status does not come holds up no other', async () => {
    await using node = new Node();
    const hangs = node.add(1);
    node.add(2);
    const { ContainerStatus } = node.answers;
    node.answers.ContainerStatus = (input, context) =>
      input['containerId'] === hangs.id
        ? new Promise(() => undefined)
        : (ContainerStatus?.(input, context) ?? {});
    await node.runtime.start(node.answers);
    await using watch = node.watch();
    await until(() => watch.containers.size === 1);
    assert.equal(watch.containers.get(fakeId(2))?.process?.pid, 1_002);
    node.add(3);
    void watch.refresh().catch(() => undefined);
    await until(() => watch.containers.size === 2);
    // Its call times out; then it is reported without its process, and queried again.
    await until(() => watch.containers.size === 3);
    assert.equal(watch.containers.get(hangs.id)?.process, undefined);
    assert.equal(watch.stats().withoutProcess, 1);
    delete node.answers.ContainerStatus;
    node.answers.ContainerStatus = ContainerStatus as NonNullable<typeof ContainerStatus>;
    await until(() => watch.containers.get(hangs.id)?.process?.pid === 1_001);
  });

  test('addresses that come late are a change', async () => {
    await using node = new Node();
    node.add(1);
    const { PodSandboxStatus } = node.answers;
    let asked = 0;
    node.answers.PodSandboxStatus = (input, context) => {
      asked += 1;
      if (asked === 1) throw new ConnectError('not yet', Code.Unknown);
      return PodSandboxStatus?.(input, context) ?? {};
    };
    await node.runtime.start(node.answers);
    await using watch = node.watch();
    await watch.synced();
    assert.deepEqual(watch.containers.get(fakeId(1))?.pod.ips, []);
    await until(() => watch.containers.get(fakeId(1))?.pod.ips[0] === '10.0.0.1');
    assert.deepEqual(watch.stats().errors, { RAMPART_RUNTIME: 1 });
  });

  test('a pid that another container has now is not believed', async () => {
    await using node = new Node();
    const container = node.add(1);
    await node.runtime.start(node.answers);
    await using watch = node.watch();
    await watch.synced();
    const seen = changesOf(watch);
    // The container ended, its pid was given to another one, and the runtime knows nothing of it yet.
    node.runtime.addProcess(container.pid, 99, `/kubepods/pody/${fakeId(2)}`);
    await watch.refresh();
    assert.deepEqual(seen, ['added c1 running 1001', 'changed c1 running -']);
    assert.ok((watch.stats().errors['RAMPART_CONFLICT'] ?? 0) >= 1);
    container.state = 2;
    await watch.refresh();
    assert.deepEqual(seen.slice(2), ['changed c1 exited -']);
  });

  test('where cgroups are of no help, the runtime is queried twice', async () => {
    await using node = new Node();
    const container = node.add(1);
    node.runtime.addProcess(container.pid, 5, '/');
    const { ContainerStatus } = node.answers;
    let asked = 0;
    node.answers.ContainerStatus = (input, context) => {
      asked += 1;
      // Ends between the two.
      if (asked === 2) container.state = 2;
      return ContainerStatus?.(input, context) ?? {};
    };
    await node.runtime.start(node.answers);
    await using watch = node.watch();
    await watch.synced();
    assert.equal(watch.containers.get(container.id)?.process, undefined);
    container.state = running;
    await watch.refresh();
    await until(() => watch.containers.get(container.id)?.process?.startTicks === 5);
    assert.ok(asked >= 4);
  });

  test('while the runtime is away what was known stays, but processes that are gone are seen', async () => {
    await using node = new Node();
    const [one, two] = [node.add(1), node.add(2)];
    await node.runtime.start(node.answers);
    await using watch = node.watch();
    await watch.synced();
    await node.runtime.stop();
    node.runtime.removeProcess(one.pid);
    await until(() => watch.containers.get(one.id)?.process === undefined);
    assert.equal(watch.containers.get(two.id)?.process?.pid, two.pid);
    assert.equal(watch.containers.get(one.id)?.root, undefined);
    node.containers.delete(one.id);
    node.add(3);
    await node.runtime.start(node.answers);
    await until(() => watch.containers.has(fakeId(3)) && !watch.containers.has(one.id));
    assert.ok((watch.stats().errors['RAMPART_RUNTIME_UNREACHABLE'] ?? 0) > 0);
  });

  test('disposed: no more changes, and waiting ends', async () => {
    await using node = new Node();
    const watch = node.watch();
    const synced = assert.rejects(watch.synced());
    await watch[Symbol.asyncDispose]();
    await synced;
    await assert.rejects(watch.refresh());
    assert.throws(() => node.watch({ pollMs: 0 }), { code: 'RAMPART_INPUT' });
  });

  test('whatever happens, a look shows what there is, and the changes add up to it', async () => {
    const step = fc.record({
      number: fc.integer({ min: 1, max: 5 }),
      action: fc.constantFrom('add', 'remove', 'start', 'exit', 'podEnds', 'look'),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        await using node = new Node();
        await node.runtime.start(node.answers);
        await using watch = node.watch();
        const replayed = new Map<string, NodeContainer>();
        watch.onChange((change) => {
          const { id } = change.container;
          assert.equal(change.type === 'added', !replayed.has(id));
          if (change.type === 'changed') assert.equal(change.previous, replayed.get(id));
          if (change.type === 'removed') replayed.delete(id);
          else replayed.set(id, change.container);
        });
        for (const { number, action } of steps) {
          const container = node.containers.get(fakeId(number));
          if (action === 'add' && container === undefined) node.add(number);
          else if (action === 'look') await watch.refresh();
          else if (container !== undefined) apply(node, container, action);
        }
        await watch.refresh();
        const reported = [...watch.containers.values()].map(({ id, state, process, pod }) => [
          id,
          state,
          process?.startTicks,
          pod.ips.length,
        ]);
        const expected = [...node.containers.values()].map(({ id, state, podId }) => [
          id,
          ['created', 'running', 'exited'][state],
          state === running ? Number.parseInt(id, 16) : undefined,
          node.pods.get(podId)?.state === 0 ? 1 : 0,
        ]);
        assert.deepEqual(new Set(reported.map(String)), new Set(expected.map(String)));
        assert.deepEqual(replayed, watch.containers);
      }),
      { numRuns: 30 },
    );
  });
});

function apply(node: Node, container: FakeContainer, action: string): void {
  if (action === 'remove') node.containers.delete(container.id);
  if (action === 'exit') container.state = 2;
  if (action === 'start') container.state = running;
  if (action === 'podEnds') {
    container.state = 2;
    node.pods.set(container.podId, { state: 1, ip: '' });
  }
}
