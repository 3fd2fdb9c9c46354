// Containers that plant whatever they can to lead the agent to the host's files, with traps that create what is missing.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { sensorSkip } from '../../../shared/sensor/sensor.fixture.ts';
import type { KivePolicy } from '../../../systems/file-access/api.ts';
import { statusOf } from '../../../systems/file-access/policy-status.ts';
import { GuardedLab, until } from '../guarded-lab.fixture.ts';
import type { LabContainer } from '../lab.ts';
import { labObstacle } from '../obstacle.ts';

/** In the name of all that may be created: nothing on the host has it before. */
const TOKEN = `made-${randomBytes(6).toString('hex')}`;

interface Variant {
  /** A script that plants it, in an empty directory; `$O` is a directory of the host that the container has not. */
  readonly plant: string;
  /** The trap's; `$D` is that directory, and `$N` a name that nothing has. */
  readonly path: string;
  /** What the trap is for is inside of the container, at `$D`-like path; or why there is nothing. */
  readonly ends: { readonly inside: string } | { readonly why: RegExp };
}

const nowhere = { why: /does not exist/ };

const ordinary: Readonly<Record<string, Variant>> = {
  'an absolute link to a file of the host': { plant: 'ln -s $O/secret x', path: '$D/x', ends: nowhere },
  'an absolute link to a new file': { plant: 'ln -s $O/$N x', path: '$D/x', ends: nowhere },
  'an absolute link to a new file in a directory that both have': {
    plant: 'ln -s /tmp/$N x',
    path: '$D/x',
    ends: nowhere,
  },
  'a link with more .. than there are directories': {
    plant: 'ln -s ../../../../../../../../../../../../../..$O/secret x',
    path: '$D/x',
    ends: nowhere,
  },
  'an absolute link as parent': { plant: 'ln -s $O d', path: '$D/d/secret', ends: nowhere },
  'an absolute link as parent of a new file': { plant: 'ln -s $O d', path: '$D/d/$N', ends: nowhere },
  'a link to /tmp as parent of a new file': {
    plant: 'ln -s /tmp d',
    path: '$D/d/$N',
    ends: { inside: '/tmp/$N' },
  },
  'a relative link to /tmp as parent': {
    plant: 'ln -s ../../../../../../../../../tmp d',
    path: '$D/d/$N',
    ends: { inside: '/tmp/$N' },
  },
  'a link to above the root as parent': { plant: 'ln -s /.. d', path: '$D/d$O/$N', ends: nowhere },
  '.. behind a link': {
    plant: 'ln -s / d; ln -s d/../../tmp e',
    path: '$D/e/$N',
    ends: { inside: '/tmp/$N' },
  },
  'into a directory and further back': {
    plant: 'mkdir -p a/b; ln -s a/b/../../../../../../../tmp d',
    path: '$D/d/$N',
    ends: { inside: '/tmp/$N' },
  },
  'a chain of links': {
    plant: 'ln -s $O a0; for i in $(seq 30); do ln -s a$((i-1)) a$i; done',
    path: '$D/a30/$N',
    ends: nowhere,
  },
  'a chain that is too long': {
    plant: 'ln -s /tmp a0; for i in $(seq 60); do ln -s a$((i-1)) a$i; done',
    path: '$D/a60/$N',
    ends: { why: /Links that lead to each other/ },
  },
  'a link to itself': { plant: 'ln -s x x', path: '$D/x', ends: { why: /Links that lead to each other/ } },
  'a loop of links as parent': {
    plant: 'ln -s b a; ln -s a b',
    path: '$D/a/$N',
    ends: { why: /Links that lead to each other/ },
  },
  'the root of process 1': {
    plant: '',
    path: '/proc/1/root/tmp/$N',
    ends: { why: /those of procfs/ },
  },
  'its own root, by a link': {
    plant: 'ln -s /proc/self/root d',
    path: '$D/d$O/$N',
    // Of no process in there: who looks is not in the container.
    ends: nowhere,
  },
  'the working directory': {
    plant: 'ln -s /proc/1/cwd d',
    path: '$D/d/tmp/$N',
    ends: { why: /those of procfs/ },
  },
  'the root of a thread': {
    plant: 'ln -s /proc/thread-self/root d',
    path: '$D/d/tmp/$N',
    ends: nowhere,
  },
  'a descriptor': { plant: 'ln -s /proc/self/fd/0 x', path: '$D/x', ends: nowhere },
  'standard input': { plant: '', path: '/dev/stdin', ends: nowhere },
  'a link in a volume to beside it': {
    plant: 'ln -sf ../outside /volume/d',
    path: '/volume/d/$N',
    ends: nowhere,
  },
  'a link to .. behind a volume': {
    plant: 'ln -s /volume/../outside d',
    path: '$D/d/$N',
    ends: nowhere,
  },
  'a link in a volume to the host’s path of what is beside it': {
    plant: 'ln -sf $O/$N /volume/x',
    path: '/volume/x',
    ends: nowhere,
  },
  'a hard link': { plant: 'echo > a; ln a b', path: '$D/b', ends: { inside: '$D/a' } },
  'a FIFO': { plant: 'mkfifo x', path: '$D/x', ends: { why: /FIFO/ } },
  'a FIFO as parent': { plant: 'mkfifo d', path: '$D/d/$N', ends: { why: /directory|does not exist/ } },
  'a link to a FIFO': { plant: 'mkfifo f; ln -s f x', path: '$D/x', ends: { why: /FIFO/ } },
  'a device node': { plant: 'mknod x c 1 5', path: '$D/x', ends: { inside: '$D/x' } },
  'the node of a disk': { plant: 'mknod x b 7 200', path: '$D/x', ends: { inside: '$D/x' } },
  'a directory': { plant: 'mkdir x', path: '$D/x', ends: { why: /Name a file in it/ } },
  'a file as parent': { plant: 'echo > d', path: '$D/d/$N', ends: { why: /directory|does not exist/ } },
  'a name of 255 bytes, and a path of 4,000': {
    plant: 'n=$(printf %0250d 0); p=.; for i in $(seq 15); do mkdir $p/$n; p=$p/$n; done; ln -s $p d',
    path: '$D/d/$N',
    ends: { inside: '$D/d/$N' },
  },
};

