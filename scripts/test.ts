/**
 * Runs the tests: all of them, or those of the folders and files named.
 *
 *     node scripts/test.ts                     every *.test.ts
 *     node scripts/test.ts lib/ebpf         one room
 *     node scripts/test.ts lib/ebpf/map.test.ts
 *     node scripts/test.ts --record            all, and how long each took goes to test-durations.json
 *
 * It is node's own runner and its spec reporter; added is a list of what was skipped and why, just
 * before the totals, where nobody overlooks it, and at the end the files that took longest and, last,
 * those that failed, with the command that runs them again.
 */
import { globSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { Readable } from 'node:stream';
import { run } from 'node:test';
import { spec, type TestEvent } from 'node:test/reporters';

import { depthEnvironment } from '../lib/testing/depth.fixture.ts';

const folders = ['apps', 'bench', 'guard', 'guards', 'lib', 'scripts', 'test'];
const top = dirname(import.meta.dirname);

/** Booting a kernel by software emulation takes its time; what takes longer than this hangs. */
const timeoutMs = 40 * 60_000;
/** Two more than the cores that are taken into account: in most of the long ones something is waited for. */
const concurrency = Math.min(2, availableParallelism()) + 2;
/** How long each file took, in seconds, when somebody recorded it: those that take long are begun first. */
const durationsFile = join(top, 'scripts/test-durations.json');
/** Not worth a line there. */
const LEAST_RECORDED_S = 2;
const SLOWEST_SHOWN = 10;

/** Tells the reporter of every skipped test once more, before the totals. */
async function* withSkipped(events: AsyncIterable<TestEvent>): AsyncGenerator<TestEvent> {
  const skipped: string[] = [];
  for await (const event of events) {
    if (event.type === 'test:pass' && event.data.skip !== undefined && event.data.skip !== false) {
      const { file, name, skip } = event.data;
      const where = file === undefined ? '' : `${relative(top, file)}: `;
      skipped.push(`${where}${name}: ${skip === true ? 'no reason given' : skip}`);
    }
    if (event.type === 'test:diagnostic' && /^tests \d+$/.test(event.data.message)) {
      for (const message of skipped.splice(0)) {
        yield { type: 'test:diagnostic', data: { ...event.data, message: `skipped: ${message}` } };
      }
    }
    yield event;
  }
}

const isObjecting = process.argv.includes('--record');
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
  path.endsWith('.test.ts') ? path : `${relative(top, path)}/**/*.test.ts`.replace(/^\//, ''),
);
const recorded = JSON.parse(readFileSync(durationsFile, 'utf8')) as Record<string, number>;
const files = globSync(patterns, { cwd: top, exclude: ['**/node_modules'] }).toSorted(
  (a, b) => (recorded[b] ?? 0) - (recorded[a] ?? 0) || (a < b ? -1 : 1),
);
// Some 450 processes load much the same modules: half of the CPU time of a small file is stripping types and compiling.
process.env['NODE_COMPILE_CACHE'] ??= join(top, 'node_modules/.cache/compiled');
// All files of a run have one seed, so that one number repeats it.
Object.assign(process.env, depthEnvironment);
const settings = Object.entries(depthEnvironment).map((setting) => setting.join('='));
process.stdout.write(`${settings.join(' ')}\n`);

const tests = run({
  cwd: top,
  files: files.map((file) => join(top, file)),
  concurrency,
  timeout: timeoutMs,
  signal: stop.signal,
});
const seconds = new Map<string, number>();
const failed = new Set<string>();
tests.on('test:summary', ({ file, success, counts, duration_ms }) => {
  // One summary for each file, and one without a file for all.
  if (file !== undefined) {
    seconds.set(relative(top, file), Math.round(duration_ms / 1000));
    if (!success) failed.add(relative(top, file));
  } else if (!success || counts.tests === 0) process.exitCode = 1;
});
// A process that dies or takes too long has no summary.
tests.on('test:fail', ({ file, nesting }) => {
  if (nesting === 0 && file?.endsWith('.test.ts')) failed.add(relative(top, file));
});
const report = Readable.from(withSkipped(tests)).pipe(spec());
report.once('end', () => {
  process.stdout.write('slowest:\n');
  const slowest = [...seconds].toSorted(([, a], [, b]) => b - a);
  for (const [file, duration] of slowest.slice(0, SLOWEST_SHOWN)) {
    process.stdout.write(`${String(duration).padStart(4)} s  ${file}\n`);
  }
  const again = `${settings.join(' ')} npm test`;
  if (failed.size === 0) process.stdout.write(`again: ${again}\n`);
  else
    process.stdout.write(
      `failed, with details above:\n${[...failed].map((file) => `  ${again} -- ${file}\n`).join('')}`,
    );
  if (!isObjecting) return;
  const all = Object.entries({ ...recorded, ...Object.fromEntries(seconds) }).filter(
    ([file, duration]) =>
      duration >= LEAST_RECORDED_S && statSync(join(top, file), { throwIfNoEntry: false }) !== undefined,
  );
  const sorted = Object.fromEntries(all.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  writeFileSync(durationsFile, `${JSON.stringify(sorted, undefined, 2)}\n`);
});
report.pipe(process.stdout);
