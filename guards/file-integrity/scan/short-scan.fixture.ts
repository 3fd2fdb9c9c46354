/** A process that gives up a scan after argv[3] milliseconds, of the directory argv[2], and ends at once. */
import { confOf } from './scan.fixture.ts';
import { Scanner } from './scanner.ts';

const [, , directory = '', afterMs = ''] = process.argv;
const stop = new AbortController();
setTimeout(() => stop.abort(), Number(afterMs));
await using scanner = new Scanner({ root: { directory, prefix: '' }, workers: 2 });
try {
  for (const stream of scanner.scan([confOf('/ sha256')], { signal: stop.signal })) {
    for await (const _batch of stream);
  }
} catch (error) {
  if (!stop.signal.aborted) throw error;
}
