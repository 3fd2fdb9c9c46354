// A policy is edited while a container reads its files all the time. Guarantees:
//
// - Each access to a file that both versions of the trap select is reported once, by one of the two.
// - If the trap goes from one file to another, the new file is watched before the old one is dropped.
// - Once the KiveData has the edit, no later access is reported by the previous version.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import type { KiveAlert } from '../../../guards/file-access/alert/alert.ts';
import type { KiveData } from '../../../guards/file-access/api.ts';
import type { GuardedLab } from '../guarded-lab.fixture.ts';
import type { LabContainer } from '../lab.ts';

const matchAny = [{ pod: 'edited' }];
const version = ({ 'custom-metadata': custom }: KiveAlert): number => Number(custom['version']);
/** `head -n NUMBER PATH`: which read it is of. */
const read = ({ process }: KiveAlert): string => process.arguments;

export function policyEditCases(lab: () => GuardedLab): void {
  suite('a policy is edited while its files are read', () => {
    let guarded: GuardedLab;
    let container: LabContainer;
    let runs = 0;
    before(async () => {
      guarded = lab();
      const hostPath = guarded.hostDirectory('stop');
      const script = 'cd /root; echo > f; echo > g; ln f same; exec sleep 1000000';
      ({ container } = await guarded.run({
        name: 'edited',
        containers: [
          { name: 'c', command: ['sh', '-c', script], mounts: [{ containerPath: '/stop', hostPath }] },
        ],
      }));
    });
    after(async () => await guarded?.deletePolicy('edited'));

    const edit = async (path: string, number: number): Promise<void> =>
      void (await guarded.setPolicy('edited', [{ path, metadata: { version: String(number) }, matchAny }]));

    /** The only KiveData, once it has this path and number. */
    const reports = async (path: string, number: number): Promise<KiveData> =>
      await until(`the KiveData of version ${number}`, async () => {
        const [data, ...others] = await guarded.data('edited');
        return (
          others.length === 0 &&
          data?.metadata.annotations?.['path'] === path &&
          data.spec.metadata?.['version'] === String(number) &&
          data
        );
      });

    /** Reads `f` and `g` in turn while the action runs. Returns the alerts and how often each was read. */
    async function whileRead(action: () => Promise<void>): Promise<{ alerts: KiveAlert[]; reads: number }> {
      const name = `now-${runs++}`;
      // With its path, or the shell runs it without the arguments being the process's.
      const loop = `i=0; while [ ! -e /stop/${name} ]; do /bin/head -n $i /root/f; /bin/head -n $i /root/g; i=$((i+1)); done; echo $i`;
      let reads = 0;
      const already = guarded.alerts().length;
      const hasStarted = (): boolean =>
        guarded
          .alerts()
          .slice(already)
          .some((one) => read(one) === '-n 3 /root/f');
      const alerts = await guarded.alertsOf(async () => {
        const reading = guarded.lab.exec(container, ['sh', '-c', loop]);
        try {
          await guarded.standalone.until(hasStarted);
          await action();
        } finally {
          writeFileSync(join(guarded.hostDirectory('stop'), name), '');
        }
        const { stdout } = await reading;
        reads = Number(stdout.trim().split('\n').at(-1));
      });
      return { alerts: alerts.filter(({ process: { arguments: line } }) => line.startsWith('-n ')), reads };
    }

    const allReads = (path: string, reads: number): string[] =>
      Array.from({ length: reads }, (_, number) => `-n ${number} ${path}`);

    test('its metadata: each access once, by the trap before or after', async () => {
      await edit('/root/f', 0);
      await guarded.dataCount('edited', 1);
      const { alerts, reads } = await whileRead(async () => {
        for (let number = 1; number <= 10; number++) {
          await edit('/root/f', number);
          await reports('/root/f', number);
          const mine = await guarded.alertsOf(() => readFileSync(guarded.pathIn(container, '/root/f')));
          assert.deepEqual(mine.filter(({ process: { tgid } }) => tgid === process.pid).map(version), [
            number,
          ]);
          await guarded.standalone.until(() =>
            guarded.alerts().some((one) => version(one) === number && read(one).endsWith(' /root/f')),
          );
        }
        // And as fast as the API takes them.
        for (let number = 11; number <= 40; number++) await edit('/root/f', number);
        await reports('/root/f', 40);
      });
      assert.deepEqual(alerts.map(read), allReads('/root/f', reads));
      const versions = alerts.map(version);
      assert.deepEqual(
        versions,
        versions.toSorted((a, b) => a - b),
      );
      assert.ok(new Set(versions).size > 10, versions.join(' '));
    });

    deepTest('its path, to another name of the same file: each access once', async () => {
      await edit('/root/f', 0);
      await reports('/root/f', 0);
      const { alerts, reads } = await whileRead(async () => {
        for (let number = 1; number <= 10; number++) {
          const path = number % 2 === 0 ? '/root/f' : '/root/same';
          await edit(path, number);
          await reports(path, number);
        }
      });
      assert.deepEqual(alerts.map(read), allReads('/root/f', reads));
      assert.deepEqual(
        new Set(alerts.map(({ metadata }) => metadata.path)),
        new Set(['/root/f', '/root/same']),
      );
      for (const alert of alerts) {
        assert.equal(alert.metadata.path, version(alert) % 2 === 0 ? '/root/f' : '/root/same');
      }
    });

    test('its path, to another file: that one is watched before the other is let go', async () => {
      await edit('/root/f', 0);
      await reports('/root/f', 0);
      const { alerts, reads } = await whileRead(async () => {
        await edit('/root/g', 1);
        await reports('/root/g', 1);
        // Between two reads of `g` is one of `f`.
        const from = guarded.alerts().length;
        const readsOfG = () =>
          guarded
            .alerts()
            .slice(from)
            .filter((one) => read(one).endsWith(' /root/g'));
        await guarded.standalone.until(() => readsOfG().length >= 2);
        const mine = await guarded.alertsOf(() => readFileSync(guarded.pathIn(container, '/root/f')));
        assert.deepEqual(
          mine.filter(({ process: { tgid } }) => tgid === process.pid),
          [],
        );
      });
      const [ofF, ofG] = ['/root/f', '/root/g'].map((path) =>
        alerts.filter((alert) => read(alert).endsWith(path)).map(read),
      ) as [string[], string[]];
      assert.equal(alerts.length, ofF.length + ofG.length);
      assert.deepEqual(ofF, allReads('/root/f', reads).slice(0, ofF.length));
      assert.deepEqual(ofG, allReads('/root/g', reads).slice(reads - ofG.length));
      assert.ok(ofF.length + ofG.length >= reads, `${ofF.length} and ${ofG.length} of ${reads}`);
      assert.ok(ofF.length < reads && ofG.length < reads);
    });
  });
}
