// Fifty pods with four traps each: every access is reported once, with the pod it was in.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { scaled } from '../../../lib/testing/depth.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import type { KiveAlert } from '../../../guards/file-access/alert/alert.ts';
import type { KiveTrap } from '../../../guards/file-access/api.ts';
import { GuardedLab } from '../guarded-lab.fixture.ts';
import type { LabContainer, LabPod } from '../lab.ts';
import { labObstacle } from '../obstacle.ts';

const PODS = scaled(50);
const matchAny = [{ matchLabels: { app: 'many' } }];
const traps: readonly KiveTrap[] = [
  { path: '/etc/shadow', metadata: { trap: 'shadow' }, matchAny },
  { path: '/usr/sbin/nginx', metadata: { trap: 'nginx' }, matchAny },
  { path: '/usr/share/nginx/html/index.html', metadata: { trap: 'index' }, matchAny },
  { path: '/root/token', create: true, metadata: { trap: 'token' }, matchAny },
];
const paths = traps.map(({ path }) => path);

/** A few at a time: the machine may have few cores. */
async function forEach<T>(items: Iterable<T>, work: (item: T) => Promise<unknown>): Promise<void> {
  const shared = items[Symbol.iterator]();
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      for (let next = shared.next(); next.done !== true; next = shared.next()) await work(next.value);
    }),
  );
}

/** All that says whose file it was and which trap: one line, so that alerts can be compared as a set. */
const line = ({ pod, metadata, 'custom-metadata': custom, process, accessor }: KiveAlert): string =>
  [
    ...[pod.namespace, pod.name, pod.ip, pod.container.id, pod.container.name],
    ...[metadata.path, custom['trap'], metadata.mask, process.binary, accessor?.relation],
  ].join(' ');

function expected(pods: Iterable<LabPod>): string[] {
  return [...pods]
    .flatMap((pod) => [...pod.containers.values()].map((container) => ({ pod, container })))
    .flatMap(({ pod, container }) =>
      traps.map(({ path, metadata }) =>
        [
          ...[pod.namespace, pod.name, pod.ip, `containerd://${container.id}`, container.name],
          ...[path, metadata?.['trap'], 36, '/bin/busybox', 'owner'],
        ].join(' '),
      ),
    )
    .sort();
}

suite('many pods with four traps', { skip: sensorSkip || labObstacle() }, () => {
  test('each access is one alert of its pod; what is removed goes, the rest stays', async () => {
    await using guarded = await GuardedLab.start();
    const { lab } = guarded;
    const pods = new Map<string, LabPod>();
    const read = ({ containers }: LabPod): Promise<unknown> =>
      lab.exec(containers.values().next().value as LabContainer, ['cat', ...paths]);
    // Half of them before the policy, half after.
    const run = async (number: number): Promise<void> => {
      const namespace = number % 2 === 0 ? 'even' : 'odd';
      const name = `pod-${number}`;
      const containers = [{ name: `c-${number}`, command: ['sleep', '1000000'] }];
      pods.set(name, await lab.runPod({ name, namespace, labels: { app: 'many' }, containers }));
    };
    const numbers = Array.from({ length: PODS }, (_, number) => number);
    await forEach(numbers.slice(0, PODS / 2), run);
    await guarded.setPolicy('many', traps);
    await forEach(numbers.slice(PODS / 2), run);
    const data = await guarded.dataCount('many', PODS * traps.length);
    assert.equal(new Set(data.map(({ spec }) => `${spec.devId}:${spec.inodeNo}`)).size, data.length);
    assert.deepEqual(
      (await guarded.alertsOf(() => forEach(pods.values(), read))).map(line).sort(),
      expected(pods.values()),
    );

    const going = [...pods.values()].filter((_, index) => index % 2 === 0);
    await forEach(going, (pod) => lab.removePod(pod));
    for (const { name } of going) pods.delete(name);
    const left = await guarded.dataCount('many', pods.size * traps.length);
    assert.deepEqual(
      new Set(left.map(({ metadata }) => metadata.annotations?.['pod-name'])),
      new Set(pods.keys()),
    );
    assert.deepEqual(
      (await guarded.alertsOf(() => forEach(pods.values(), read))).map(line).sort(),
      expected(pods.values()),
    );

    await guarded.deletePolicy('many');
    assert.deepEqual(await guarded.alertsOf(() => forEach(pods.values(), read)), []);
    assert.equal(await guarded.metric('file_access_watched'), 1);
  });
});
