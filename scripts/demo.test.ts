import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chmodSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { alternate, deepSuite, deepTest, isDeep, sampled, seed } from '../lib/testing/depth.fixture.ts';
import { asNobody, publicPath } from '../lib/testing/public-checkout.fixture.ts';
import { Running } from '../lib/testing/running.fixture.ts';
import { TemporaryDirectory } from '../lib/testing/temporary-directory.fixture.ts';
import { labObstacle, packagesObstacle } from '../test/lab/obstacle.ts';
import { samplePolicy } from './demo/pods.ts';
import { kubectl } from './demo/stage.ts';

const node = [process.execPath, join(import.meta.dirname, 'demo.ts')];
const asRoot = process.geteuid?.() === 0;
const skip = asRoot ? (labObstacle() ?? packagesObstacle(kubectl) ?? false) : 'needs root';

/** Put before it: the kernel refuses it eBPF programs. CAP_SYS_ADMIN covers all capabilities for loading. */
const forSensor = '-bpf,-perfmon,-sys_admin';
const withoutSensor = ['setpriv', `--bounding-set=${forSensor}`, `--inh-caps=${forSensor}`];
const hideKubectl = 'for file in $(which -a kubectl); do mount --bind /dev/null "$file"; done; exec "$@"';
const withoutKubectl = ['unshare', '--mount', 'sh', '-euc', hideKubectl, 'sh'];

/** Lines about waits of more than a second: anywhere, on a busy machine. */
const waits = /^ {2}\.\.\. .*\n/gm;

/** Runs the demo with a temporary directory of its own. */
async function demo(
  words: readonly string[],
  before: readonly string[] = [],
  meddle: (running: Running) => Promise<unknown> | undefined = () => undefined,
) {
  using temporary = new TemporaryDirectory();
  chmodSync(temporary.path, 0o777);
  const command = before === asNobody ? node.map(publicPath) : node;
  const env = { ...process.env, TMPDIR: temporary.path };
  await using running = new Running([...before, ...command, ...words], { env, detached: true });
  await meddle(running);
  const { stdout, stderr, code } = await running.ended;
  const labs = [...new Set(stdout.match(/rampart-lab-\w+/g))];
  return {
    ...{ stderr, code, stdout: stdout.replaceAll(waits, '') },
    left: [
      ...readdirSync(temporary.path),
      ...labs.flatMap((name) => globSync(`/sys/fs/cgroup/{,*/}${name}`)),
      ...(stdout.match(/^Left on this machine.*/gm) ?? []),
    ],
  };
}

/** With how much each compares. */
const parts = [
  ['files', '1. Files of this machine', 22],
  ['pods', '2. Pods', 13],
  ['integrity', '3. Integrity', 12],
  ['network', '4. Network', 12],
  ['policies', '5. Policies', 8],
  ['programs', '6. eBPF programs', 10],
] as const;

