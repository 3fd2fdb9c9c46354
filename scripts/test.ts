/**
 * Runs the tests: all of them, or those of the folders and files named.
 *
 *     node scripts/test.ts                     every *.test.ts, of the long ones those whose turn it is (test-turns.ts)
 *     node scripts/test.ts lib/ebpf            one room
 *     node scripts/test.ts lib/ebpf/map.test.ts
 *     node scripts/test.ts --record            all, and how long each took goes to test-durations.json, or test-durations.deep.json
 *
 * It is node's own runner and its spec reporter. Small files share a process (test-batches.ts). Before the totals stands what
 * was skipped and why; at the end the files that took longest and, last, each test that failed, with the command that runs
 * its file again.
 */
import {
  accessSync,
  constants,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { Readable } from 'node:stream';
import { run } from 'node:test';
import { spec, type TestEvent } from 'node:test/reporters';

import { depthEnvironment, isDeep, seed } from '../lib/testing/depth.fixture.ts';
import { type Batch, batchesOf, batchModule } from './test-batches.ts';
import { asText, TestReport, withSkipped } from './test-report.ts';
import { filesInTurn, turnOf, TURNS } from './test-turns.ts';

const folders = ['apps', 'bench', 'guard', 'guards', 'lib', 'scripts', 'test', 'ui'];
const top = dirname(import.meta.dirname);

/** Booting a kernel by software emulation takes its time; what takes longer than this hangs. */
const timeoutMs = (isDeep ? 40 : 10) * 60_000;
/**
 * More than the cores that are taken into account: most of the long ones wait for more than half of their time. Deep, the two longest are
 * emulators, which never wait.
 */
const concurrency = Math.min(2, availableParallelism()) + (isDeep ? 2 : 3);
/** The recorded duration of each file, in seconds: slow ones are started first. */
const durationsFile = join(top, `scripts/test-durations${isDeep ? '.deep' : ''}.json`);
/** Not worth a line there. */
const MIN_RECORDED_S = 2;

const isRecording = process.argv.includes('--record');
const named = process.argv.slice(2).filter((argument) => argument !== '--record');
for (const path of named) {
  if (statSync(path, { throwIfNoEntry: false }) !== undefined) continue;
  process.stderr.write(`test: there is no ${path}. Name a folder (lib/ebpf) or a *.test.ts file.\n`);
  process.exit(2);
}

const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    process.exitCode = 1;
    stop.abort();
  });
}

const patterns = (named.length > 0 ? named : folders).map((path) =>
  path.endsWith('.test.ts') ? relative(top, path) : `${relative(top, path)}/**/*.test.ts`.replace(/^\//, ''),
);
const found = globSync(patterns, { cwd: top, exclude: ['**/node_modules'] }).filter(
  (file) => isDeep || !file.endsWith('.deep.test.ts') || named.some((path) => relative(top, path) === file),
);
const recorded = JSON.parse(readFileSync(durationsFile, 'utf8')) as Record<string, number>;
const hasTurns = named.length === 0 && !isDeep && !isRecording;
const files = hasTurns ? filesInTurn(found, { recorded, turn: turnOf(seed) }) : found;

// Modes of files are compared in many tests: they must not depend on the user.
process.umask(0o022);
// All files of a run have one seed, so that one number repeats it.
Object.assign(process.env, depthEnvironment);
const settings = Object.entries(depthEnvironment)
  .map((setting) => setting.join('='))
  .join(' ');
process.stdout.write(`${settings}\n`);
if (files.length < found.length) {
  const waiting = found.length - files.length;
  process.stdout.write(
    `turn ${turnOf(seed) + 1} of ${TURNS}: ${waiting} of ${found.length} files have another turn; the remainder of the seed by ${TURNS} says which\n`,
  );
}

// A single file runs without a batch: a debugger is attached to its process.
const batches = files.length === 1 ? [{ files, seconds: 0 }] : batchesOf(files, { top, recorded });
const modules = mkdtempSync(join(tmpdir(), 'rampart-batches-'));
// The processes load much the same modules: half of the CPU time of a small file is stripping types and
// compiling. In a read-only checkout, the cache is for this run only: no other user may write code that root
// loads.
process.env['NODE_COMPILE_CACHE'] ??= join(
  isWritable(top) ? join(top, 'node_modules/.cache') : modules,
  'compiled',
);
const filesOf = new Map<string, readonly string[]>();
const entries = batches.map((batch, at) => entryOf(batch, at));

function entryOf(batch: Batch, at: number): string {
  if (batch.files.length === 1) return join(top, batch.files[0] ?? '');
  const module = join(modules, `batch-${at}.mjs`);
  writeFileSync(module, batchModule(batch, top));
  filesOf.set(module, batch.files);
  return module;
}

const report = new TestReport(top, filesOf);
const tests = run({ cwd: top, files: entries, concurrency, timeout: timeoutMs, signal: stop.signal });
tests.on('test:summary', ({ file, success, counts }) => {
  // One summary for each process, and one without a file for all.
  if (file === undefined && (!success || counts.tests === 0)) process.exitCode = 1;
});

async function* recordedIn(events: AsyncIterable<TestEvent>): AsyncGenerator<TestEvent> {
  for await (const event of events) {
    report.add(event);
    yield event;
  }
}

const text = Readable.from(asText(Readable.from(withSkipped(recordedIn(tests), top)).pipe(spec())));
text.once('end', () => {
  rmSync(modules, { recursive: true, force: true });
  process.stdout.write(`${report.lines(settings, named).join('\n')}\n`);
  process.stdout.write(`CPU: ${childCpuSeconds()} s\n`);
  if (report.hasFailed) process.exitCode = 1;
  if (isRecording) record();
});
text.pipe(process.stdout);

function record(): void {
  const all = Object.entries({ ...recorded, ...Object.fromEntries(report.seconds) }).filter(
    ([file, duration]) =>
      duration >= MIN_RECORDED_S && statSync(join(top, file), { throwIfNoEntry: false }) !== undefined,
  );
  const sorted = Object.fromEntries(all.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  writeFileSync(durationsFile, `${JSON.stringify(sorted, undefined, 2)}\n`);
}

/** For all awaited processes, and those that these awaited: proc(5), cutime and cstime, in 1/100 s. */
function childCpuSeconds(): number {
  const stat = readFileSync('/proc/self/stat', 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Math.round((Number(fields[13]) + Number(fields[14])) / 100);
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
