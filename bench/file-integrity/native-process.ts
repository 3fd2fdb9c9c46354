/**
 * What `rampart` does for an init, a check or a look, as a process of its own: `node native-process.ts DIRECTORY WHAT RULES`.
 * DIRECTORY has the tree, and gets the baseline. Prints one line of JSON.
 *
 * @module
 */
import { join } from 'node:path';

import { confOf } from '../../systems/file-integrity/scan/scan.fixture.ts';
import { Comparison } from '../../systems/file-integrity/compare.ts';
import { onlyEntries } from '../../systems/file-integrity/database/entry-block.ts';
import { openBaseline } from '../../systems/file-integrity/database/read-baseline.ts';
import { writeBaseline } from '../../systems/file-integrity/database/write-baseline.ts';
import type { SigningKey } from '../../systems/file-integrity/database/signature.ts';
import { Scanner } from '../../systems/file-integrity/scan/scanner.ts';

const LOOKS = 200;

export interface NativeResult {
  readonly entries: number;
  readonly differences: number;
  /** The largest it was, of all threads. */
  readonly rssMiB: number;
  /** Of `look`: one look at one file. */
  readonly lookCpuMs: number;
  /** Of the scan, without starting Node.js and loading the code; of all threads. */
  readonly scanCpuMs: number;
}

const [directory = '', what = '', rules = ''] = process.argv.slice(2);
const key: SigningKey = { scheme: 'hmac-sha256', secret: Buffer.alloc(32, 7) };
const path = join(directory, 'baseline');
const conf = confOf(rules);
const { signal } = new AbortController();
let [entries, differences, lookCpuMs] = [0, 0, 0];

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

const startMs = cpuMs();
await using scanner = new Scanner({ root: { directory: join(directory, 'tree'), prefix: '' }, workers: 2 });
if (what === 'init') {
  const [stream = []] = scanner.scan([conf], { signal });
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
