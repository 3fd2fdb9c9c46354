// All files of a directory in a real container: of its own file system, of a volume, and of what it mounts itself.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import type { GuardedLab } from '../guarded-lab.fixture.ts';
import type { LabContainer } from '../lab.ts';

const POLICY = 'directories';

export function directoryCases(lab: () => GuardedLab): void {
  suite('all files of a directory', () => {
    let guarded: GuardedLab;
    let container: LabContainer;
    let volume: string;
    before(async () => {
      guarded = lab();
      volume = guarded.hostDirectory('directory-volume');
      writeFileSync(join(volume, 'a'), '');
      ({ container } = await guarded.run({
        name: 'directories',
        containers: [
          {
            name: 'c',
            command: ['sleep', '1000000'],
            // It mounts something itself.
            privileged: true,
            mounts: [{ containerPath: '/srv/volume', hostPath: volume }],
          },
        ],
      }));
    });
    after(async () => await guarded?.deletePolicy(POLICY));

    const sh = (script: string): Promise<string> => guarded.sh(container, script);
    const files = (count: number): Promise<unknown> =>
      until(
        `${count} files`,
        async () => (await guarded.metric('file_access_directory_files')) === count || undefined,
      );
    const reported = async (script: string): Promise<readonly (readonly unknown[])[]> =>
      (await guarded.alertsOf(() => sh(script))).map(({ metadata: { path, file, mask }, pod }) => [
        path,
        file,
        mask,
        pod.name,
      ]);
    const read = (file: string): readonly unknown[] => ['/srv/**', file, 36, 'directories'];

    test('alerts each by its own path, wherever it is mounted, and whenever it came', async () => {
      await sh('mkdir -p /srv/own /tree/deep && echo > /srv/own/b && echo > /tree/deep/c');
      await guarded.setPolicy(POLICY, [{ path: '/srv/**', matchAny: [{ pod: 'directories' }] }]);
      await guarded.dataCount(POLICY, 1);
      await files(2);
      assert.deepEqual(await reported('/bin/cat /srv/volume/a /srv/own/b'), [
        read('/srv/volume/a'),
        read('/srv/own/b'),
      ]);
      // By the node, as kubelet writes volumes, and by the container.
      mkdirSync(join(volume, 'late'));
      writeFileSync(join(volume, 'late/d'), '');
      await sh('mv /tree /srv/tree && mkdir /srv/tmp && mount -t tmpfs x /srv/tmp && echo > /srv/tmp/e');
      await files(5);
      assert.deepEqual(await reported('/bin/cat /srv/volume/late/d /srv/tree/deep/c /srv/tmp/e'), [
        read('/srv/volume/late/d'),
        read('/srv/tree/deep/c'),
        read('/srv/tmp/e'),
      ]);
      await sh('umount /srv/tmp && rm -r /srv/tree');
      await files(3);
      // A read of what was just being removed is a problem until the next one, and reports come after the metric.
      const part = await until('a report without problems', async () => {
        const one = await guarded.partOf(POLICY);
        return one?.problemCount === 0 ? one : undefined;
      });
      assert.equal(part.watchedFiles, 1);
    });
  });
}
