// Which file it is: an overlay has several inodes for one file, volumes have one file at several places.
import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { before, suite, test } from 'node:test';

import { type GuardedLab, summary } from '../guarded-lab.fixture.ts';

/** In the image, so below the upper layer of each container until it is written. */
const path = '/usr/share/nginx/html/index.html';
const busybox = '/bin/busybox';
const noOverlay = 'the containers of the lab have no overlay here';

export function identityCases(lab: () => GuardedLab): void {
  suite('the identity of a file', () => {
    let guarded: GuardedLab;
    before(() => {
      guarded = lab();
    });

    test('overlay: one alert for an access, before, at and after the copy to the upper layer', async (t) => {
      if (guarded.lab.snapshotter !== 'overlayfs') return t.skip(noOverlay);
      const { container } = await guarded.run({ name: 'copied' });
      await guarded.setPolicy('copied', [{ path, matchAny: [{ pod: 'copied' }] }]);
      const [first] = await guarded.dataCount('copied', 1);
      const line = (mask: number): string => `copied default/copied/nginx ${path} ${busybox} ${mask}`;
      for (const [script, masks] of [
        [`cat ${path}`, [36]],
        [`cat ${path} ${path}`, [36, 36]],
        // Copies it up.
        [`echo more >> ${path}`, [42]],
        [`cat ${path}`, [36]],
        [`echo new > ${path}`, [34]],
        [`ln ${path} /tmp/other; cat /tmp/other`, guarded.mode === 'raw_tracepoint' ? [36] : [6, 36]],
      ] as const) {
        const alerts = await guarded.alertsOf(async () => await guarded.sh(container, script));
        assert.deepEqual(alerts.map(summary), masks.map(line), script);
      }
      const [last] = await guarded.dataCount('copied', 1);
      assert.deepEqual(last?.spec, first?.spec, 'its number stays');
      await guarded.deletePolicy('copied');
    });

    test('the same inode number in containers of one image: each alert is of the container it was in', async (t) => {
      if (guarded.lab.snapshotter !== 'overlayfs') return t.skip(noOverlay);
      const { container: one } = await guarded.run({ name: 'twin-1', labels: { app: 'twin' } });
      const { container: two } = await guarded.run({ name: 'twin-2', labels: { app: 'twin' } });
      const { container: other } = await guarded.run({ name: 'twin-3' });
      const inodes = [one, two, other].map((container) => statSync(guarded.pathIn(container, path)).ino);
      assert.equal(new Set(inodes).size, 1, 'or this test proves nothing');
      await guarded.setPolicy('twin', [{ path, matchAny: [{ matchLabels: { app: 'twin' } }] }]);
      const data = await guarded.dataCount('twin', 2);
      assert.deepEqual(
        data.map(({ spec }) => spec.inodeNo),
        inodes.slice(1),
      );
      for (const [container, pods] of [
        [one, ['twin-1']],
        [two, ['twin-2']],
        [other, []],
      ] as const) {
        const alerts = await guarded.alertsOf(async () => await guarded.sh(container, `cat ${path}`));
        assert.deepEqual(
          alerts.map(({ pod }) => `${pod.name} ${pod.container.id}`),
          pods.map((name) => `${name} containerd://${container.id}`),
        );
      }
      await guarded.deletePolicy('twin');
    });

    test('one file mounted twice: one alert for an access, by whichever path, also from the host', async () => {
      const hostPath = guarded.hostDirectory('twice');
      writeFileSync(`${hostPath}/token`, 'secret');
      const { container } = await guarded.run({
        name: 'twice',
        containers: [
          {
            name: 'main',
            mounts: [
              { containerPath: '/first', hostPath },
              { containerPath: '/second', hostPath, readonly: true },
              { containerPath: '/etc/token', hostPath: `${hostPath}/token` },
            ],
          },
        ],
      });
      await guarded.setPolicy('twice', [{ path: '/first/token', matchAny: [{ pod: 'twice' }] }]);
      await guarded.dataCount('twice', 1);
      const alerts = await guarded.alertsOf(async () => {
        await guarded.sh(container, 'cat /first/token; cat /second/token; cat /etc/token');
        readFileSync(`${hostPath}/token`);
      });
      assert.deepEqual(
        alerts.map(({ metadata, process, accessor }) => [
          metadata.path,
          process.arguments,
          accessor?.relation,
        ]),
        [
          ['/first/token', '/first/token', 'owner'],
          ['/first/token', '/second/token', 'owner'],
          ['/first/token', '/etc/token', 'owner'],
          ['/first/token', alerts[3]?.process.arguments, 'host'],
        ],
      );
      assert.equal(alerts[3]?.process.tgid, process.pid);
      await guarded.deletePolicy('twice');
    });

    test('a file of the node: accesses by the node and by a pod that has it as a volume', async () => {
      const hostPath = guarded.hostDirectory('node');
      writeFileSync(`${hostPath}/token`, 'secret');
      const { container } = await guarded.run({
        name: 'mounts-node',
        containers: [{ name: 'main', mounts: [{ containerPath: '/volume', hostPath }] }],
      });
      await guarded.setPolicy('node', [{ path: `${hostPath}/token`, matchAny: [{ host: true }] }]);
      await guarded.dataCount('node', 1);
      const alerts = await guarded.alertsOf(async () => {
        await guarded.sh(container, 'cat /volume/token');
        readFileSync(`${hostPath}/token`);
      });
      assert.deepEqual(
        alerts.map(({ metadata, pod, accessor }) => [
          metadata.path,
          pod.name,
          `${accessor?.relation} ${accessor?.pod.name}`,
        ]),
        [
          [`${hostPath}/token`, '', 'container mounts-node'],
          [`${hostPath}/token`, '', 'host '],
        ],
      );
      await guarded.deletePolicy('node');
    });

    test('a program that may read a secret: the file in the container of the trap, and none of another container', async () => {
      const hostPath = guarded.hostDirectory('programs');
      writeFileSync(`${hostPath}/token`, 'secret');
      const run = (name: string) =>
        guarded.run({
          name,
          containers: [{ name: 'main', mounts: [{ containerPath: '/volume', hostPath }] }],
        });
      const [{ container: one }, { container: two }] = [await run('programs-1'), await run('programs-2')];
      // Busybox is whichever command it is called as; a copy is another program.
      for (const container of [one, two])
        await guarded.sh(container, 'mkdir /own && cp /bin/busybox /own/cat');
      const processes = { except: ['/own/cat'] };
      const onPod = { path: '/volume/token', matchAny: [{ pod: 'programs-1' }] };
      const onNode = { path: `${hostPath}/token`, matchAny: [{ host: true }] };
      await guarded.setPolicy('programs', [
        { ...onPod, processes },
        { ...onNode, processes },
      ]);
      await guarded.dataCount('programs', 2);
      const pathsOf = async (container: typeof one, script: string): Promise<string[]> => {
        const alerts = await guarded.alertsOf(async () => await guarded.sh(container, script));
        return alerts.map(({ metadata }) => metadata.path).sort();
      };
      const [ofNode, ofPod] = [onNode.path, onPod.path];
      assert.deepEqual(await pathsOf(one, '/own/cat /volume/token'), [ofNode]);
      assert.deepEqual(await pathsOf(one, 'cat /volume/token'), [ofNode, ofPod].sort());
      assert.deepEqual(await pathsOf(two, '/own/cat /volume/token'), [ofNode, ofPod].sort());
      await guarded.deletePolicy('programs');
    });

    test('a path that two traps of two pods lead to by different names', async () => {
      const hostPath = guarded.hostDirectory('names');
      writeFileSync(`${hostPath}/token`, 'secret');
      const run = (name: string, containerPath: string) =>
        guarded.run({
          name,
          labels: { app: 'names' },
          containers: [{ name: 'main', mounts: [{ containerPath, hostPath }] }],
        });
      const { container } = await run('names-1', '/one');
      await run('names-2', '/two');
      const matchAny = [{ matchLabels: { app: 'names' } }];
      await guarded.setPolicy('names', [
        { path: '/one/token', matchAny },
        { path: '/two/token', matchAny },
      ]);
      await guarded.dataCount('names', 2);
      const alerts = await guarded.alertsOf(async () => await guarded.sh(container, 'cat /one/token'));
      assert.deepEqual(
        alerts
          .map(({ pod, metadata, accessor }) => `${pod.name} ${metadata.path} ${accessor?.relation}`)
          .sort(),
        ['names-1 /one/token owner', 'names-2 /two/token container'],
      );
      assert.deepEqual(
        alerts.map(({ accessor }) => accessor?.pod.name),
        ['names-1', 'names-1'],
      );
      await guarded.deletePolicy('names');
    });
  });
}
