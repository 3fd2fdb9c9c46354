/**
 * The client of the container runtime against real ones: Debian 12's containerd 1.6, which sends no events
 * over CRI, and Debian 13's 1.7, which does.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { debianPackage } from '../../scripts/debian-packages.ts';
import { isInContainer, isSameProcess } from '../../lib/cri/process.ts';
import { type ContainerWatch, watchContainers } from '../../lib/cri/watch.ts';
import { deepTest, sampled, scaled, seed } from '../../lib/testing/depth.fixture.ts';
import { type Lab, startLab } from './lab.ts';
import { labObstacle } from './obstacle.ts';

const obstacle = labObstacle();
const TIMEOUT_MS = 300_000;
const podCount = scaled(20, 4);

/** Resolves when the watch shows it; a lab's test ends by its own timeout otherwise. */
async function until(watch: ContainerWatch, isSo: () => boolean): Promise<void> {
  if (isSo()) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  using _listening = watch.onChange(() => {
    // The change is reported during an update of the watch: look after it.
    queueMicrotask(() => {
      if (isSo()) resolve();
    });
  });
  await promise;
}

/** The containers of a pod in a watch, by name; those that have ended are left out. */
function runningOf(watch: ContainerWatch, podName: string) {
  const containers = [...watch.containers.values()].filter(
    ({ pod, state }) => pod.name === podName && state === 'running',
  );
  return new Map(containers.map((container) => [container.name, container]));
}

const readRoot = (root: string | undefined, path: string): string => readFileSync(`${root}${path}`, 'utf8');

