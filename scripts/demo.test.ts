import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { deepSuite, deepTest, isDeep, sampled, seed } from '../lib/testing/depth.fixture.ts';
import { asNobody, publicPath } from '../lib/testing/public-checkout.fixture.ts';
import { kubectlObstacle } from './demo/kubectl.ts';
import { podsObstacle } from './demo/stage.ts';

const script = fileURLToPath(new URL('./demo.ts', import.meta.url));
const asRoot = process.geteuid?.() === 0;
const needsRoot = asRoot ? false : 'needs root';
const noPods = podsObstacle() ?? false;

/** The capabilities for loading, for setpriv; CAP_SYS_ADMIN covers all of them. */
const forSensor = '-bpf,-perfmon,-sys_admin';

/** Lines about waits of more than a second: anywhere, on a busy machine. */
const waits = /^ {2}\.\.\. .*\n/gm;

interface Meddling {
  /** Another user runs it. */
  readonly byNobody?: boolean;
  readonly path?: string;
  /** The kernel refuses it eBPF programs. */
  readonly noSensor?: true;
  /** SIGINT goes to the whole process group, as from a terminal, when stdout has matched for this long. */
  readonly stopAfter?: { readonly said: RegExp; readonly forMs: number };
}

/** Runs the demo with a temporary directory of its own. */
async function demo(words: readonly string[], { byNobody, path, noSensor, stopAfter }: Meddling = {}) {
  const temporary = mkdtempSync(join(tmpdir(), 'rampart-demo-test-'));
  chmodSync(temporary, 0o777);
  const labs = new Set<string>();
  try {
    const without = noSensor ? ['setpriv', `--bounding-set=${forSensor}`, `--inh-caps=${forSensor}`] : [];
    const node = [process.execPath, script];
    const command = byNobody ? [...asNobody, ...node.map(publicPath)] : [...without, ...node];
    const [program = '', ...args] = [...command, ...words];
    const child = spawn(program, args, {
      env: { ...process.env, TMPDIR: temporary, ...(path !== undefined && { PATH: path }) },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const ended = once(child, 'close');
    const looking = setInterval(() => {
      for (const name of readdirSync(temporary)) if (name.startsWith('rampart-lab-')) labs.add(name);
    }, 10);
    let soFar = '';
    let stopping = false;
    child.stdout.on('data', (bytes: Buffer) => {
      soFar += bytes.toString();
      if (stopAfter === undefined || stopping || !stopAfter.said.test(soFar.replaceAll(waits, ''))) return;
      stopping = true;
      const interrupt = () => {
        // Its ID, and that of its group, belong to it only as long as it runs.
        if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
        process.kill(-child.pid, 'SIGINT');
      };
      setTimeout(interrupt, stopAfter.forMs);
      // Twice: npm passes it on, and people are impatient.
      setTimeout(interrupt, stopAfter.forMs + 30);
    });
    const [stdout, stderr, [exitCode]] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
    clearInterval(looking);
    const left = [...readdirSync(temporary), ...[...labs].flatMap(remainsOf)];
    return {
      stdout: stdout.replaceAll(waits, ''),
      stderr,
      exitCode: exitCode as number | null,
      left,
      labs: labs.size,
    };
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/** A lab's remains on the machine. */
function remainsOf(name: string): string[] {
  const remains = globSync(`/sys/fs/cgroup/{,*/}${name}`);
  for (const pid of globSync('/proc/[0-9]*')) {
    try {
      const texts = ['cgroup', 'mountinfo', 'cmdline'].map((file) => readFileSync(`${pid}/${file}`, 'utf8'));
      if (texts.join('').includes(name)) remains.push(`${pid} ${texts[2]?.replaceAll('\0', ' ')}`);
    } catch {
      // It has ended.
    }
  }
  return remains;
}

/** Runs the demo until its first words are out, then stops reading. */
function demoUnread(temporary: string): Promise<unknown> {
  const child = spawn(process.execPath, [script], {
    env: { ...process.env, TMPDIR: temporary },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  child.stdout.once('data', () => child.stdout.destroy());
  return once(child, 'exit');
}

/** A directory for PATH with all commands but one. */
function pathWithout(command: string, directory: string): string {
  mkdirSync(directory);
  for (const from of (process.env['PATH'] ?? '').split(delimiter)) {
    for (const name of existsSync(from) ? readdirSync(from) : []) {
      const link = join(directory, name);
      if (name !== command && !existsSync(link)) symlinkSync(join(from, name), link);
    }
  }
  return directory;
}

interface Part {
  readonly name: string;
  /** In the table at the end. */
  readonly title: string;
  /** How much it compares. */
  readonly compared: number;
  readonly labs: number;
  /** Fails unless stdout has the expected text. */
  readonly shows: (stdout: string) => void;
}

const parts: readonly [Part, ...Part[]] = [
  {
    name: 'files',
    title: '1. files of this machine',
    compared: 19,
    labs: 0,
    shows(stdout) {
      assert.match(stdout, /^All \d+ accesses that \w+ sees were seen once/m);
      assert.match(stdout, /^read +cat secret +read +1 +ok$/m);
    },
  },
  {
    name: 'pods',
    title: '2. pods',
    compared: 13,
    labs: 1,
    shows(stdout) {
      assert.match(stdout, /^ {2}-r--r--r-- .* \/secret\.txt$/m);
      assert.match(stdout, /^ {2}read +nginx in default\/nginx-pod +the container itself +cat /m);
      assert.match(stdout, /^ {2}read +nginx in default\/nginx-pod +the host +cat /m);
      const posts = /^ {2}POST \/alerts +\S+-[01] +application\/json +\d+ bytes, as at stdout$/gm;
      assert.equal(stdout.match(posts)?.length, 2);
      assert.match(
        stdout,
        /^\$ kubectl get kivedata -A\n {2}No resources found\nnginx-pod # .*\n {2}no alert$/m,
      );
      assert.match(stdout, /Looked for, and gone: \d+ processes \(containerd, .*rampart/);
    },
  },
  {
    name: 'integrity',
    title: '3. integrity',
    compared: 12,
    labs: 0,
    shows(stdout) {
      // Who it was, since every machine that runs these tests has the sensor.
      assert.match(stdout, /^who changed \/etc\/passwd +\/\S+ \.\/tamper\.sh, uid 65534 +ok$/m);
      assert.match(
        stdout,
        /^who changed \/usr\/bin\/tool +\/\S+ -f tool\.new host\/usr\/bin\/tool, uid 0 +ok$/m,
      );
      assert.match(stdout, /^ {3}"author":\{"binary":.*"\.\/tamper\.sh"/m);
      assert.match(stdout, /^ {2}f .* : \/hostroot\/etc\/passwd$/m);
      assert.match(stdout, /^ {2}machine: accepted \(2\); no differences from the baseline are left$/m);
    },
  },
  { name: 'network', title: '4. network', compared: 11, labs: 1, shows: () => undefined },
  { name: 'policies', title: '5. policies', compared: 7, labs: 0, shows: () => undefined },
  { name: 'programs', title: '6. eBPF programs', compared: 9, labs: 0, shows: () => undefined },
];

/** Runs the demo, which shows these parts; all is as it should be, and nothing is left. */
async function seesAll(words: readonly string[], shown: readonly Part[]): Promise<void> {
  const { stdout, stderr, exitCode, left, labs } = await demo(words);
  assert.equal(stderr, '');
  assert.equal(exitCode, 0, stdout);
  for (const { shows } of shown) shows(stdout);
  const table = stdout.slice(stdout.lastIndexOf('\n\n') + 2);
  assert.deepEqual(
    table
      .split('\n')
      .filter((line) => line.includes(' as expected'))
      .map((line) => line.replaceAll(/ {2,}/g, '  ')),
    shown.map(({ title, compared }) => `${title}  ok  ${compared} of ${compared} as expected`),
  );
  const compared = shown.reduce((sum, part) => sum + part.compared, 0);
  assert.equal(stdout.match(/ ok$/gm)?.length, compared);
  assert.ok(!stdout.includes('\u001b'), 'no colour in a pipe');
  assert.deepEqual({ left, labs }, { left: [], labs: shown.reduce((sum, part) => sum + part.labs, 0) });
}

describe('npm run demo', () => {
  // Parts with pods or a cluster take some eight seconds of CPU time each, so another one runs with each
  // seed; all at depth 1.
  const [files, ...others] = parts;
  for (const part of [files, ...(isDeep ? [] : sampled(others, 1))]) {
    const skip = needsRoot || (part !== files && noPods);
    test(`${part.name} alone (RAMPART_TEST_SEED=${seed})`, { skip }, () =>
      seesAll(['--only', part.name], [part]),
    );
  }

  deepTest('all parts: all is seen as it should be, and nothing is left', { skip: needsRoot || noPods }, () =>
    seesAll([], parts),
  );

  deepTest(
    'a pod that the policy is not for: no alert, exit code 1, and what differs',
    { skip: needsRoot || noPods },
    async () => {
      const { stdout, exitCode, left } = await demo(['--only', 'pods', '--security-level', 'low']);
      assert.equal(exitCode, 1, stdout);
      assert.match(
        stdout,
        /^watched for the policy +1 file in 1 container +FAILED\n {4}seen: 0 file in 0 container$/m,
      );
      assert.match(stdout, /^read in the pod +read by owner +FAILED\n {4}seen: no alert$/m);
      assert.match(stdout, /^KiveData after deletion +0 +ok$/m);
      assert.match(stdout, /^2\. pods +FAILED +\d+ of 13 as expected$/m);
      assert.deepEqual(left, []);
    },
  );

  deepTest(
    'where the kernel refuses the sensor: integrity is shown all the same, without who it was',
    { skip: needsRoot || (kubectlObstacle() ?? false) },
    async () => {
      const { stdout, stderr, exitCode, left } = await demo(['--only', 'integrity'], { noSensor: true });
      assert.equal(stderr, '');
      assert.equal(exitCode, 0, stdout);
      assert.match(stdout, /^ {2}\{.*"events":"inotify",.*"reason":"[^"]*needs CAP_BPF/m);
      assert.match(stdout, /^Two files are changed\. Who does it cannot be seen on this machine;/m);
      assert.match(stdout, /^who changed \/etc\/passwd +not known here +ok$/m);
      assert.match(stdout, /^who changed \/usr\/bin\/tool +not known here +ok$/m);
      assert.match(stdout, /^3\. integrity +ok +12 of 12 as expected$/m);
      assert.deepEqual(left, []);
    },
  );

  const moments: readonly (readonly [readonly string[], RegExp, number])[] = [
    [[], /^\$ cat secret$/m, 0],
    ...(
      [
        [/^2\. Pods$/m, 0],
        [/^2\. Pods$/m, 150],
        [/^\$ rampart standalone/m, 300],
        [/^\$ kubectl apply/m, 0],
        [/^nginx-pod # cat /m, 0],
        [/^\$ kubectl delete/m, 100],
        [/found\nnginx-pod # .*\n {2}no alert$/m, 0],
      ] as const
    ).map(([said, forMs]) => [['--only', 'pods'], said, forMs] as const),
    [['--only', 'integrity'], /^uid 65534 \$ /m, 0],
  ];
  deepSuite(
    'stopped by Ctrl-C it leaves nothing behind',
    { skip: needsRoot || noPods, concurrency: 2 },
    () => {
      for (const [only, said, forMs] of moments) {
        test(`${forMs} ms after ${said}`, async () => {
          const { stderr, exitCode, left, stdout } = await demo(only, { stopAfter: { said, forMs } });
          // It says that it cleans up where that takes long, which may be before or after the reason.
          const told = stderr.replace('demo: cleaning up\n', '');
          assert.equal(told, 'demo: stopped by SIGINT\n', stdout);
          assert.equal(exitCode, 1, stdout);
          assert.deepEqual(left, []);
        });
      }
    },
  );

  deepTest('without a reader it leaves nothing behind', { skip: needsRoot }, async () => {
    const temporary = mkdtempSync(join(tmpdir(), 'rampart-demo-test-'));
    try {
      assert.deepEqual(await demoUnread(temporary), [1, null]);
      assert.deepEqual(readdirSync(temporary), []);
    } finally {
      rmSync(temporary, { recursive: true, force: true });
    }
  });

  deepTest(
    'without kubectl: pods and integrity are not shown, and it says what to do',
    { skip: needsRoot || noPods },
    async () => {
      const directory = mkdtempSync(join(tmpdir(), 'rampart-demo-test-'));
      try {
        const path = pathWithout('kubectl', join(directory, 'bin'));
        const all = await demo([], { path });
        assert.equal(all.exitCode, 0, all.stdout + all.stderr);
        const why = 'missing packages: apt-get install kubernetes-client';
        assert.match(all.stdout, new RegExp(`^2\\. pods +not shown +${why}$`, 'm'));
        assert.match(all.stdout, new RegExp(`^3\\. integrity +not shown +${why}$`, 'm'));
        for (const [part, what] of [
          ['pods', 'pods'],
          ['integrity', 'file integrity'],
        ] as const) {
          const asked = await demo(['--only', part], { path });
          assert.equal(asked.exitCode, 2);
          assert.deepEqual(
            [asked.stdout, asked.stderr],
            ['', `demo: ${what} cannot be shown here: ${why}\n`],
          );
        }
      } finally {
        rmSync(directory, { recursive: true });
      }
    },
  );

  deepTest('without root: one line, exit code 2', async () => {
    const withoutRoot = { byNobody: asRoot };
    const { stdout, stderr, exitCode, left } = await demo([], withoutRoot);
    assert.equal(
      stderr,
      'rampart: cannot watch files: loading eBPF programs requires root. Run it as root, e.g. with sudo\n',
    );
    assert.equal(stdout, '');
    assert.equal(exitCode, 2);
    const pods = await demo(['--only', 'pods'], withoutRoot);
    assert.equal(pods.exitCode, 2);
    assert.equal(pods.stderr, 'demo: pods cannot be shown here: needs root, for containerd\n');
    const integrity = await demo(['--only', 'integrity'], withoutRoot);
    assert.equal(integrity.exitCode, 2);
    assert.equal(
      integrity.stderr,
      'demo: file integrity cannot be shown here: needs root, to load eBPF programs\n',
    );
    assert.deepEqual([...left, ...pods.left, ...integrity.left], []);
  });

  test('a bad option or mode: exit code 2', async () => {
    for (const words of [['--fast'], ['--only', 'containers']]) {
      const { exitCode, stderr } = await demo(words);
      assert.equal(exitCode, 2);
      assert.match(stderr, /^demo: usage: npm run demo /);
    }
    const mode = await demo(['--mode', 'magic']);
    assert.equal(mode.exitCode, 2);
    assert.match(mode.stderr, /^rampart: option '--mode <mode>' argument 'magic' is invalid\..*\n$/);
    assert.deepEqual(mode.left, []);
  });
});
