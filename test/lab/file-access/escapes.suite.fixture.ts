// Containers that plant whatever they can to lead the agent to the host's files, with traps that create what is missing.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { deepSuite, sampled } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import type { KivePolicy } from '../../../guards/file-access/api.ts';
import type { GuardedLab } from '../guarded-lab.fixture.ts';
import type { LabContainer } from '../lab.ts';
import { ordinary, privileged } from './escape-variants.fixture.ts';

/** In the name of all that may be created: nothing on the host has it before. */
const TOKEN = `made-${randomBytes(6).toString('hex')}`;

/** All that would change if anything reached these files. */
function picture(directory: string): string[] {
  return ['.', ...readdirSync(directory, { recursive: true, encoding: 'utf8' })]
    .map((name) => {
      const path = join(directory, name);
      const stat = statSync(path, { bigint: true });
      const { ino, size, mode, mtimeNs, ctimeNs, nlink } = stat;
      const content = stat.isFile() ? readFileSync(path, 'utf8') : '';
      return [name, ino, size, mode, mtimeNs, ctimeNs, nlink, content].join(' ');
    })
    .sort();
}

export function escapeCases(lab: () => GuardedLab): void {
  suite('containers that lead the agent out', () => {
    let guarded: GuardedLab;
    let outside: string;
    let untouched: string[];
    let planters: Readonly<Record<'ordinary' | 'privileged', LabContainer>>;
    let other: LabContainer;

    before(async () => {
      guarded = lab();
      outside = guarded.hostDirectory('outside');
      mkdirSync(join(outside, 'directory'));
      writeFileSync(join(outside, 'secret'), 'of the host', { mode: 0o600 });
      const hostPath = guarded.hostDirectory('planted');
      const run = async (name: string, more: { privileged?: boolean } = {}): Promise<LabContainer> => {
        const command = ['sleep', '1000000'];
        const mounts = [{ containerPath: '/volume', hostPath }];
        const { container } = await guarded.run({
          name,
          containers: [{ name: 'c', command, mounts, ...more }],
        });
        return container;
      };
      planters = {
        ordinary: await run('ordinary'),
        privileged: await run('privileged', { privileged: true }),
      };
      other = await run('other');
      await guarded.setPolicy('other', [{ path: '/etc/shadow', matchAny: [{ pod: 'other' }] }]);
      await guarded.dataCount('other', 1);
      // Reading for the picture does not change it; access times are not in it.
      untouched = picture(outside);
    });
    after(async () => await guarded?.deletePolicy('other'));

    /**
     * Files on the host with the token in their name, except for those that containers have in the lab's
     * directory.
     */
    function madeOnHost(): string[] {
      const { stdout } = spawnSync(
        'find',
        // Deep enough for all that the traps name.
        [
          ...[
            '/',
            '/dev',
            '-xdev',
            '-maxdepth',
            '6',
            '(',
            '-path',
            guarded.lab.directory,
            '-o',
            '-name',
            'node_modules',
            ')',
          ],
          ...['-prune', '-o', '-name', `*${TOKEN}*`, '-print'],
        ],
        { encoding: 'utf8' },
      );
      return stdout.split('\n').filter((line) => line !== '');
    }

    /** The agent is not delayed: another pod's access is reported. */
    async function othersGoOn(): Promise<void> {
      const alerts = await guarded.alertsOf(() => guarded.lab.exec(other, ['cat', '/etc/shadow']));
      assert.deepEqual(
        alerts.filter((alert) => alert['kive-policy-name'] === 'other').map(({ pod }) => pod.name),
        ['other'],
      );
    }

    async function nothingReached(): Promise<void> {
      assert.deepEqual(picture(outside), untouched);
      const inodes = new Set(untouched.map((line) => Number(line.split(' ')[1])));
      for (const { spec, metadata } of await guarded.data()) {
        assert.ok(!inodes.has(spec.inodeNo ?? 0), `${metadata.annotations?.['path']} is a file of the host`);
      }
      await othersGoOn();
    }

    test('.. in the path of a trap is refused by the API', async () => {
      for (const path of ['/tmp/../x', '/..', '/../tmp/x', '/tmp/..', '/./tmp/x', '/tmp/.']) {
        const trap = { path, create: true, matchAny: [{ pod: 'ordinary' }] };
        await assert.rejects(guarded.setPolicy('refused', [trap]), { status: 422 }, path);
      }
    });

    for (const [kind, variants] of Object.entries({ ordinary, privileged }) as [
      'ordinary' | 'privileged',
      typeof ordinary,
    ][]) {
      suite(`${kind} container`, () => {
        const cases = sampled(Object.entries(variants), 3).map(([name, variant], number) => {
          const [policy, directory] = [`${kind}-${number}`, `/p/${number}`];
          const fill = (text: string): string =>
            text.replaceAll('$D', directory).replaceAll('$O', outside).replaceAll('$N', `${TOKEN}-${policy}`);
          return { name, variant, policy, directory, fill };
        });
        const policies = new Map<string, KivePolicy>();

        before(async () => {
          const plants = cases.map(
            ({ variant, directory, fill }) =>
              `(set -e; mkdir -p ${directory}; cd ${directory}; ${fill(variant.plant)}\n) || exit`,
          );
          await guarded.sh(planters[kind], plants.join('\n'));
          for (const { policy, variant, fill } of cases) {
            const trap = { path: fill(variant.path), create: true, matchAny: [{ pod: kind }] };
            policies.set(policy, await guarded.setPolicy(policy, [trap]));
          }
        });
        after(async () => {
          await Promise.all(cases.map(({ policy }) => guarded.deletePolicy(policy)));
        });

        for (const { name, variant, policy, fill } of cases) {
          test(name, async () => {
            const { ends } = variant;
            const status = await until(`the status of ${policy}`, async () => {
              const node = await guarded.partOf(policy);
              const isSettled = 'why' in ends ? node?.problemCount === 1 : node?.watchedFiles === 1;
              return isSettled && node;
            });
            const data = await guarded.data(policy);
            if ('why' in ends) {
              assert.deepEqual(data, []);
              assert.match(status.problems?.[0]?.message ?? '', ends.why);
              return;
            }
            const path = fill(ends.inside);
            const inode = await guarded.sh(planters[kind], `stat -L -c %i ${path}`);
            assert.deepEqual(
              data.map(({ spec }) => String(spec.inodeNo)),
              [inode.trim()],
            );
          });
        }

        test('nothing of the host was reached', nothingReached);
      });
    }

    test('nothing was made on the host', () => {
      assert.deepEqual(madeOnHost(), []);
    });

    deepSuite('a name that changes all the time', () => {
      for (const [kind, swap] of [
        // A link to the host's directory, one to a directory that both have, and a directory.
        [
          'ordinary',
          'for t in $O /tmp; do ln -s $t link; mv real away; mv link real; rm real; mv away real; done',
        ],
        ['privileged', 'mount --bind /tmp real; umount real; mount -t tmpfs none real; umount real'],
      ] as const) {
        test(`${kind} container: nothing is made where it must not be`, async () => {
          const container = planters[kind];
          const stop = join(guarded.hostDirectory('planted'), `stop-${kind}`);
          const loop = `n=0; while [ ! -e /volume/stop-${kind} ]; do ${swap}; n=$((n+1)); done; echo $n`;
          await guarded.sh(container, 'mkdir -p /race/real /race/at');
          // One for each round: a policy's errors are reported at once only the first time.
          const rounds: string[] = [];
          const swapping = guarded.sh(container, `cd /race; ${loop.replaceAll('$O', outside)}`);
          swapping.catch(() => undefined);
          // The number of files left in a round depends on the mounts at their creation: none, in one round
          // of two. A concurrent move makes find fail.
          const made = (): Promise<string> =>
            guarded.sh(container, `find / -xdev -name '*${TOKEN}-race-*' || :`);
          let swaps: number;
          try {
            while (rounds.length < 8 || (rounds.length < 100 && (await made()) === '')) {
              const policy = `race-${kind}-${rounds.length}`;
              rounds.push(policy);
              await guarded.setPolicy(
                policy,
                Array.from({ length: 16 }, (_, number) => ({
                  path: `/race/real/${TOKEN}-${policy}-${number}`,
                  create: true,
                  matchAny: [{ pod: kind }],
                })),
              );
              await until('the agent to have looked', async () => {
                const { metadata } = await guarded.policy(policy);
                return (await guarded.partOf(policy))?.observedGeneration === metadata.generation;
              });
            }
            await othersGoOn();
          } finally {
            writeFileSync(stop, '');
            swaps = Number(await swapping);
          }
          assert.ok(swaps > rounds.length, `${swaps} swaps`);
          // It is not that nothing was tried.
          assert.notEqual(await made(), '');
          assert.deepEqual(madeOnHost(), []);
          await nothingReached();
          await Promise.all(rounds.map((policy) => guarded.deletePolicy(policy)));
        });
      }
    });
  });
}
