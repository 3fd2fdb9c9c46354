/**
 * The tests in one of Debian's kernels, which is booted once for all of them: the guest's properties, the
 * capabilities of deploy/, and the sensor's own suites, unchanged, in every mode.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test, type TestContext } from 'node:test';

import {
  alternate,
  depth,
  depthEnvironment,
  isDeep,
  sampled,
  seed,
} from '../../lib/testing/depth.fixture.ts';
import { type SensorModeName, sensorModeNames } from '../../lib/sensor/modes.ts';
import { fileAccess } from '../../guards/file-access/guard.ts';
import { fileIntegrity } from '../../guards/file-integrity/guard.ts';
import { checkout, guestSees, written } from './guest-look.fixture.ts';
import { type KernelVersion, kernelVersions } from './modules.ts';
import { quote } from './quote.ts';
import { remarkable } from './remarkable.ts';
import { kernelRunObstacle, type KernelRun, runInKernel } from './vm.ts';

/** Under emulation a test is some ten times slower than on the machine. */
const TIMEOUT_MS = 35 * 60_000;
/** For one test or suite: one that hangs is named, instead of the whole kernel. */
const TEST_TIMEOUT_MS = 15 * 60_000;
const MARK = '\u001frampart';

/** Suites in one mode, in one process. */
interface Cell {
  readonly mode: SensorModeName;
  readonly files: readonly string[];
}

const look = 'test/kernel/guest-look.fixture.ts';
const operations = 'lib/sensor/operations.test.ts';
/** The first counts the descriptors of its process; the second is the longest, and runs beside the others. */
const hasOwnProcess = /-(?:close|process)\.test\.ts$/;
const sensor = globSync('lib/sensor/sensor-*.test.ts', { cwd: checkout }).toSorted();
const facts = [
  ...sensor.filter((file) => hasOwnProcess.test(file)).map((file) => [file]),
  [...sensor.filter((file) => !hasOwnProcess.test(file)), 'guards/file-access/node/file-watch.test.ts'],
];
/** Changes and who made them: the machine itself proves raw_tracepoint, and may have no kprobes. */
const changes = ['change-watch', 'readers'].map((name) => `lib/sensor/changes/${name}.test.ts`);
/** The guide's facts about this kernel. */
const recorded = 'guards/bpf-programs/kernel/kernels.test.ts';
/** Both backends of network policies. */
const network = 'guards/network-policy/node/smoke.test.ts';
/** The kernel's reports of connections. */
const newFlows = 'guards/network-policy/node/conntrack/new-flows.test.ts';
const probes = 'guards/bpf-programs/kernel/probe/probes.test.ts';
/** Kinds of programs that the machine itself may refuse, and Debian's kernels all run: tests of these names. One of them attaches as the others do. */
const programKinds = isDeep ? ['kprobe', 'kretprobe', 'fentry', 'fexit'] : sampled(['kprobe', 'fexit'], 1);
const restarts = 'guards/bpf-programs/kernel/restarts.test.ts';
const volumes = 'guards/bpf-programs/csi/volumes.test.ts';
/** The test of it that depends on the kernel. */
const ofVolumes = '^a pod reads what the program counts';
/**
 * The rest of the programs, at every depth on the machine's own kernel, here at full depth; each list has a process for itself. Each kernel
 * has every second of them, by turns of the seed. What a kernel without TCX has alone, one with TCX does as the machine's own.
 */
function programsIn(kernel: KernelVersion, own: number): readonly (readonly string[])[] {
  const room = 'guards/bpf-programs/kernel';
  const withoutTcx = [
    [`${room}/tenant/tenant.test.ts`, `${room}/versions.test.ts`],
    [
      ...['load', 'maps'].map((name) => `${room}/load/${name}.test.ts`),
      ...['map-events', 'maps', 'reading'].map((name) => `${room}/running/${name}.test.ts`),
    ],
  ];
  return [
    ...alternate(
      [
        [
          'guards/bpf-programs/node/application.deep.test.ts',
          'guards/bpf-programs/node/uprobe-files.test.ts',
        ],
        [`${room}/chain/chains.test.ts`, `${room}/running/interface-programs.test.ts`],
        [restarts],
        [volumes],
      ],
      own,
    ),
    ...(kernel === '6.1' ? alternate(withoutTcx, own) : []),
  ];
}

