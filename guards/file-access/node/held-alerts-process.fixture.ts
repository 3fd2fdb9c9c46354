// Holds alerts in the directory, passes some on, says what it passed, and waits for its end.
import { HeldBench } from './held-alerts.fixture.ts';

const [directory = '', known = '', unknown = ''] = process.argv.slice(2);
const bench = new HeldBench(directory, 600_000);
for (const [at, cgroup] of [known, known, unknown, '/', unknown].entries()) bench.add(`${at}`, cgroup);
bench.notify('web', known.slice(known.lastIndexOf('/') + 1));
process.stdout.write(`${bench.who.join()}\n`);
setInterval(() => undefined, 1000);
