/** An hour of `rampart standalone --ui` with all guards, and something to find all the time, with and without a page: is memory flat? */
import { type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposableSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

import type { CDPSession } from 'playwright-core';

import { Shell } from '../../test/docs/shell.fixture.ts';
import { startThrowawayNode, type ThrowawayNode } from '../../test/lab/throwaway-node.ts';
import { openBrowser, openPage } from '../../ui/ui-process.fixture.ts';
import { endProcess } from '../end-process.ts';
import { requirePrograms } from '../programs.ts';
import type { PartOptions, Report, ReportRow } from '../report.ts';
import type { ProbedMemory } from './heap-probe.ts';
import { filled, loadScript, untilGuarded } from './load.ts';

const MARKS = 6;
const MINUTES_BETWEEN = 10;
const EVERY_S = 10;
/** Fills what keeps findings: 1,000 of each kind in the process, 20,000 in the page. */
const FILL = { steps: 3_000, everyS: 0.1 };
/** The changes of the fill are kept for watches until then. */
const WARM_MARKS = 2;
const TARGET_MB_PER_MINUTE = 0.05;
/** RSS swings by some MB with what the allocators keep: a slope of it says little. */
const TARGET_RSS_RATIO = 1.05;
const MB = 1024 * 1024;

interface Mark extends ProbedMemory {
  readonly minute: number;
  /** Bytes before the collection: what a user sees. */
  readonly seenRss: number;
  /** Bytes of the page's heap after a collection. */
  readonly page?: number;
}

interface PageMemory extends AsyncDisposable {
  /** Bytes after a collection. */
  read(): Promise<number>;
}

/** @throws {MissingPrograms}; {Error} as the node does. */
export async function hour({ shrink, signal, progress }: PartOptions): Promise<Report> {
  requirePrograms({ chromium: 'chromium', curl: 'curl', kubectl: 'kubernetes-client' });
  const kinds = ['no page', 'a page'] as const;
  // At the same time: on nodes of their own.
  const all = await Promise.all(
    kinds.map((kind, at) =>
      measure({ hasPage: at === 1, shrink, signal, say: (text) => progress(`hour, ${kind}: ${text}`) }),
    ),
  );
  const rows = kinds.flatMap((kind, at) => (all[at] ?? []).map((mark) => rowOf(kind, mark)));
  return {
    title: `${MARKS * MINUTES_BETWEEN} minutes with ${(60 / EVERY_S).toFixed(0)} findings of each kind a minute${shrink === 1 ? '' : `, ${shrink} times as fast`}`,
    columns: ['RSS MB', 'collected', 'heap', 'native', 'page'],
    rows,
    verdicts: kinds.flatMap((kind, at) => verdictsOf(kind, (all[at] ?? []).slice(WARM_MARKS))),
    notes: [
      'RSS before a collection, and after it; of that the heap of V8 that is in use, and buffers beside it. The page: its heap after a collection.',
    ],
  };
}

interface MeasureOptions {
  readonly hasPage: boolean;
  readonly shrink: number;
  readonly signal: AbortSignal;
  readonly say: (text: string) => void;
}

async function measure({ hasPage, shrink, signal, say }: MeasureOptions): Promise<Mark[]> {
  await using stack = new AsyncDisposableStack();
  say('a node with three pods');
  const node = stack.use(await startThrowawayNode({ signal }));
  const shell = stack.use(new Shell(node));
  await shell.run('mkdir -p /var/lib/rampart; cp examples/count.bpf.o /var/lib/rampart');
  const server = stack.adopt(await startStandalone(node), (child) => endProcess(child, 20_000));
  const pid = server.pid ?? 0;
  if (!(await shell.run(untilGuarded)).isWell) throw new Error('the examples are not guarded');
  const page = hasPage ? stack.use(await openUi(node, shell)) : undefined;
  const probe = stack.adopt(
    node.spawn([process.execPath, join(import.meta.dirname, 'heap-probe.ts'), String(pid)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    }),
    (child) => endProcess(child, 5_000),
  );
  const answers = createInterface({ input: probe.stdout! })[Symbol.asyncIterator]();
  const loading = stack.use(new Shell(node));
  await loading.run('export KUBECONFIG=/var/lib/rampart/kubeconfig');
  say('findings until the stores are full');
  await loading.start(loadScript(FILL, EVERY_S / shrink), filled);
  const marks: Mark[] = [];
  for (let at = 0; at <= MARKS; at++) {
    if (at > 0) await sleep((MINUTES_BETWEEN * 60_000) / shrink, undefined, { signal });
    if (server.exitCode !== null) throw new Error('rampart standalone has ended');
    const seenRss = rssOf(pid);
    probe.stdin?.write('\n');
    const { value } = (await answers.next()) as { readonly value: string };
    const mark: Mark = {
      ...{ minute: at * MINUTES_BETWEEN, seenRss, ...(JSON.parse(value) as ProbedMemory) },
      ...(page && { page: await page.read() }),
    };
    const { cells } = rowOf('', mark);
    say(
      `minute ${mark.minute}: ${Object.entries(cells)
        .map(([name, cell]) => `${name} ${cell}`)
        .join(', ')}`,
    );
    marks.push(mark);
  }
  return marks;
}

async function startStandalone(node: ThrowawayNode): Promise<ChildProcess> {
  const args = ['--data', '/var/lib/rampart', '-f', 'examples/', '--ui'];
  // No shell is between: its pid is that of the process.
  const child = node.spawn(['rampart', 'standalone', ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
  const lines = createInterface({ input: child.stderr! });
  const ended = once(child, 'exit').then(() => {
    throw new Error('rampart standalone has ended');
  });
  const serving = new Promise<void>((resolve) =>
    lines.on('line', (line) => line.includes('serving https') && resolve()),
  );
  await Promise.race([serving, ended]);
  ended.catch(() => undefined);
  return child;
}

/** In the network of the node, signed in by the token of the viewer. */
async function openUi(node: ThrowawayNode, shell: Shell): Promise<PageMemory> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(mkdtempDisposableSync(join(tmpdir(), 'rampart-hour-')));
  const chromium = join(directory.path, 'chromium');
  writeFileSync(chromium, `#!/bin/sh\nexec '${node.enterPath}' /usr/bin/chromium "$@"\n`, { mode: 0o755 });
  const browser = stack.adopt(await openBrowser(chromium), (one) => one.close());
  const page = await openPage(browser, 'https://127.0.0.1:7443/ui/', { ignoreHTTPSErrors: true });
  const { text: token } = await shell.run('cat /var/lib/rampart/viewer.token');
  await page.getByLabel('Token').fill(token.trim());
  await page.keyboard.press('Enter');
  await page.locator('.answers').waitFor();
  const inspected: CDPSession = await page.context().newCDPSession(page);
  const all = stack.move();
  return {
    async read() {
      await inspected.send('HeapProfiler.collectGarbage');
      return (await inspected.send('Runtime.getHeapUsage')).usedSize;
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function rssOf(pid: number): number {
  const [, kB = '0'] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kB) * 1024;
}

function rowOf(kind: string, { minute, seenRss, rss, heapUsed, external, page }: Mark): ReportRow {
  const values = {
    ...{ minute, seenRssBytes: seenRss, rssBytes: rss, heapUsedBytes: heapUsed, externalBytes: external },
    ...(page !== undefined && { pageBytes: page }),
  };
  const mb = (bytes: number): string => (bytes / MB).toFixed(1);
  return {
    label: `${kind}, minute ${minute}`,
    cells: {
      ...{ 'RSS MB': mb(seenRss), collected: mb(rss), heap: mb(heapUsed), native: mb(external) },
      ...(page !== undefined && { page: mb(page) }),
    },
    values,
  };
}

function verdictsOf(kind: string, marks: readonly Mark[]): Report['verdicts'] {
  const since = `from minute ${WARM_MARKS * MINUTES_BETWEEN} on`;
  const pages = marks.flatMap(({ minute, page }) => (page === undefined ? [] : [{ minute, bytes: page }]));
  const used = marks.map(({ minute, heapUsed, external }) => ({ minute, bytes: heapUsed + external }));
  const slopes = [
    [`${kind}: in use`, slopeOf(used)] as const,
    ...(pages.length > 0 ? [[`${kind}: heap of the page`, slopeOf(pages)] as const] : []),
  ];
  const ratio = (marks.at(-1)?.rss ?? NaN) / (marks[0]?.rss ?? NaN);
  return [
    ...slopes.map(([what, slope]) => ({
      target: `${what}, at most ${TARGET_MB_PER_MINUTE} MB more a minute ${since}`,
      measured: `${slope.toFixed(3)} MB`,
      met: slope <= TARGET_MB_PER_MINUTE,
    })),
    {
      target: `${kind}: RSS at the end at most ${TARGET_RSS_RATIO} x that of minute ${WARM_MARKS * MINUTES_BETWEEN}`,
      measured: `${ratio.toFixed(3)} x`,
      met: ratio <= TARGET_RSS_RATIO,
    },
  ];
}

/** MB a minute, by least squares. */
function slopeOf(marks: readonly { readonly minute: number; readonly bytes: number }[]): number {
  const mean = (all: readonly number[]): number => all.reduce((sum, one) => sum + one, 0) / all.length;
  const [atMean, ofMean] = [
    mean(marks.map(({ minute }) => minute)),
    mean(marks.map(({ bytes }) => bytes / MB)),
  ];
  const above = marks.map(({ minute, bytes }) => (minute - atMean) * (bytes / MB - ofMean));
  return mean(above) / mean(marks.map(({ minute }) => (minute - atMean) ** 2));
}
