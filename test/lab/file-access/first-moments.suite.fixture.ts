// Who accessed, where the container has just begun, or is gone before the runtime was asked for its process.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { before, suite, test } from 'node:test';

import type { KiveAlert } from '../../../guards/file-access/alert/alert.ts';
import { deepTest, scaled } from '../../../lib/testing/depth.fixture.ts';
import type { GuardedLab } from '../guarded-lab.fixture.ts';

const path = '/shared/token';

export function firstMomentCases(lab: () => GuardedLab): void {
  suite('the first moments of a container', () => {
    let guarded: GuardedLab;
    let mounts: { readonly containerPath: string; readonly hostPath: string }[];
    before(async () => {
      guarded = lab();
      const hostPath = guarded.hostDirectory('first-moments');
      writeFileSync(`${hostPath}/token`, 'secret');
      mounts = [{ containerPath: '/shared', hostPath }];
      await guarded.run({ name: 'holder', containers: [{ name: 'main', mounts }] });
      await guarded.setPolicy('first-moments', [{ path, matchAny: [{ pod: 'holder' }] }]);
      await guarded.dataCount('first-moments', 1);
    });

    const who = ({ accessor }: KiveAlert): string =>
      `${accessor?.relation} ${accessor?.pod.namespace}/${accessor?.pod.name}/${accessor?.container.name}`;

    test('the first access of a container, and the only one of a short one, are reported with its name', async () => {
      const count = scaled(30, 4);
      const names = Array.from({ length: count }, (_, at) => `job-${at}`);
      const alerts = await guarded.alertsOf(async () => {
        for (const name of names) {
          const command = ['cat', path];
          await guarded.run({ name, containers: [{ name: 'once', command, mounts }] });
        }
      });
      assert.deepEqual(
        alerts.map(who),
        names.map((name) => `container default/${name}/once`),
      );
    });

    deepTest('a pod that enters the mounts of the node stays that pod', async () => {
      const { container } = await guarded.run({
        ...{ name: 'entering', hostPid: true },
        containers: [{ name: 'main', privileged: true }],
      });
      const [mount] = mounts;
      const alerts = await guarded.alertsOf(
        async () => await guarded.sh(container, `nsenter -t ${process.pid} -m cat ${mount?.hostPath}/token`),
      );
      assert.deepEqual(alerts.map(who), ['container default/entering/main']);
    });

    deepTest('a process that makes itself other namespaces stays one of its container', async () => {
      const { container } = await guarded.run({
        name: 'unsharing',
        containers: [{ name: 'main', privileged: true, mounts }],
      });
      const alerts = await guarded.alertsOf(async () => {
        await guarded.sh(container, `unshare -U -m cat ${path}`);
        await guarded.sh(container, `unshare -m cat ${path}`);
      });
      assert.deepEqual(alerts.map(who), Array(2).fill('container default/unsharing/main'));
    });
  });
}
