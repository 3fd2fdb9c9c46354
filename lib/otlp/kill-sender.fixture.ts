/**
 * A process that queues lines and sends them until it is killed, and says of each that it was taken.
 *
 *     node kill-sender.fixture.ts DIRECTORY URL ROUND COUNT
 */
import { writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

import { openQuick } from './receiver.fixture.ts';

const TURN = 100;
const [directory = '', url = '', round = '', count = ''] = process.argv.slice(2);
const exporter = openQuick(directory, new URL(url));
for (let index = 0; index < Number(count);) {
  for (let more = 0; more < TURN && index < Number(count); more++, index++) {
    // Sorted as text they are in the order of their making.
    const line = `${round.padStart(3, '0')}-${String(index).padStart(7, '0')}`;
    if (!exporter.push(line)) throw new Error(`${line} was refused`);
    writeSync(1, `${line}\n`);
  }
  await delay(2);
}
setInterval(() => undefined, 60_000);
