/**
 * A receiver that writes down what it has taken, a batch a line, and kills itself.
 *
 *     node kill-receiver.fixture.ts PORT FILE BATCHES before|after
 *
 * At that many batches it dies, before it has written the last one down or after that, in both cases without an answer;
 * 0 is never.
 */
import { appendFileSync, writeSync } from 'node:fs';

import { accept, OtlpReceiver } from './receiver.fixture.ts';

const [port = '', file = '', batches = '', when = ''] = process.argv.slice(2);
const receiver = await OtlpReceiver.start({ port: Number(port) });
let left = Number(batches);
receiver.manners = (received, ...exchange) => {
  const isLast = --left === 0;
  if (isLast && when === 'before') process.kill(process.pid, 'SIGKILL');
  appendFileSync(file, `${JSON.stringify(received.bodies)}\n`);
  if (isLast) process.kill(process.pid, 'SIGKILL');
  accept(received, ...exchange);
};
writeSync(1, 'listening\n');