/**
 * All modes find what the table says; what raw_tracepoint says of processes and files was proven on the machine itself, and differs by
 * kernel. By turns of the seed, one kernel proves them, and the other the changes. fentry and kprobe are attached to the same functions: one
 * of these two is proven.
 */
function cellsOf(own: number): readonly Cell[] {
  const modeOfFacts = (['fentry', 'kprobe'] as const)[(seed >> 1) & 1];
  const ofFacts = alternate([facts], own).flat();
  const ofChanges = alternate([changes], own + 1);
  return sensorModeNames.flatMap((mode) =>
    [[operations], ...(mode === modeOfFacts ? ofFacts : []), ...(mode === 'kprobe' ? ofChanges : [])].map(
      (files) => ({
        mode,
        files,
      }),
    ),
  );
}

/**
 * A look with those capabilities that deploy/ gives to the guards that have the sensor, and before it, where it is deep, one with all. One
 * after the other: each would see what the other reads.
 */
function lookCommand(): string {
  const capabilities = [fileAccess, fileIntegrity].flatMap(({ pod }) => pod?.capabilities ?? []);
  const names = [...new Set(capabilities.map(({ name }) => `+${name.toLowerCase()}`))];
  const all = `env RAMPART_SENSOR_MODE=fentry node ${look}`;
  const few = `setpriv --bounding-set=-all,${names.join()} --inh-caps=-all --no-new-privs ${all}`;
  return isDeep ? `${all} && ${few}` : few;
}

interface Part {
  readonly text: string;
  readonly exitCode: number;
  readonly seconds: number;
}

/** The outcome of each command, by its number. */
function partsOf(output: string): readonly (Part | undefined)[] {
  const pattern = new RegExp(`^${MARK} begins (\\d+)\n([^]*?)^${MARK} ends with (\\d+) after (\\d+)\n`, 'gm');
  const parts: Part[] = [];
  for (const [, number, text = '', code, seconds] of output.matchAll(pattern))
    parts[Number(number)] = { text, exitCode: Number(code), seconds: Number(seconds) };
  return parts;
}

/** Fails with the guest's whole output; prints what was skipped there, and how long it took. */
function passes(t: TestContext, part: Part | undefined): string {
  assert.ok(part, 'it did not run: the kernel ended before');
  const { text, exitCode, seconds } = part;
  assert.equal(exitCode, 0, remarkable(text) || text.slice(-4000));
  t.diagnostic(`${seconds} s in the guest`);
  for (const line of text.split('\n').filter((one) => one.includes('﹣')))
    t.diagnostic(`skipped in the guest: ${line.trim()}`);
  return text;
}

/** One process for these files: emulated, the start of one more takes longer than most tests. */
function testCommand(files: readonly string[], names: readonly string[] = []): string {
  const options = names.map((name) => quote(`--test-name-pattern=${name}`));
  const all = [...options, ...files.map(quote)].join(' ');
  return `node --test --test-isolation=none --test-timeout=${TEST_TIMEOUT_MS} --test-reporter=spec ${all}`;
}

/**
 * Strips and compiles the guest's code on the machine, into the cache that both read: emulated, a process
 * spends longer on that than on its tests. With another V8 or other CPU features than the machine's the guest
 * finds nothing there and does it by itself.
 */
function compileFor(files: readonly string[], cache: string): void {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--test', '--test-isolation=none', '--test-name-pattern=no test is called so', ...files],
    { cwd: checkout, encoding: 'utf8', env: { ...process.env, NODE_COMPILE_CACHE: cache } },
  );
  assert.equal(status, 0, `${stdout}${stderr}`);
}

/**
 * All that is run in this kernel; in `npm test`, in the kernel whose turn it is, the look or one kind of programs: emulated, each of them takes
 * half a minute.
 */
