import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';

/** What the next thread that this process starts says until it has ended. */
export async function saidByNextThread(): Promise<unknown[]> {
  const said: unknown[] = [];
  const [worker] = (await once(process, 'worker')) as [Worker];
  worker.on('message', (message: unknown) => said.push(message));
  await once(worker, 'exit');
  return said;
}