for (const runtime of sampled(['as installed', '1.7'], 1)) {
  suite(
    `containerd ${runtime} (RAMPART_TEST_SEED=${seed})`,
    { skip: obstacle ?? false, timeout: TIMEOUT_MS },
    () => {
      let lab: Lab;
      before(
        async () => {
          const programs =
            runtime === '1.7'
              ? join(
                  (await debianPackage('containerd-1.7', { signal: AbortSignal.timeout(TIMEOUT_MS) })).root,
                  'usr/bin',
                )
              : undefined;
          lab = await startLab(programs === undefined ? {} : { programs });
        },
        { timeout: TIMEOUT_MS },
      );
      after(async () => lab?.[Symbol.asyncDispose](), { timeout: TIMEOUT_MS });

      test('one pod: names, labels, address, process', async () => {
        const labels = { 'security-level': 'high', app: 'web' };
        const pod = await lab.runPod({
          name: 'nginx-pod',
          uid: 'the-uid',
          labels,
          annotations: { note: 'x' },
        });
        const nginx = pod.containers.get('nginx');
        assert.ok(nginx);
        assert.equal((await lab.cri.version()).name, 'containerd');

        const [sandbox, ...others] = await lab.cri.pods();
        assert.deepEqual(others, []);
        const { id, name, namespace, uid, state, ips, attempt } = sandbox ?? assert.fail();
        assert.deepEqual(
          { id, name, namespace, uid, state, ips, attempt },
          {
            id: pod.id,
            name: 'nginx-pod',
            namespace: 'default',
            uid: 'the-uid',
            state: 'ready',
            ips: ['192.168.0.3'],
            attempt: 0,
          },
        );
        assert.equal(sandbox?.labels['security-level'], 'high');
        assert.equal(sandbox?.annotations['note'], 'x');
        assert.ok(Math.abs(Date.now() - (sandbox?.createdAtMs ?? 0)) < TIMEOUT_MS);

        const [container] = await lab.cri.containers();
        assert.equal(container?.id, nginx.id);
        assert.equal(container?.podId, pod.id);
        assert.equal(container?.name, 'nginx');
        assert.equal(container?.state, 'running');
        assert.match(container?.image ?? '', /nginx|sha256/);
        assert.equal(container?.labels['io.kubernetes.pod.uid'], 'the-uid');

        const pid = await lab.cri.containerPid(nginx.id);
        assert.equal(pid, nginx.pid);
        assert.equal(isInContainer(nginx.pid, nginx.id), true);
        assert.equal(isInContainer(nginx.pid, pod.id), false);
        assert.equal(readRoot(`/proc/${pid}/root`, '/etc/hostname').trim(), 'nginx-pod');
        assert.match((await lab.exec(nginx, ['wget', '-qO-', 'http://192.168.0.3/'])).stdout, /Welcome/);
        assert.equal((await lab.exec(nginx, ['sh', '-c', 'exit 3'])).exitCode, 3);

        assert.equal(await lab.cri.containerPid('0'.repeat(64)), undefined);
        assert.equal(await lab.cri.podNetwork('0'.repeat(64)), undefined);
        await lab.removePod(pod);
        assert.deepEqual(await lab.cri.pods(), []);
        assert.deepEqual(await lab.cri.containers(), []);
      });

      test('a watch follows init container, two containers, a restart and the end', async () => {
        await using watch = watchContainers(lab.cri);
        const initStates: string[] = [];
        watch.onChange(({ type, container }) => {
          if (container.name === 'init') initStates.push(`${type} ${container.state}`);
        });
        await watch.synced();
        const pod = await lab.runPod({
          name: 'pair',
          namespace: 'shop',
          initContainers: [{ name: 'init', command: ['sh', '-c', 'sleep 1'] }],
          containers: [{ name: 'web' }, { name: 'side', command: ['sleep', '1000'] }],
        });
        await until(watch, () => runningOf(watch, 'pair').size === 2);
        for (const [name, container] of runningOf(watch, 'pair')) {
          const made = pod.containers.get(name);
          assert.equal(container.id, made?.id);
          assert.equal(container.process?.pid, made?.pid);
          assert.equal(container.root, `/proc/${made?.pid}/root`);
          assert.deepEqual(container.pod.ips, [pod.ip]);
          assert.equal(container.pod.namespace, 'shop');
          assert.equal(container.pod.uid, pod.uid);
        }
        const init = watch.containers.get(pod.initContainers.get('init')?.id ?? '');
        assert.equal(init?.state, 'exited');
        assert.equal(init?.process, undefined);
        assert.ok(
          initStates.includes('changed running') || initStates.includes('added running'),
          initStates.join(),
        );

        const old = runningOf(watch, 'pair').get('side') ?? assert.fail();
        const restarted = await lab.restartContainer(pod, 'side');
        await until(watch, () => runningOf(watch, 'pair').get('side')?.id === restarted.id);
        const now = runningOf(watch, 'pair').get('side') ?? assert.fail();
        assert.notEqual(now.id, old.id);
        assert.notEqual(now.process?.pid, old.process?.pid);
        assert.equal(now.process?.pid, restarted.pid);
        assert.equal(now.attempt, 1);
        assert.equal(now.pod.id, old.pod.id);
        assert.equal(isSameProcess(old.process ?? assert.fail()), false);
        await until(watch, () => watch.containers.get(old.id)?.process === undefined);

        const debug = await lab.addContainer(pod, { name: 'debugger', command: ['sleep', '1000'] });
        await until(watch, () => runningOf(watch, 'pair').get('debugger')?.process?.pid === debug.pid);

        await lab.removePod(pod);
        await until(watch, () => watch.containers.size === 0);
        assert.equal(watch.stats().source, runtime === '1.7' ? 'cri' : 'containerd');
        assert.deepEqual(watch.stats().errors, {});
      });

      test(`${podCount} pods, four at a time`, async () => {
        await using watch = watchContainers(lab.cri);
        const names = Array.from({ length: podCount }, (_, index) => `pod-${index}`).values();
        const pods = await Promise.all(
          Array.from({ length: 4 }, async () => {
            const mine = [];
            for (const name of names) {
              mine.push(await lab.runPod({ name, labels: { name }, containers: [{ name: `c-${name}` }] }));
            }
            return mine;
          }),
        ).then((lists) => lists.flat());
        assert.equal(new Set(pods.map(({ ip }) => ip)).size, podCount);
        await until(
          watch,
          () => [...watch.containers.values()].filter(({ root }) => root !== undefined).length === podCount,
        );
        for (const pod of pods) {
          const container = runningOf(watch, pod.name).get(`c-${pod.name}`) ?? assert.fail(pod.name);
          assert.deepEqual(container.pod.ips, [pod.ip]);
          assert.equal(container.pod.labels['name'], pod.name);
          assert.equal(container.process?.pid, pod.containers.get(container.name)?.pid);
          assert.equal(readRoot(container.root, '/etc/hostname').trim(), pod.name);
        }
        await Promise.all(pods.map((pod) => lab.removePod(pod)));
        await until(watch, () => watch.containers.size === 0);
      });

      deepTest('containerd is restarted: the client connects again and the watch catches up', async () => {
        const [stays, ends] = await Promise.all([
          lab.runPod({ name: 'stays' }),
          lab.runPod({ name: 'ends' }),
        ]);
        await using watch = watchContainers(lab.cri);
        await watch.synced();
        const process = runningOf(watch, 'ends').get('nginx')?.process ?? assert.fail();
        for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
          await lab.stopRuntime(signal);
          await assert.rejects(lab.cri.version(), { code: 'RAMPART_RUNTIME_UNREACHABLE' });
          if (signal === 'SIGTERM') {
            globalThis.process.kill(process.pid, 'SIGKILL');
            // The runtime does not have it.
            await until(watch, () => runningOf(watch, 'ends').get('nginx')?.process === undefined);
          }
          assert.ok(isSameProcess(runningOf(watch, 'stays').get('nginx')?.process ?? assert.fail()));
          await lab.startRuntime();
          await watch.refresh();
          assert.equal(runningOf(watch, 'stays').get('nginx')?.id, stays.containers.get('nginx')?.id);
          await until(watch, () => runningOf(watch, 'ends').size === 0);
          const later = await lab.runPod({ name: `after-${signal}` });
          await until(watch, () => runningOf(watch, later.name).get('nginx')?.root !== undefined);
          await lab.removePod(later);
          await until(watch, () => runningOf(watch, later.name).size === 0);
        }
        await Promise.all([stays, ends].map((pod) => lab.removePod(pod)));
        await until(watch, () => watch.containers.size === 0);
        assert.ok((watch.stats().errors['RAMPART_RUNTIME_UNREACHABLE'] ?? 0) > 0);
      });

      test('a pod in the host network has no address, one that ended has given its back', async () => {
        await using watch = watchContainers(lab.cri);
        const [host, ended] = await Promise.all([
          lab.runPod({
            name: 'host',
            hostNetwork: true,
            containers: [{ name: 'c', command: ['sleep', '1000'] }],
          }),
          lab.runPod({ name: 'ended' }),
        ]);
        await until(watch, () => runningOf(watch, 'host').size + runningOf(watch, 'ended').size === 2);
        assert.deepEqual(runningOf(watch, 'host').get('c')?.pod.ips, []);
        assert.equal(runningOf(watch, 'host').get('c')?.pod.hostNetwork, true);
        assert.equal(runningOf(watch, 'ended').get('nginx')?.pod.hostNetwork, false);
        const id = ended.containers.get('nginx')?.id ?? '';
        assert.deepEqual(watch.containers.get(id)?.pod.ips, [ended.ip]);
        await lab.stopPod(ended);
        await until(watch, () => watch.containers.get(id)?.pod.state === 'notReady');
        assert.deepEqual(watch.containers.get(id)?.pod.ips, []);
        assert.equal(watch.containers.get(id)?.state, 'exited');
        await Promise.all([host, ended].map((pod) => lab.removePod(pod)));
      });
    },
  );
}
