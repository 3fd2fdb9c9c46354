/**
 * Measures the store: `node lib/apiserver/store/measure.fixture.ts [--writer thread|inline] [PART...]`.
 * Figures are for reading; they depend on the disk below the temporary directory (TMPDIR).
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { parseArgs } from 'node:util';

import { openStore, type Store } from './store.ts';
import { key } from './store.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { writer: { type: 'string', default: 'thread' }, fill: { type: 'string' } },
});
const writer = values.writer === 'inline' ? 'inline' : 'thread';
const filler = 'x'.repeat(1900);

function object(name: string): Parameters<Store['create']>[0] {
  const before = '{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"';
  const after = `","name":"${name}","namespace":"default"},"spec":{"filler":"${filler}"}}`;
  return { ...key(name), uid: `6f7f9d4c-0000-4000-8000-${name.padStart(12, '0')}`, text: { before, after } };
}

function say(what: string, figures: Record<string, number | string>): void {
  const shown = Object.entries(figures).map(
    ([name, figure]) => `${name} ${typeof figure === 'number' ? figure.toPrecision(4) : figure}`,
  );
  process.stdout.write(`${writer}, ${what}: ${shown.join(', ')}\n`);
}

function percentile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;
}

/** VmRSS of this process, in MiB. */
function rssMiB(): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024;
}

async function createMany(store: Store, writers: number, count: number, prefix: string): Promise<number[]> {
  let next = 0;
  const latenciesMs: number[] = [];
  await Promise.all(
    Array.from({ length: writers }, async () => {
      while (next < count) {
        const startMs = performance.now();
        await store.create(object(`${prefix}${next++}`));
        latenciesMs.push(performance.now() - startMs);
      }
    }),
  );
  return latenciesMs.sort((a, b) => a - b);
}

async function creates(writers: number, count: number): Promise<void> {
  using directory = new TemporaryDirectory();
  await using store = openStore({ path: directory.at('db'), writer });
  await createMany(store, writers, 200, 'warm');
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const before = store.counters.commits;
  const startMs = performance.now();
  const latenciesMs = await createMany(store, writers, count, 'o');
  const tookMs = performance.now() - startMs;
  delay.disable();
  say(`${writers} writers`, {
    'creates/s': (count / tookMs) * 1000,
    'ms p50': percentile(latenciesMs, 0.5),
    p99: percentile(latenciesMs, 0.99),
    'writes a commit': count / (store.counters.commits - before),
    'event loop pause ms p99': delay.percentile(99) / 1e6,
    max: delay.max / 1e6,
  });
}

/** In a process of its own, so that what the creates needed is not counted. */
async function lists(): Promise<void> {
  using directory = new TemporaryDirectory();
  const path = directory.at('db');
  const fill = [import.meta.filename, '--fill', path];
  spawnSync(process.execPath, fill, { stdio: 'inherit' });
  const baseMiB = rssMiB();
  const openMs = performance.now();
  await using store = openStore({ path, writer });
  const openedMs = performance.now();
  await store.create(object('first'));
  say('open with 10,000 objects of 2 kB', {
    ms: openedMs - openMs,
    'ms to the first write done': performance.now() - openMs,
    'RSS MiB': rssMiB(),
    'before it': baseMiB,
  });
  for (let round = 0; round < 3; round++) {
    const startMs = performance.now();
    let pages = 0;
    let token: string | undefined;
    let longestMs = 0;
    do {
      const pageMs = performance.now();
      const page = store.list('pods', { limit: 500, continue: token });
      token = page.continue;
      pages++;
      longestMs = Math.max(longestMs, performance.now() - pageMs);
      // From the second page on it is an earlier version.
      if (pages === 1) await store.create(object(`later${round}`));
    } while (token !== undefined);
    const pagedMs = performance.now();
    say('list in pages of 500', { ms: pagedMs - startMs, 'longest page': longestMs, 'RSS MiB': rssMiB() });
  }
  for (let round = 0; round < 3; round++) {
    const startMs = performance.now();
    const { items } = store.list('pods');
    say(`list of ${items.length} at once`, { ms: performance.now() - startMs, 'RSS MiB': rssMiB() });
  }
  for (let round = 0; round < 3; round++) {
    const cpu = process.cpuUsage();
    const startMs = performance.now();
    let bytes = 0;
    let longestMs = 0;
    let partMs = startMs;
    for (const part of store.listTexts('pods').parts) {
      bytes += part.length;
      longestMs = Math.max(longestMs, performance.now() - partMs);
      partMs = performance.now();
    }
    const { user, system } = process.cpuUsage(cpu);
    say(`texts of ${bytes} bytes`, {
      ms: performance.now() - startMs,
      'CPU ms': (user + system) / 1000,
      'longest part': longestMs,
      'RSS MiB': rssMiB(),
    });
  }
  const getMs = performance.now();
  for (let n = 0; n < 10_000; n++) store.get('pods', 'default', `o${n}`);
  say('get', { us: (performance.now() - getMs) / 10 });
}

async function watches(): Promise<void> {
  using directory = new TemporaryDirectory();
  await using store = openStore({ path: directory.at('db'), writer });
  const stop = new AbortController();
  const sentMs = new Map<string, number>();
  const latenciesMs: number[] = [];
  const readers = Array.from({ length: 100 }, async () => {
    for await (const changes of store.watch('pods', { fromVersion: store.version, signal: stop.signal })) {
      const nowMs = performance.now();
      for (const { object: seen } of changes) latenciesMs.push(nowMs - (sentMs.get(seen.name) ?? NaN));
    }
  });
  const cpu = process.cpuUsage();
  const startMs = performance.now();
  const writes: Promise<unknown>[] = [];
  while (writes.length < 5000) {
    const due = ((performance.now() - startMs) / 1000) * 500;
    while (writes.length < due) {
      const name = `o${writes.length}`;
      sentMs.set(name, performance.now());
      writes.push(store.create(object(name)));
    }
    await new Promise((resolve) => {
      setTimeout(resolve, 1);
    });
  }
  await Promise.all(writes);
  const { user, system } = process.cpuUsage(cpu);
  const tookMs = performance.now() - startMs;
  stop.abort();
  await Promise.all(readers);
  latenciesMs.sort((a, b) => a - b);
  say('500 writes/s to 100 watchers, from the call of create', {
    events: String(latenciesMs.length),
    'ms p50': percentile(latenciesMs, 0.5),
    p99: percentile(latenciesMs, 0.99),
    max: percentile(latenciesMs, 1),
    'CPU %': (user + system) / tookMs / 10,
  });
}

const parts: Readonly<Record<string, () => Promise<void>>> = {
  creates: async () => {
    await creates(1, 2000);
    await creates(48, 10_000);
    await creates(100, 20_000);
  },
  lists,
  watches,
};
if (values.fill !== undefined) {
  await using store = openStore({ path: values.fill });
  await createMany(store, 100, 10_000, 'o');
} else {
  for (const [name, part] of Object.entries(parts)) {
    if (positionals.length === 0 || positionals.includes(name)) await part();
  }
}
