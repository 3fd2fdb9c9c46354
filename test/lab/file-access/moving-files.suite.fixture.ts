// Whatever happens to a path, its trap is for the file that the path leads to now (and for those that it led
// to before, which moved-files.deep.test.ts is about). Between a change and the moment that the agent has
// seen it, the new file raises no alerts: guards/file-access/README.md, Limits.
import assert from 'node:assert/strict';
import {
  linkSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { deepTest, scaled } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import type { KiveAlert } from '../../../guards/file-access/alert/alert.ts';
import type { KiveData } from '../../../guards/file-access/api.ts';
import { ourAnnotations } from '../../../guards/file-access/kive-data.ts';
import type { GuardedLab } from '../guarded-lab.fixture.ts';
import type { LabContainer } from '../lab.ts';

const POLICY = 'moving';
/** `inode:device:generation`. */
const fileOf = ({ metadata }: KiveData): string | undefined => metadata.annotations?.[ourAnnotations.file];
/** Whether its file has left its path. */
const hasMoved = (data: KiveData): boolean =>
  data.metadata.annotations?.[ourAnnotations.movedFiles]?.split(',').includes(fileOf(data) ?? '') === true;
const masks = (alerts: readonly KiveAlert[]): number[] => alerts.map(({ metadata: { mask } }) => mask);

export function movingFileCases(lab: () => GuardedLab): void {
  suite('files that are replaced, moved, deleted', () => {
    let guarded: GuardedLab;
    let container: LabContainer;
    let volume: string;
    let single: string;
    before(async () => {
      guarded = lab();
      volume = guarded.hostDirectory('volume');
      single = join(guarded.hostDirectory('single'), 'app.conf');
      writeFileSync(single, 'one file as a mount');
      ({ container } = await guarded.run({
        name: 'moving',
        containers: [
          {
            name: 'c',
            command: ['sleep', '1000000'],
            // It mounts something itself.
            privileged: true,
            mounts: [
              { containerPath: '/volume', hostPath: volume },
              { containerPath: '/etc/app.conf', hostPath: single },
            ],
          },
        ],
      }));
    });
    after(async () => await guarded?.deletePolicy(POLICY));

    const sh = (script: string): Promise<string> => guarded.sh(container, script);
    const inside = (path: string): string => guarded.pathIn(container, path);
    const watch = async (path: string, create = false): Promise<void> =>
      void (await guarded.setPolicy(POLICY, [{ path, create, matchAny: [{ pod: 'moving' }] }]));

    /** Waits until the only KiveData is of the file that the path leads to; then one read is one alert of that file. */
    async function isWatched(path: string, not?: string): Promise<KiveData> {
      const { ino, size } = statSync(inside(path), { bigint: true });
      const data = await until(`${path} to be watched as ${ino}, not ${not}`, async () => {
        const [one, ...others] = await guarded.data(POLICY);
        const isIt = one?.spec.inodeNo === Number(ino) && fileOf(one) !== not && !hasMoved(one);
        return others.length === 0 && isIt && one.metadata.annotations?.['path'] === path && one;
      });
      const alerts = await guarded.alertsOf(() => sh(`/bin/cat ${path}`));
      assert.deepEqual(
        alerts.map(({ metadata: { inode, device, mask, path: reported }, pod, accessor }) => ({
          ...{ inode, device, mask, reported, pod: pod.name, relation: accessor?.relation },
        })),
        [
          {
            ...{ inode: Number(ino), device: data.spec.devId, mask: 36 },
            ...{ reported: path, pod: 'moving', relation: 'owner' },
          },
        ],
        `a read of ${path}, ${size} bytes`,
      );
      return data;
    }

    /**
     * Changes where the path leads, and checks that the agent follows. No later read of the old file is
     * reported.
     */
    async function follows(path: string, change: () => unknown): Promise<void> {
      const [old] = await guarded.data(POLICY);
      await change();
      await isWatched(path, old && fileOf(old));
    }

    /** Nothing is at the path, and the file that was there is somewhere. */
    const isElsewhere = async (): Promise<void> =>
      void (await until('the file to be told as moved', async () => {
        const [one, ...others] = await guarded.data(POLICY);
        return one !== undefined && others.length === 0 && hasMoved(one);
      }));
    /** A read of a file that has left the path. */
    const isReportedAsMoved = async (read: () => unknown): Promise<void> => {
      const alerts = await guarded.alertsOf(read);
      assert.deepEqual(
        alerts.map(({ metadata: { mask, moved } }) => [mask, moved]),
        [[36, true]],
      );
    };

    const isGone = async (): Promise<void> => void (await guarded.dataCount(POLICY, 0));

    test('a ConfigMap is updated: the link to the directory of a version is swapped', async () => {
      // As pkg/volume/util/atomic_writer.go does: a new directory, a link to it, renamed over the one to the old.
      let number = 0;
      const write = (keys: Readonly<Record<string, string>>): void => {
        const data = join(volume, '..data');
        const next = `..2026_11_21_${number++}`;
        mkdirSync(join(volume, next));
        for (const [key, value] of Object.entries(keys)) writeFileSync(join(volume, next, key), value);
        symlinkSync(next, join(volume, '..data_tmp'));
        let old: string | undefined;
        try {
          old = readlinkSync(data);
        } catch {
          // The first.
        }
        renameSync(join(volume, '..data_tmp'), data);
        for (const key of Object.keys(keys)) {
          try {
            symlinkSync(`..data/${key}`, join(volume, key));
          } catch {
            // It has been there before.
          }
        }
        if (old !== undefined) rmSync(join(volume, old), { recursive: true });
      };
      write({ other: '' });
      await watch('/volume/key');
      await isGone();
      for (let version = 0; version < scaled(4, 2); version++) {
        await follows('/volume/key', () => write({ other: '', key: `version ${version}` }));
      }
      write({ other: '' });
      await isGone();
      await follows('/volume/key', () => write({ key: 'again' }));
    });

    test('saved by an editor: a new file over it, sed -i, a backup and a new one, in place', async () => {
      await sh('echo 1 > /root/f');
      await watch('/root/f');
      await isWatched('/root/f');
      const [first] = await guarded.data(POLICY);
      await follows('/root/f', () => sh('echo 2 > /root/.f.swp && mv /root/.f.swp /root/f'));
      await follows('/root/f', () => sh('sed -i s/2/3/ /root/f'));
      await follows('/root/f', () => sh('mv /root/f /root/f~ && cat /root/f~ > /root/f'));
      await isReportedAsMoved(() => sh('/bin/cat /root/f~'));
      const [third] = await guarded.data(POLICY);
      assert.deepEqual(masks(await guarded.alertsOf(() => sh('echo 4 > /root/f'))), [34]);
      assert.deepEqual(fileOf(await isWatched('/root/f')), third && fileOf(third));
      assert.notEqual(first && fileOf(first), third && fileOf(third));
    });

    test('the first write to a file of the image: copied up, and no access lost', async () => {
      for (const [path, change, mask] of [
        ['/usr/share/nginx/html/index.html', 'echo more >> $f', [42]],
        ['/etc/shadow', 'chmod 600 $f', [0]],
      ] as const) {
        await watch(path);
        const { spec } = await isWatched(path);
        const script = `f=${path}; ${change}; /bin/cat $f; /bin/cat $f`;
        assert.deepEqual(masks(await guarded.alertsOf(() => sh(script))), [...mask, 36, 36], path);
        assert.equal((await isWatched(path)).spec.inodeNo, spec.inodeNo);
      }
    });

    deepTest('it appears later, is deleted and made again', async () => {
      await watch('/root/later/f');
      await isGone();
      await sh('mkdir /root/later');
      await follows('/root/later/f', () => sh('echo > /root/later/f'));
      for (let times = 0; times < scaled(4, 1); times++) {
        await sh('rm /root/later/f');
        await isGone();
        await follows('/root/later/f', () => sh('echo > /root/later/f'));
      }
      // Inode numbers are reused: only the generation distinguishes these.
      for (let times = 0; times < scaled(4, 2); times++) {
        await follows('/root/later/f', () => sh('rm /root/later/f; echo > /root/later/f'));
      }
    });

    deepTest('a directory on the way is moved away, replaced, and moved back', async () => {
      await sh('mkdir -p /root/a/b; echo > /root/a/b/f');
      await watch('/root/a/b/f');
      await isWatched('/root/a/b/f');
      for (const [from, path] of [
        ['a', 'moved/b/f'],
        ['a/b', 'moved/f'],
      ]) {
        await sh(`mv /root/${from} /root/moved`);
        await isElsewhere();
        await isReportedAsMoved(() => sh(`/bin/cat /root/${path}`));
        await sh(`mv /root/moved /root/${from}`);
        await isWatched('/root/a/b/f');
      }
      await sh('mkdir -p /root/z/b; echo > /root/z/b/f');
      await follows('/root/a/b/f', () => sh('mv /root/a /root/old && mv /root/z /root/a'));
      await follows('/root/a/b/f', () => sh('rm -r /root/a && ln -s old /root/a'));
    });

    deepTest('a file in a volume, from both sides; a hard link is the same file', async () => {
      writeFileSync(join(volume, 'f'), 'one');
      await watch('/volume/f');
      await isWatched('/volume/f');
      await follows('/volume/f', () => {
        writeFileSync(join(volume, 'f.new'), 'two');
        renameSync(join(volume, 'f.new'), join(volume, 'f'));
      });
      await follows('/volume/f', () => sh('echo 3 > /volume/f.new && mv /volume/f.new /volume/f'));
      linkSync(join(volume, 'f'), join(volume, 'same'));
      assert.deepEqual(masks(await guarded.alertsOf(() => readFileSync(join(volume, 'same')))), [36]);
      // One name goes, the file stays: a new one has the name of the trap.
      await follows('/volume/f', () => {
        rmSync(join(volume, 'f'));
        writeFileSync(join(volume, 'f'), 'four');
      });
      await isReportedAsMoved(() => readFileSync(join(volume, 'same')));
    });

    test('one file as a mount: it stays what was mounted, whoever replaces it on the host', async () => {
      await watch('/etc/app.conf');
      const mounted = await isWatched('/etc/app.conf');
      writeFileSync(`${single}.new`, 'another');
      renameSync(`${single}.new`, single);
      assert.equal(fileOf(await isWatched('/etc/app.conf')), fileOf(mounted));
      assert.deepEqual(await guarded.alertsOf(() => readFileSync(single)), []);
    });

    deepTest('tmpfs, and mounts that the container makes over the file', async () => {
      await sh('echo 1 > /dev/shm/f');
      await watch('/dev/shm/f');
      await isWatched('/dev/shm/f');
      await follows('/dev/shm/f', () => sh('echo 2 > /dev/shm/g && mv /dev/shm/g /dev/shm/f'));

      await sh('mkdir /root/m; echo below > /root/m/f');
      await watch('/root/m/f');
      const below = await isWatched('/root/m/f');
      await sh('mount -t tmpfs none /root/m');
      await isElsewhere();
      await follows('/root/m/f', () => sh('echo above > /root/m/f'));
      await follows('/root/m/f', () => sh('echo bound > /root/bound && mount --bind /root/bound /root/m/f'));
      // The agent may hold a file of it open for a moment, to identify it.
      await sh('umount /root/m/f && until umount /root/m; do sleep 0.05; done');
      assert.equal(fileOf(await isWatched('/root/m/f')), fileOf(below));
    });

    deepTest('replaced as fast as the container can, and read between', async () => {
      await sh('echo > /root/fast');
      await watch('/root/fast');
      await isWatched('/root/fast');
      const times = scaled(200, 40);
      const replace = 'echo $i > /root/next; mv /root/next /root/fast';
      const script = `i=0; while [ $i -lt ${times} ]; do ${replace}; /bin/head -n $i /root/fast; i=$((i+1)); done`;
      const reads = (await guarded.alertsOf(() => sh(script)))
        .map(({ process }) => process.arguments)
        .filter((line) => line.startsWith('-n '));
      // Some come before the agent has seen the new file. None is reported twice, and they come in order.
      const numbers = reads.map((line) => Number(line.split(' ')[1]));
      assert.deepEqual(
        numbers,
        [...new Set(numbers)].sort((a, b) => a - b),
      );
      await isWatched('/root/fast');
    });
  });
}
