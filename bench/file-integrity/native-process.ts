/**
 * The work of `rampart` for an init, a check or a look, as a process of its own: `node native-process.ts
 * DIRECTORY WHAT RULES`. DIRECTORY has the tree, and gets the baseline. Prints one line of JSON.
 */
import { join } from 'node:path';

import type { SigningKey } from '../../guards/file-integrity/database/signature.ts';
import { ThreadPool } from '../../guards/file-integrity/scan/thread-pool.ts';

const LOOKS = 200;

export interface NativeResult {
  readonly entries: number;
  readonly differences: number;
  /** The largest it was, of all threads. */
  readonly rssMiB: number;
  /** For `look`: one look at one file. */
  readonly lookCpuMs: number;
  /** CPU time of the scan, without starting Node.js; of all threads. */
  readonly scanCpuMs: number;
}

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

const [directory = '', what = '', rules = ''] = process.argv.slice(2);
const startMs = cpuMs();
const threads = new ThreadPool({ root: { directory: join(directory, 'tree'), prefix: '' }, workers: 2 });
// As the command does: they start while the rest is loaded.
if (what === 'init' || what === 'check') threads.startAll();
const [{ confOf }, { onlyEntries }, { Scanner }] = await Promise.all([
  import('../../guards/file-integrity/scan/scan.fixture.ts'),
  import('../../guards/file-integrity/database/entry-block.ts'),
  import('../../guards/file-integrity/scan/scanner.ts'),
]);
const key: SigningKey = { scheme: 'hmac-sha256', secret: Buffer.alloc(32, 7) };
const path = join(directory, 'baseline');
const conf = confOf(rules);
const { signal } = new AbortController();
let [entries, differences, lookCpuMs] = [0, 0, 0];

await using scanner = new Scanner(threads);
if (what === 'init') {
  const { writeBaseline } = await import('../../guards/file-integrity/database/write-baseline.ts');
  const [stream = []] = scanner.scan([conf], { signal, isLast: true });
  const written = await writeBaseline({
    path,
    key,
    header: { rampartVersion: '0.1.0', madeAtMs: 0, configDigest: '' },
    entries: onlyEntries(stream, ({ path: unread }) => {
      throw new Error(`${unread} cannot be read`);
    }),
  });
  ({ entries } = written);
} else if (what === 'check') {
  const [{ openBaseline }, { Comparison }] = await Promise.all([
    import('../../guards/file-integrity/database/read-baseline.ts'),
    import('../../guards/file-integrity/compare/compare.ts'),
  ]);
  await using baseline = await openBaseline(path, key);
  const [now = []] = scanner.scan([conf], { signal });
  const comparison = new Comparison({
    old: baseline.entries(),
    now,
    oldAttributes: baseline.counts.attributes,
    digestStart: (entry, bytes) => scanner.digestStart(entry, bytes, signal),
  });
  for await (const batch of comparison) differences += batch.length;
  ({ entries } = comparison.totals);
} else {
  for (let i = -20; i < LOOKS; i++) {
    if (i === 0) lookCpuMs = -cpuMs();
    for await (const batch of scanner.look(conf, [{ path: what, below: false }], { signal }))
      entries += batch.length;
  }
  lookCpuMs = (lookCpuMs + cpuMs()) / LOOKS;
}
const result: NativeResult = {
  entries,
  differences,
  rssMiB: process.resourceUsage().maxRSS / 1024,
  lookCpuMs,
  scanCpuMs: cpuMs() - startMs,
};
process.stdout.write(`${JSON.stringify(result)}\n`);
