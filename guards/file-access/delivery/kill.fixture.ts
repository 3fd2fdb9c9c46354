/**
 * A process that queues and delivers alerts until it is killed, and says of each that it was taken.
 *
 *     node kill.fixture.ts DIRECTORY ROUND PACE CALLBACK...
 *
 * PACE is `fast`, or `clock` for one in which a second passes with each turn and not by itself.
 */
import { writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { openDelivery } from './delivery.ts';
import { lineOf, quickOptions } from './receiver.fixture.ts';

const [directory = '', round = '', pace = '', ...callbacks] = process.argv.slice(2);
const clock = new ManualClock();
const delivery = openDelivery({
  ...quickOptions(directory),
  ...(pace === 'clock' && { clock, backoff: { baseMs: 500, maxMs: 60_000, jitter: 0.5 } }),
});
for (let turn = 0, count = 0; ; turn++) {
  for (let index = 0; index < 1 + (turn % 7); index++) {
    for (const [number, callback] of callbacks.entries()) {
      // Sorted as text they are in the order of their making.
      const id = `${number}-${round.padStart(3, '0')}-${String(count).padStart(7, '0')}`;
      if (!delivery.enqueue(callback, id, lineOf(id))) throw new Error(`${id} was refused`);
      writeSync(1, `${id}\n`);
    }
    count++;
  }
  if (pace === 'clock') {
    await clock.advance(1000);
    writeSync(1, `second ${delivery.stats.retried}\n`);
  }
  await delay(2);
}
