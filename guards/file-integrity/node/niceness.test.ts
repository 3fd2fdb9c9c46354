import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readAideConf } from '../aide-conf/evaluate.ts';
import { noEnvironment } from '../aide-conf/conf.ts';
import { Scanner } from '../scan/scanner.ts';

/** Nicenesses of the threads of this process (proc(5), stat: the 19th field). */
function nicenesses(): number[] {
  return readdirSync('/proc/self/task').map((tid) => {
    const stat = readFileSync(`/proc/self/task/${tid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
  });
}

test('the threads of a scan have a low priority, and no other thread has', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-nice-'));
  try {
    mkdirSync(join(directory, 'etc'));
    writeFileSync(join(directory, 'etc/file'), 'x');
    const before = nicenesses().filter((niceness) => niceness === 19).length;
    await using scanner = new Scanner({ root: { directory, prefix: '' }, workers: 1, niceness: 19 });
    const conf = readAideConf('aide.conf', '/etc sha256\n', noEnvironment);
    const [stream = []] = scanner.scan([conf], { signal: new AbortController().signal });
    let count = 0;
    for await (const batch of stream) count += batch.length;
    assert.equal(count, 2);
    assert.equal(scanner.runningThreads, 1);
    assert.equal(nicenesses().filter((niceness) => niceness === 19).length, before + 1);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