export function kernelSuite(kernel: KernelVersion, release: RegExp): void {
  const own = seed + kernelVersions.indexOf(kernel);
  if (!isDeep && own % kernelVersions.length !== 0) return;
  const chosen = isDeep ? cellsOf(own) : [];
  const hasLook = isDeep || seed % 4 < 2;
  const looks = hasLook ? [lookCommand()] : [];
  const suites = chosen.map(({ mode, files }) => `RAMPART_SENSOR_MODE=${mode} ${testCommand(files)}`);
  // The machine itself proves the network, and may refuse what the probes need.
  const inShort = hasLook ? [] : [[probes]];
  const rooms = isDeep ? [[network, recorded, newFlows], [probes], ...programsIn(kernel, own)] : inShort;
  const others = rooms.map((files) => {
    // The machine has killed them at random.
    const shallower = files.includes(restarts) ? `RAMPART_TEST_DEPTH=${depth / 10} ` : '';
    const kinds = isDeep ? [] : programKinds.map((kind) => `^${kind}$`);
    return `${shallower}${testCommand(files, files.includes(volumes) ? [ofVolumes] : kinds)}`;
  });
  // Neither the look nor a kind of programs writes files that are watched.
  const disk = isDeep ? 'disk' : 'none';
  const cache = process.env['NODE_COMPILE_CACHE'] ?? join(checkout, 'node_modules/.cache/compiled');
  const title = `Debian's kernel ${kernel} (RAMPART_TEST_SEED=${seed})`;
  suite(title, { skip: kernelRunObstacle() ?? false }, () => {
    let run: KernelRun | undefined;
    let failure: unknown;
    const lines: string[] = [];
    let parts: readonly (Part | undefined)[] = [];
    before(
      async () => {
        // The first one takes itself for the main module, which the look must not.
        compileFor([probes, look, ...rooms.flat(), ...chosen.flatMap(({ files }) => files)], cache);
        try {
          run = await runInKernel({
            kernel,
            command: ['sh', 'test/kernel/guest-suites.sh', MARK, disk, ...looks, ...suites, ...others],
            env: { ...depthEnvironment, NODE_COMPILE_CACHE: cache, A_VARIABLE: `it's "quoted" $HOME\n` },
            timeoutMs: TIMEOUT_MS,
            signal: AbortSignal.timeout(TIMEOUT_MS),
            onLine: (line) => lines.push(line),
          });
        } catch (error) {
          // What ran before that is still shown, test by test.
          failure = error;
        }
        parts = partsOf(`${lines.join('\n')}\n`);
      },
      { timeout: TIMEOUT_MS + 60_000 },
    );
    after(() => {
      for (const path of written) rmSync(path, { force: true });
    });

    test('the commands run, writes stay inside, the exit code comes back', () => {
      assert.ifError(failure);
      assert.equal(run?.exitCode, 3, run?.output.slice(-4000));
      assert.equal(run.output, `${lines.join('\n')}\n`);
      assert.equal(parts.length, looks.length + suites.length + others.length);
      for (const path of written) assert.ok(!existsSync(path), `${path} reached the host`);
    });

    if (hasLook) {
      test("the guest is what it should be, and the agent's capabilities load both objects", (t) => {
        const seen = passes(t, parts[0])
          .trimEnd()
          .split('\n')
          .map((line) => guestSees(line, release, disk));
        const few = seen.at(-1);
        assert.ok(few);
        // With the types of the module, or the file would be known by less.
        assert.match(few.identity, /^\d+ \d+ \d+$/);
        // Debian requires CAP_SYS_ADMIN to open perf events for kprobes (kernel.perf_event_paranoid = 3).
        assert.deepEqual(few.modes, ['fentry', 'raw_tracepoint']);
        for (const all of seen.slice(0, -1)) assert.deepEqual(all, { ...few, modes: ['fentry', 'kprobe'] });
      });
    }

    for (const [at, files] of rooms.entries()) {
      test(files.join(', '), (t) => {
        const text = passes(t, parts[looks.length + suites.length + at]);
        if (files.includes(recorded)) assert.match(text, /^✔ this kernel can what is recorded of it /m);
        if (files.includes(network)) assert.match(text, /^ℹ skipped 0$/m);
        if (files.includes(volumes)) assert.match(text, /^ℹ pass 1$/m);
        for (const kind of files.includes(probes) ? programKinds : [])
          assert.match(text, new RegExp(`ℹ ${kind}: runs`));
      });
    }

    for (const [at, { mode, files }] of chosen.entries()) {
      test(`${mode}: ${files.join(', ')}`, (t) => {
        const text = passes(t, parts[looks.length + at]);
        const passed = Number(/^ℹ pass (\d+)$/m.exec(text)?.[1] ?? 0);
        assert.ok(
          passed >= (files.includes(operations) ? 38 : 2),
          `only ${passed} tests ran:\n${text.slice(-4000)}`,
        );
      });
    }
  });
}