/** In a container that may mount. */
const privileged: Readonly<Record<string, Variant>> = {
  'its root as a mount below itself': {
    plant: 'mkdir m; mount --bind / m',
    path: '$D/m/tmp/$N',
    ends: { inside: '$D/m/tmp/$N' },
  },
  'the host’s path below its root as a mount': {
    plant: 'mkdir m; mount --bind / m',
    path: '$D/m$O/$N',
    ends: nowhere,
  },
  '.. behind a mount': {
    plant: 'mkdir -p a/b m; mount --bind a/b m; ln -s m/../../../../../../..$O d',
    path: '$D/d/$N',
    ends: nowhere,
  },
  'another procfs, and a root in it': {
    plant: 'mkdir m; mount -t proc proc m',
    path: '$D/m/1/root/tmp/$N',
    ends: { why: /those of procfs/ },
  },
  'the root of process 1 as a mount': {
    plant: 'mkdir m; mount --bind /proc/1/root m',
    path: '$D/m$O/$N',
    ends: nowhere,
  },
  'a link in a tmpfs': {
    plant: 'mkdir m; mount -t tmpfs none m; ln -s $O m/d',
    path: '$D/m/d/$N',
    ends: nowhere,
  },
  'a read-only mount': {
    plant: 'mkdir m; mount -t tmpfs none m; mount -o remount,ro m',
    path: '$D/m/$N',
    ends: { why: /read-only/i },
  },
  'an overlay of the volume': {
    plant:
      'mkdir m; mount -t tmpfs none m; mkdir m/u m/w m/m; mount -t overlay -o lowerdir=/volume,upperdir=$D/m/u,workdir=$D/m/w o m/m; ln -sfn ../outside m/m/d',
    path: '$D/m/m/d/$N',
    ends: nowhere,
  },
  'a mount over the whole of /tmp': {
    plant: 'mount -t tmpfs none /tmp; ln -s /tmp d',
    path: '$D/d/$N',
    ends: { inside: '/tmp/$N' },
  },
};

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

