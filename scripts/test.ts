/**
 * Runs the tests: all of them, or those of the folders and files named.
 *
 *     node scripts/test.ts                     every *.test.ts
 *     node scripts/test.ts shared/ebpf         one room
 *     node scripts/test.ts shared/ebpf/map.test.ts
 *
 * It is node's own runner and its spec reporter; added is a list of what was skipped and why, just
 * before the totals, where nobody overlooks it.
 *
 * @module
 */
import { globSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { Readable } from 'node:stream';
import { run } from 'node:test';
import { spec, type TestEvent } from 'node:test/reporters';

const folders = ['apps', 'bench', 'scripts', 'shared', 'systems', 'test'];
const top = dirname(import.meta.dirname);

/** Booting a kernel by software emulation takes its time; what takes longer than this hangs. */
const timeoutMs = 20 * 60_000;
/** The kernel suites keep a core busy each. */
const concurrency = Math.min(2, availableParallelism());

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

const named = process.argv.slice(2);
for (const path of named) {
  if (statSync(path, { throwIfNoEntry: false }) !== undefined) continue;
  process.stderr.write(`test: there is no ${path}. Name a folder (shared/ebpf) or a *.test.ts file.\n`);
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
/** These take longest: begun last, one of them would run on by itself. */
const isSlow = (file: string): boolean => file.startsWith('test/kernel/');
const files = globSync(patterns, { cwd: top, exclude: ['**/node_modules'] }).toSorted(
  (a, b) => Number(isSlow(b)) - Number(isSlow(a)) || (a < b ? -1 : 1),
);

const tests = run({
  cwd: top,
  files: files.map((file) => join(top, file)),
  concurrency,
  timeout: timeoutMs,
  signal: stop.signal,
});
tests.on('test:summary', ({ file, success, counts }) => {
  // One summary for each file, and one without a file for all.
  if (file === undefined && (!success || counts.tests === 0)) process.exitCode = 1;
});
Readable.from(withSkipped(tests)).pipe(spec()).pipe(process.stdout);