/** What a part shows besides. */
const shows: Readonly<Record<string, readonly RegExp[]>> = {
  files: [/^read +read \(36\) of secret by \S*\/cat +ok$/m],
  pods: [
    /^ {2}-r--r--r-- .* \/secret\.txt$/m,
    /^ {2}\S+ +read +default\/nginx-pod\/nginx:\/secret\.txt .* kive-sample-policy, accessed from the host$/m,
    /^ {2}POST \/alerts .*-0 .*\n {2}POST \/alerts .*-1 /m,
    /^\$ kubectl get kivedata -A\n {2}No resources found\nnginx-pod # .*\n {2}no alert$/m,
    /Looked for, and gone: \d+ processes \(containerd, .*rampart/,
  ],
  integrity: [
    // Who it was, since every machine that runs these tests has the sensor.
    /^who changed \/etc\/passwd +\/\S+ \.\/tamper\.sh, uid 65534 +ok$/m,
    /^who changed \/etc\/sudoers +\/\S+ -f sudoers\.new host\/etc\/sudoers, uid 0 +ok$/m,
    /^ {3}"author":\{"binary":.*"\.\/tamper\.sh"/m,
    /^ {2}f .* : \/hostroot\/etc\/passwd$/m,
    /^ {2}machine: accepted \(2\); no differences from the baseline are left$/m,
  ],
};

function matches(text: string, patterns: readonly RegExp[] = []): void {
  for (const pattern of patterns) assert.match(text, pattern);
}

/** All is as it should be, and nothing is left. */
async function seesAll(words: readonly string[], shown: readonly (typeof parts)[number][]): Promise<void> {
  const { stdout, stderr, code, left } = await demo(words);
  assert.deepEqual([stderr, code, left], ['', 0, []], stdout);
  for (const [name] of shown) matches(stdout, shows[name]);
  const table = stdout
    .replaceAll(/ {2,}/g, '  ')
    .split('\n')
    .slice(-shown.length - 1, -1);
  const wanted = shown.map(([, title, all]) => `${title}  ok  ${all} of ${all} as expected`);
  assert.deepEqual(table, wanted);
  assert.ok(!stdout.includes('\u001b'), 'no colour in a pipe');
}

// A part waits for about half of its time.
describe('npm run demo', { concurrency: 2 }, () => {
  // Parts with pods or a cluster take some eight seconds of CPU time each, so another one runs with each
  // seed; all at once in npm run test:deep.
  const [files, ...others] = parts;
  for (const part of isDeep ? [] : [files, ...sampled(others, 1)])
    test(`${part[0]} alone (RAMPART_TEST_SEED=${seed})`, { skip }, () =>
      seesAll(['--only', part[0]], [part]),
    );

  deepTest('all parts: all is seen as it should be, and nothing is left', { skip }, () => seesAll([], parts));

  deepTest('a pod that the policy is not for: no alert, exit code 1, what differs', { skip }, async () => {
    const { stdout, code, left } = await demo(['--only', 'pods', '--security-level', 'low']);
    assert.deepEqual([code, left], [1, []], stdout);
    matches(stdout, [
      /^watched for the policy +1 file in 1 container +FAILED\n {4}seen: 0 file in 0 container$/m,
      /^read in the pod +read by owner +FAILED\n {4}seen: no alert$/m,
      /^KiveData after deletion +0 +ok$/m,
      /^2\. Pods +FAILED +\d+ of 13 as expected$/m,
    ]);
  });

  deepTest(
    'where the kernel refuses the sensor, integrity is shown without who it was',
    { skip },
    async () => {
      const { stdout, stderr, code, left } = await demo(['--only', 'integrity'], withoutSensor);
      assert.deepEqual([stderr, code, left], ['', 0, []], stdout);
      matches(stdout, [
        /^ {2}\{.*"events":"inotify",.*"reason":"[^"]*needs CAP_BPF/m,
        /^Two files are changed\. Who does it cannot be seen on this machine;/m,
        /^who changed \/etc\/passwd +not known here +ok$/m,
        /^3\. Integrity +ok +12 of 12 as expected$/m,
      ]);
    },
  );

  deepSuite('stopped by Ctrl-C it leaves nothing behind', { skip, concurrency: 2 }, () => {
    for (const [part, said, forMs] of alternate([
      ['files', /^\$ cat secret$/m, 0],
      ['pods', /^2\. Pods$/m, 0],
      ['pods', /^2\. Pods$/m, 150],
      ['pods', /^\$ rampart standalone/m, 300],
      ['pods', /^\$ kubectl apply/m, 0],
      ['pods', /^nginx-pod # cat /m, 0],
      ['pods', /^\$ kubectl delete/m, 100],
      ['pods', /found\nnginx-pod # .*\n {2}no alert$/m, 0],
      ['integrity', /^uid 65534 \$ /m, 0],
    ] as const))
      test(`${part}, ${forMs} ms after ${said}`, async () => {
        const { stdout, stderr, code, left } = await demo(['--only', part], [], async (running) => {
          await running.until(() => said.test(running.stdout.replaceAll(waits, '')));
          await new Promise((resolve) => setTimeout(resolve, forMs));
          // Twice: npm passes it on, and people are impatient.
          for (let times = 0; times < 2; times++) process.kill(-running.pid, 'SIGINT');
        });
        // It says that it cleans up where that takes long, which may be before or after the reason.
        const reported = stderr.replace('demo: cleaning up\n', '');
        assert.deepEqual([reported, code, left], ['demo: stopped by SIGINT\n', 1, []], stdout);
      });
  });

  deepTest('without a reader it leaves nothing behind', { skip }, async () => {
    const { code, left } = await demo([], [], async (running) => {
      await running.until(() => running.stdout !== '');
      running.child.stdout?.destroy();
    });
    assert.deepEqual([code, left], [1, []]);
  });

  deepTest('without kubectl: what needs it is not shown, and it says what to do', { skip }, async () => {
    const why = 'missing packages: apt-get install kubernetes-client';
    const all = await demo([], withoutKubectl);
    assert.equal(all.code, 0, all.stdout + all.stderr);
    const rows = parts.slice(1).map(([, title]) => new RegExp(`^${title} +not shown +${why}$`, 'm'));
    matches(all.stdout, rows);
    const { stdout, stderr, code } = await demo(['--only', 'pods'], withoutKubectl);
    assert.deepEqual([stdout, stderr, code], ['', `demo: pods cannot be shown here: ${why}\n`, 2]);
  });

  deepTest('without root: a line for each part, exit code 2', async () => {
    const { stdout, stderr, code, left } = await demo([], asRoot ? asNobody : []);
    assert.match(stderr, /^(?:demo: \w+ cannot be shown here: needs root\..*\n){6}$/);
    assert.deepEqual([stdout, code, left], ['', 2, []]);
  });

  test('a bad option or mode: exit code 2; what there is', async () => {
    for (const words of [['--fast'], ['--only', 'containers'], ['--mode', 'magic']]) {
      const { code, stderr } = await demo(words);
      assert.equal(code, 2);
      assert.match(stderr, /^demo: usage: npm run demo /);
    }
    const { code, stdout } = await demo(['--list']);
    const names = parts.map(([name]) => name);
    assert.deepEqual([code, stdout.match(/^\w+/gm)], [0, names]);
  });

  test('the sample policy is that of the design document, whatever a formatter would make of it', () => {
    const digest = createHash('sha256').update(readFileSync(samplePolicy)).digest('hex');
    assert.equal(digest, '4d8081a621be0cbf3044420a59761a1eb4d15d1acb10eb2aa89e3833c02b0a20');
  });
});