suite('containers that lead the agent out', { skip: sensorSkip || labObstacle() }, () => {
  let guarded: GuardedLab;
  let outside: string;
  let untouched: string[];
  let planters: Readonly<Record<'ordinary' | 'privileged', LabContainer>>;
  let other: LabContainer;

  before(async () => {
    guarded = await GuardedLab.start();
    outside = guarded.hostDirectory('outside');
    mkdirSync(join(outside, 'directory'));
    writeFileSync(join(outside, 'secret'), 'of the host', { mode: 0o600 });
    const hostPath = guarded.hostDirectory('volume');
    const run = async (name: string, more: { privileged?: boolean } = {}): Promise<LabContainer> => {
      const command = ['sleep', '1000000'];
      const mounts = [{ containerPath: '/volume', hostPath }];
      const { container } = await guarded.run({
        name,
        containers: [{ name: 'c', command, mounts, ...more }],
      });
      return container;
    };
    planters = { ordinary: await run('ordinary'), privileged: await run('privileged', { privileged: true }) };
    other = await run('other');
    await guarded.setPolicy('other', [{ path: '/etc/shadow', matchAny: [{ pod: 'other' }] }]);
    await guarded.dataCount('other', 1);
    // What is read for the picture is not changed by it; the times of accesses are not in it.
    untouched = picture(outside);
  });
  after(async () => guarded?.[Symbol.asyncDispose]());

  /** Files on the host with the token in their name, but for those that containers have in the lab's directory. */
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

  /** The agent is not held up: another pod's access is told. */
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
    // Each is a file that its container has: its own view of the path has the same number.
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
      const cases = Object.entries(variants).map(([name, variant], number) => {
        const [policy, directory] = [`${kind}-${number}`, `/p/${number}`];
        const fill = (text: string): string =>
          text.replaceAll('$D', directory).replaceAll('$O', outside).replaceAll('$N', `${TOKEN}-${policy}`);
        return { name, variant, policy, directory, fill };
      });
      const policies = new Map<string, KivePolicy>();

      before(async () => {
        for (const { variant, directory, fill } of cases) {
          await guarded.sh(
            planters[kind],
            `set -e; mkdir -p ${directory}; cd ${directory}; ${fill(variant.plant)}`,
          );
        }
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
            const object = await guarded.policy(policy);
            const [node] = statusOf(object).nodes ?? [];
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

      test('nothing of the host was reached or made', async () => {
        assert.deepEqual(madeOnHost(), []);
        await nothingReached();
      });
    });
  }

  suite('a name that changes all the time', () => {
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
        const stop = join(guarded.hostDirectory('volume'), `stop-${kind}`);
        const loop = `n=0; while [ ! -e /volume/stop-${kind} ]; do ${swap}; n=$((n+1)); done; echo $n`;
        await guarded.sh(container, 'mkdir -p /race/real /race/at');
        // One for each round: what a policy says is told at once the first time.
        const rounds = Array.from({ length: 8 }, (_, round) => `race-${kind}-${round}`);
        const swapping = guarded.sh(container, `cd /race; ${loop.replaceAll('$O', outside)}`);
        swapping.catch(() => undefined);
        let swaps: number;
        try {
          for (const policy of rounds) {
            await guarded.setPolicy(
              policy,
              Array.from({ length: 16 }, (_, number) => ({
                path: `/race/real/${TOKEN}-${policy}-${number}`,
                create: true,
                matchAny: [{ pod: kind }],
              })),
            );
            await until('the agent to have looked', async () => {
              const object = await guarded.policy(policy);
              const [node] = statusOf(object).nodes ?? [];
              return node?.observedGeneration === object.metadata.generation;
            });
          }
          await othersGoOn();
        } finally {
          writeFileSync(stop, '');
          swaps = Number(await swapping);
        }
        assert.ok(swaps > 100, `${swaps} swaps`);
        // It is not that nothing was tried.
        const made = await guarded.sh(container, `find / -xdev -name '*${TOKEN}-race-*'`);
        assert.ok(made.split('\n').length > 16, made);
        assert.deepEqual(madeOnHost(), []);
        await nothingReached();
        await Promise.all(rounds.map((policy) => guarded.deletePolicy(policy)));
      });
    }
  });
});
